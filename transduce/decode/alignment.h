#pragma once

// Which source tokens an output looked at.

#include <cstdint>
#include <utility>
#include <vector>

#include "transduce/models/transformer.h"

namespace transduce {

// Whose attention: a decoder layer and a head, counted from 1; 0 is the mean of all, layer -1 the last one.
struct AttentionChoice {
  int64_t layer = -1;
  int64_t head = 0;

  // Errors: InputError when a model has no such layer or head.
  void validate(const TransformerConfig& config) const;
};

// Row t holds the attention with which target token t was chosen; the last row is that of the end symbol.
// Each row sums to 1.
struct AttentionMatrix {
  int64_t targets = 0;         // T: tokens of the output and the end symbol
  int64_t sources = 0;         // S: tokens of the source, its end symbol included where the model has one
  std::vector<float> weights;  // (T, S)

  float at(int64_t t, int64_t s) const { return weights[static_cast<size_t>(t * sources + s)]; }
};

// The cross-attention for pairs of source and output (ids without start and end symbols), with teacher
// forcing.
std::vector<AttentionMatrix> cross_attention(const Transformer& model,
                                             const std::vector<std::vector<int32_t>>& sources,
                                             const std::vector<std::vector<int32_t>>& outputs,
                                             const AttentionChoice& choice);

// Pairs (source token, output token), counted from 0: each output token with the token of the source, of
// `source_tokens` without the end symbol, that it looked at most. Pharaoh form writes them as "0-0 2-1".
std::vector<std::pair<int64_t, int64_t>> alignment(const AttentionMatrix& attention, int64_t source_tokens);

// Wu et al. 2016, equation 14: the sum over the source tokens (the end symbol left out) of
// log(min(attention received from all target tokens, 1)), by the mean of the last layer's heads and of the
// models. 0 when each got its full share, else negative.
double coverage(const std::vector<const Transformer*>& models, const std::vector<int32_t>& source,
                const std::vector<int32_t>& output);

}  // namespace transduce
