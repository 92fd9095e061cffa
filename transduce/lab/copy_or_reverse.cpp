// Copying and reversing ask the same of a Transformer, one look at another place for every token, but not in
// the same place: a copy looks along the diagonal, a reversal across it.

#include "transduce/base/text.h"
#include "transduce/decode/alignment.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

constexpr double kLearned = 0.97;
constexpr int64_t kSeeds = 3;

Lesson lesson_for(TaskKind kind, uint64_t seed) {
  Lesson lesson;
  lesson.task.kind = kind;
  lesson.updates = 400;
  lesson.test_every = 20;
  lesson.seed = seed;
  return lesson;
}

// The decoder's mean attention to the source while it writes a string of eight different symbols.
AttentionMatrix attention_of(const Transformer& model, TaskKind kind) {
  std::vector<int32_t> source(8);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = Vocabulary::special_symbols + static_cast<int32_t>(i);
  std::vector<int32_t> output = source;
  if (kind == TaskKind::reverse) std::reverse(output.begin(), output.end());
  return cross_attention(model, {source}, {output}, {})[0];
}

// How many of the eight symbols are written while looking most at their own place in the source, and the
// attention that falls there in the mean.
struct Look {
  int64_t right = 0;
  double share = 0.0;
};
Look look_of(const AttentionMatrix& attention, TaskKind kind) {
  const int64_t symbols = attention.targets - 1;
  Look look;
  for (const auto& [source, target] : alignment(attention, symbols)) {
    const int64_t own = kind == TaskKind::copy ? target : symbols - 1 - target;
    look.right += source == own ? 1 : 0;
    look.share += static_cast<double>(attention.at(target, own)) / static_cast<double>(symbols);
  }
  return look;
}

HeatMap picture_of(const AttentionMatrix& attention, TaskKind kind) {
  HeatMap map;
  map.title = fmt::format("Cross-attention of the {} model", name_of(kind));
  for (int64_t i = 0; i < attention.sources; ++i)
    map.column_labels.push_back(i + 1 == attention.sources ? "</s>"
                                                           : std::string(1, static_cast<char>('a' + i)));
  map.row_labels = map.column_labels;
  if (kind == TaskKind::reverse) std::reverse(map.row_labels.begin(), map.row_labels.end() - 1);
  map.values = attention.weights;
  return map;
}

}  // namespace

Findings copy_or_reverse() {
  Findings findings;
  LineChart chart{{}, "Copying and reversing", "update", "next tokens right, on unseen strings"};
  std::vector<std::string> needed;
  int copy_first = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Numbers updates;  // of copying, of reversing
    for (const TaskKind kind : {TaskKind::copy, TaskKind::reverse}) {
      const Learned learned = learn(lesson_for(kind, seed), fmt::format("{}, seed {}", name_of(kind), seed));
      updates.push_back(first_at(learned.accuracy, kLearned));
      chart.series.push_back(learned.accuracy);
      if (seed != 0) continue;
      const AttentionMatrix attention = attention_of(*learned.model, kind);
      const Look look = look_of(attention, kind);
      findings.claims.push_back(
          holds(fmt::format("{}: symbols written while looking most at their own place", name_of(kind)),
                fmt::format("{} of 8 (weight {:.2f})", look.right, look.share), look.right >= 7));
      findings.pictures.emplace_back(picture_of(attention, kind));
    }
    copy_first += updates[0] < updates[1] ? 1 : 0;
    needed.push_back(fmt::format("{:.0f} and {:.0f}", updates[0], updates[1]));
  }
  findings.claims.push_back(
      holds(fmt::format("updates to 97 % of next tokens, copy and reverse, seeds 0 to {}: copying is first",
                        kSeeds - 1),
            join(needed, "; "), copy_first == kSeeds));
  findings.pictures.emplace_back(chart);
  return findings;
}

}  // namespace transduce::lab
