#pragma once

// Beam search; with a beam of 1 it is greedy search.

#include <cstdint>
#include <vector>

#include "transduce/models/transformer.h"

namespace transduce {

struct SearchOptions {
  int64_t beam = 1;    // hypotheses kept for each sentence; clamped to the vocabulary
  int64_t n_best = 1;  // hypotheses returned for each sentence, at most `beam`
  // Hypotheses of `length` generated tokens (the end symbol counts) are ranked by
  //   log probability / ((5 + length) / 6)^length_penalty       (Wu et al. 2016, equation 14)
  // 0 ranks by the log probability itself. A beam of 1 is not affected.
  double length_penalty = 0.6;
  // Ids from here on are rows of the output layer that no token belongs to: never generated. 0: all are
  // tokens.
  int64_t vocabulary = 0;
  // Tokens before the end symbol; 0: 2 * source length + 50. A hypothesis that gets there is ended.
  int64_t max_length = 0;

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

struct Hypothesis {
  std::vector<int32_t> tokens;                // without start and end symbols
  std::vector<double> token_log_probability;  // of each token and of the end symbol at last
  double log_probability = 0.0;               // their sum
  double score = 0.0;                         // after the length penalty: what hypotheses are ranked by
};

// The best hypotheses of each sentence of a packed source batch, best first; never empty. Pad and start
// symbols are never generated. The result for a sentence does not depend on the others.
//
// As in fairseq, an end symbol counts when it is among a sentence's `beam` best continuations, and a sentence
// is done when it has `beam` ended hypotheses; it then leaves the batch.
std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Tokens& source,
                                                 const SearchOptions& options);

}  // namespace transduce
