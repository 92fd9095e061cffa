#pragma once

// What a model of ours says of a given target.

#include <cmath>
#include <vector>

#include "transduce/data/seq2seq_batch.h"
#include "transduce/io/model_directory.h"

namespace transduce::testing {

// Log-probabilities (T, V) after each of `target`'s ids; the first is usually the start symbol. `source` is
// given without end symbol: the model's configuration decides about that.
inline std::vector<std::vector<double>> log_probabilities(const Transformer& model,
                                                          const std::vector<int32_t>& source,
                                                          const std::vector<int32_t>& target) {
  const NoGradient inference;
  const Tokens in = make_source_batch({source}, model.config().source_end);
  const Tensor logits = model.logits(model.forward(in, pack({target}))).value();
  std::vector<std::vector<double>> result;
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    const float* row = logits.row<float>(t);
    result.emplace_back(row, row + logits.dim(1));
    double sum = 0.0;
    for (const double x : result.back()) sum += std::exp(x);
    for (double& x : result.back()) x -= std::log(sum);
  }
  return result;
}

}  // namespace transduce::testing
