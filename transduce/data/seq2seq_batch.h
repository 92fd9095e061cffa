#pragma once

#include "transduce/data/corpus.h"
#include "transduce/nn/tokens.h"

namespace transduce {

// A packed batch of sentence pairs as an encoder-decoder wants it, with teacher forcing: for the target a b c
//   target    <s> a b c
//   expected  a b c </s>
struct Seq2SeqBatch {
  Tokens source;    // (M): each sentence ends with </s>, unless the model was trained without
  Tokens target;    // (N)
  Tensor expected;  // (N) int32
};

// The chosen examples, in this order. `source_end`: see make_source_batch, also for the errors.
Seq2SeqBatch make_seq2seq_batch(const std::vector<Example>& examples, const std::vector<int64_t>& indices,
                                bool source_end = true);

// Tokens a side of a micro-batch: large enough for products at full speed; memory grows with it.
constexpr int64_t default_micro_batch_tokens = 256;

// All examples of a batch, cut into micro-batches of at most about `most_tokens` tokens a side: what one
// thread works on at a time. Their number is a power of two, so that they deal out evenly, unless there are
// no more than examples, and depends on the arguments alone. Indices into `batch`; none is empty.
std::vector<std::vector<int64_t>> cut_micro_batches(const std::vector<Example>& batch, int64_t most_tokens);

// The same as batches. `source_end`: see make_source_batch, also for the errors.
std::vector<Seq2SeqBatch> make_micro_batches(const std::vector<Example>& batch, bool source_end = true,
                                             int64_t most_tokens = default_micro_batch_tokens);

// Source sentences alone, for decoding. `source_end`: whether each gets the end symbol, as the model's
// configuration says (TransformerConfig::source_end). Errors: InputError when without it a sentence is empty,
// since the decoder would have nothing to attend to.
Tokens make_source_batch(const std::vector<std::vector<int32_t>>& sources, bool source_end = true);

}  // namespace transduce
