#pragma once

// Who looks at whom in one pair of sentences: the weights of every head, as they are.

#include "transduce/decode/alignment.h"

namespace transduce {

// One head. Row t of the matrix is a token that looks, column s one that is looked at.
struct AttentionMap {
  int64_t layer = 1, head = 1;  // counted from 1
  AttentionMatrix matrix;
};

// Of the encoder, (S, S): the source looks at itself. Of the decoder, (T, T): the tokens read, the start
// symbol first, look at themselves and at what stands before them. Cross, (T, S): see AttentionMatrix, which
// says what a row stands for. Layer by layer, head by head.
struct AttentionMaps {
  std::vector<AttentionMap> encoder, decoder, cross;
};

// The weights for a source and an output (ids without start and end symbols), with teacher forcing; without
// dropout each row sums to 1. Errors: InputError as make_source_batch, or on a sequence longer than learned
// positions.
AttentionMaps attention_maps(const Transformer& model, const std::vector<int32_t>& source,
                             const std::vector<int32_t>& output);

// How much cross-attention goes straight across. The outputs t = 0 .. T-1 (the end symbol's row left out) and
// the `source_tokens` S' (the end symbol's column left out) are laid along a line each. Output t stands
// opposite to source floor((2t + 1) S' / 2T), which is t where S' = T; on the anti-diagonal opposite to the
// one that has as many behind it as that has before it: S' - 1 - t where S' = T. Each share is the mean
// weight that an output gives to the token opposite, in [0, 1]; weights spread evenly give 1 / S. 0 without
// outputs or source tokens.
struct DiagonalShare {
  double diagonal = 0.0;       // of a model that copies, this one is near 1 in some head
  double anti_diagonal = 0.0;  // of a model that reverses, this one
};
DiagonalShare diagonal_share(const AttentionMatrix& cross, int64_t source_tokens);

}  // namespace transduce
