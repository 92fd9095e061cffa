#include "cli/train_corpus.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "cli/console.h"
#include "cli/progress.h"
#include "transduce/base/error.h"
#include "transduce/base/figures.h"
#include "transduce/base/file.h"

namespace transduce::cli {
namespace {

using Clock = std::chrono::steady_clock;

// How far the reading of a corpus is: a bar on a terminal, a line now and then elsewhere.
class ReadingProgress {
 public:
  explicit ReadingProgress(const char* doing) : doing_(doing) {}

  void show(int64_t pairs, double done) {
    if (status_.on_terminal()) {
      status_.show(fmt::format("{} {}", bar(done), text(pairs)));
    } else if (Clock::now() - last_ >= std::chrono::seconds(10)) {
      last_ = Clock::now();
      say("{}, {:.0f} %\n", text(pairs), 100.0 * done);
    }
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  std::string rate(int64_t pairs) const {
    return grouped(static_cast<int64_t>(static_cast<double>(pairs) / std::max(seconds(), 1e-6))) + " lines/s";
  }

 private:
  std::string text(int64_t pairs) const {
    return fmt::format("{}  {} pairs  {}", doing_, grouped(pairs), rate(pairs));
  }

  const char* doing_;
  StatusLine status_;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

// The index in a file, if it is that of these inputs and settings. What is damaged is made again.
std::shared_ptr<const CorpusIndex> former_index(const std::string& path, uint64_t inputs, uint64_t settings) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nullptr;
  try {
    auto index = std::make_shared<const CorpusIndex>(path);
    const IndexSummary& summary = index->summary();
    return summary.inputs == inputs && summary.settings == settings ? index : nullptr;
  } catch (const InputError& error) {
    say("{}; it is made again\n", error.what());
    return nullptr;
  }
}

}  // namespace

TrainingPairs pairs_of(std::shared_ptr<const PairInputs> inputs) {
  // The reader in use, which knows how far it is.
  const auto reader = std::make_shared<std::shared_ptr<PairReader>>();
  TrainingPairs pairs;
  pairs.read = [=]() -> PairSource {
    *reader = std::make_shared<PairReader>(inputs->reader());
    return [reader = *reader](TextPair& pair) { return reader->next(pair); };
  };
  pairs.fingerprint = [=] { return inputs->fingerprint(); };
  pairs.done = [=](int64_t) {
    const auto all = static_cast<double>(std::max<int64_t>(inputs->bytes(), 1));
    return static_cast<double>((*reader)->bytes_read()) / all;
  };
  pairs.check_unchanged = [=] { inputs->check_unchanged(); };
  return pairs;
}

TrainingPairs made_up_pairs(std::function<TextPair(int64_t)> make, int64_t count, const std::string& name) {
  TrainingPairs pairs;
  pairs.read = [=]() -> PairSource {
    return [=, i = int64_t{0}](TextPair& pair) mutable {
      if (i == count) return false;
      pair = make(i++);
      return true;
    };
  };
  pairs.fingerprint = [=] {
    Hash hash;
    hash.add(fmt::format("{} pairs of {}", count, name));
    return hash.value();
  };
  pairs.done = [=](int64_t i) { return static_cast<double>(i) / static_cast<double>(count); };
  return pairs;
}

LineSource lines_of(const TrainingPairs& pairs, std::string TextPair::*side) {
  return [=, next = pairs.read(), done = pairs.done, read = int64_t{0}, pair = TextPair(),
          progress = std::make_shared<ReadingProgress>("vocabulary")](std::string& line) mutable {
    if (!next(pair)) return false;
    line = std::move(pair.*side);
    if (++read % 4096 == 0) progress->show(read, done(read));
    return true;
  };
}

std::shared_ptr<const CorpusIndex> index_beside_model(const std::string& path, const TrainingPairs& pairs,
                                                      const IndexSettings& settings, std::string& note) {
  const uint64_t inputs = pairs.fingerprint();
  if (auto index = former_index(path, inputs, settings.fingerprint())) {
    note = "their index is the one made before";
    return index;
  }
  AtomicFile file(path);
  {
    ReadingProgress progress("index");
    int64_t read = 0;
    write_index(
        pairs.read(), settings, inputs, [&](std::string_view bytes) { file.write(bytes); },
        [&](int64_t so_far) { progress.show(read = so_far, pairs.done(so_far)); });
    pairs.check_unchanged();
    file.commit();
    note = fmt::format("indexed {} lines in {}, {}", grouped(read), clock_time(progress.seconds()),
                       progress.rate(read));
  }
  return std::make_shared<const CorpusIndex>(path);
}

}  // namespace transduce::cli
