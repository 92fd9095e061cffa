#pragma once

#include "transduce/data/corpus.h"
#include "transduce/nn/tokens.h"

namespace transduce {

// A packed batch of sentence pairs as an encoder-decoder wants it, with teacher forcing: for the target a b c
//   target    <s> a b c
//   expected  a b c </s>
struct Seq2SeqBatch {
  Tokens source;    // (M): each sentence ends with </s>, so that none is empty
  Tokens target;    // (N)
  Tensor expected;  // (N) int32
};

// The chosen examples, in this order.
Seq2SeqBatch make_seq2seq_batch(const std::vector<Example>& examples, const std::vector<int64_t>& indices);

// Source sentences alone, for decoding.
Tokens make_source_batch(const std::vector<std::vector<int32_t>>& sources);

}  // namespace transduce
