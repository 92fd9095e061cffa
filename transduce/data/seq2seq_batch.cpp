#include "transduce/data/seq2seq_batch.h"

#include <algorithm>
#include <numeric>

#include "transduce/data/batches.h"

namespace transduce {

Seq2SeqBatch make_seq2seq_batch(const std::vector<Example>& examples, const std::vector<int64_t>& indices,
                                bool source_end) {
  std::vector<std::vector<int32_t>> sources, targets;
  std::vector<int32_t> expected;
  for (const int64_t i : indices) {
    const Example& example = examples.at(static_cast<size_t>(i));
    sources.push_back(example.source);
    targets.push_back({Vocabulary::start});
    targets.back().insert(targets.back().end(), example.target.begin(), example.target.end());
    expected.insert(expected.end(), example.target.begin(), example.target.end());
    expected.push_back(Vocabulary::end);
  }
  const auto rows = static_cast<int64_t>(expected.size());
  return {make_source_batch(sources, source_end), pack(targets), Tensor::of<int32_t>({rows}, expected)};
}

std::vector<std::vector<int64_t>> cut_micro_batches(const std::vector<Example>& batch, int64_t most_tokens) {
  std::vector<int64_t> all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  int64_t parts = 1;
  while (parts * most_tokens < tokens_of(batch, all)) parts *= 2;
  parts = std::min(parts, static_cast<int64_t>(batch.size()));

  // Example i goes to the part that the middle of its tokens falls into.
  const auto cost = [&](size_t i) { return batch[i].source.size() + batch[i].target.size() + 2; };
  size_t total = 0, before = 0;
  for (size_t i = 0; i < batch.size(); ++i) total += cost(i);
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(parts));
  for (size_t i = 0; i < batch.size(); before += cost(i++)) {
    const size_t middle = 2 * before + cost(i);
    members[middle * static_cast<size_t>(parts) / (2 * total)].push_back(static_cast<int64_t>(i));
  }
  std::erase_if(members, [](const auto& indices) { return indices.empty(); });
  return members;
}

std::vector<Seq2SeqBatch> make_micro_batches(const std::vector<Example>& batch, bool source_end,
                                             int64_t most_tokens) {
  std::vector<Seq2SeqBatch> micro_batches;
  for (const auto& indices : cut_micro_batches(batch, most_tokens)) {
    micro_batches.push_back(make_seq2seq_batch(batch, indices, source_end));
  }
  return micro_batches;
}

Tokens make_source_batch(const std::vector<std::vector<int32_t>>& sources, bool source_end) {
  if (!source_end) {
    for (size_t i = 0; i < sources.size(); ++i) {
      check_input(!sources[i].empty(),
                  "source sentence {} of {} is empty, and this model's sources have no end symbol: there is "
                  "nothing to translate",
                  i + 1, sources.size());
    }
    return pack(sources);
  }
  std::vector<std::vector<int32_t>> ended = sources;
  for (auto& sentence : ended) sentence.push_back(Vocabulary::end);
  return pack(ended);
}

}  // namespace transduce
