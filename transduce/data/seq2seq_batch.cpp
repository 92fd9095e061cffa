#include "transduce/data/seq2seq_batch.h"

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
