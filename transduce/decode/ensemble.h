#pragma once

// One or several models as one: the probability of the next token is the mean of theirs.

#include <vector>

#include "transduce/models/transformer.h"

namespace transduce {

// Scores of the next token of every slot: of a single model its logits, of several the logarithm of the mean
// probability.
struct NextScores {
  Tensor scores;       // (slots, V)
  Tensor log_sum_exp;  // (slots): a score minus it is a log probability
  Tensor block_max;    // (slots, ceil(V / 64)): see Backend::log_sum_exp
};

class Ensemble {
 public:
  // The models must outlive it. Errors: InputError when there is none, or when their vocabularies or the use
  // of a source end symbol differ.
  explicit Ensemble(std::vector<const Transformer*> models);

  const std::vector<const Transformer*>& models() const { return models_; }
  const TransformerConfig& config() const { return models_[0]->config(); }
  // Target tokens, the start symbol counted, that every model has positions for; 0: no bound.
  int64_t max_positions() const;

  // As Transformer::add, DecoderCache::reorder and Transformer::step, for all models.
  void add(const Tokens& source);
  void reorder(const std::vector<int32_t>& from);
  // ids (slots) -> scores of the next token. Errors: RunError when they are not finite.
  NextScores step(const std::vector<int32_t>& ids);

 private:
  std::vector<const Transformer*> models_;
  std::vector<DecoderCache> caches_;
};

// Errors: RunError, unless the number is finite, that says the model is damaged.
void check_finite(double score);

}  // namespace transduce
