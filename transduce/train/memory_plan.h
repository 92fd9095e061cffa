#pragma once

// How much memory a training needs, known before it takes any, and micro-batches that fit into what there is.

#include <cstdint>
#include <vector>

#include "transduce/data/corpus.h"
#include "transduce/models/config.h"
#include "transduce/train/batch_source.h"

namespace transduce {

// Bytes. The largest micro-batches decide, as if all that are worked on at once were as large.
struct MemoryNeed {
  int64_t program = 0;      // what the process holds already: itself, the data
  int64_t parameters = 0;   // and as much for their gradients
  int64_t optimizer = 0;    // Adam's two moments
  int64_t average = 0;      // the moving average of the parameters
  int64_t activations = 0;  // kept for the backward pass, of one micro-batch
  int64_t scratch = 0;      // what the passes over one micro-batch need beside that, for a moment
  int64_t at_once = 1;      // micro-batches in work

  // What does not depend on the batches.
  int64_t fixed() const { return program + 2 * parameters + optimizer + average; }
  int64_t total() const { return fixed() + at_once * (activations + scratch); }
};

struct MemoryQuestion {
  TransformerConfig config;  // with its vocabulary sizes
  bool average = false;      // whether a moving average is kept
  int64_t accumulate = 1;    // batches an update
  int threads = 1;
  int64_t program = 0;
  int64_t longest = 0;  // tokens of the longest text on either side
};

// Batches that stand for the others: the next 200 of `source`, or a million tokens of them. It is then where
// it was.
std::vector<std::vector<Example>> sample_batches(BatchSource& source);

// Of micro-batches of at most about `micro_batch_tokens` tokens a side. Errors: InputError from
// TransformerConfig::validate.
MemoryNeed memory_need(const MemoryQuestion& question, const std::vector<std::vector<Example>>& batches,
                       int64_t micro_batch_tokens);

// The largest micro-batches, halved from `most` on, with which the training fits into `budget` bytes. Errors:
// InputError naming the sizes when it does not with single pairs either.
int64_t fitting_micro_batch_tokens(const MemoryQuestion& question,
                                   const std::vector<std::vector<Example>>& batches, int64_t most,
                                   int64_t budget);

}  // namespace transduce
