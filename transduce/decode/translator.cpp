#include "transduce/decode/translator.h"

#include <algorithm>
#include <numeric>

#include "transduce/data/seq2seq_batch.h"

namespace transduce {

Translator::Translator(const Seq2SeqModel& model, const Options& options) : model_(model), options_(options) {
  options_.search.validate();
  options_.search.vocabulary = model.target->vocabulary().size();
  check_input(options.batch_size >= 1 && options.batch_size <= 100000,
              "batch size {} is out of range: give 1 to 100000", options.batch_size);
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> lines) const {
  std::vector<std::vector<Translation>> results(lines.size());
  std::vector<std::vector<int32_t>> encoded(lines.size());
  std::vector<size_t> order;  // of the lines that hold something
  for (size_t i = 0; i < lines.size(); ++i) {
    if (split_whitespace(lines[i]).empty()) {
      results[i].emplace_back();
    } else {
      encoded[i] = model_.source->encode(lines[i]);
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return encoded[a].size() > encoded[b].size(); });
  const auto batch_size = static_cast<size_t>(options_.batch_size);
  for (size_t begin = 0; begin < order.size(); begin += batch_size) {
    const size_t end = std::min(order.size(), begin + batch_size);
    std::vector<std::vector<int32_t>> sources;
    for (size_t i = begin; i < end; ++i) sources.push_back(encoded[order[i]]);
    auto found =
        beam_search(*model_.transformer, make_source_batch(sources, model_.transformer->config().source_end),
                    options_.search);
    for (size_t i = begin; i < end; ++i) {
      for (Hypothesis& hypothesis : found[i - begin]) {
        std::string text = model_.target->decode(hypothesis.tokens);
        results[order[i]].push_back({std::move(text), std::move(hypothesis)});
      }
    }
  }
  return results;
}

}  // namespace transduce
