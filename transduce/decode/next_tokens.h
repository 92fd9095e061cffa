#pragma once

// How one hypothesis may go on: the scores of its next token, bent by bans and penalties, and the choice
// among them. The inside of search.cpp.

#include <cstdint>
#include <utility>
#include <vector>

#include "transduce/base/random.h"
#include "transduce/decode/search.h"

namespace transduce {

// Hypothesis `path` of a group followed by `token`.
struct Candidate {
  double total = 0.0;  // of the whole, penalties included: what candidates are ranked by
  double step = 0.0;   // the model's log probability of the token alone
  int32_t path = 0;
  int32_t token = 0;

  // Equal scores are told apart by place, so that the order never depends on the batch.
  bool operator<(const Candidate& other) const {
    if (total != other.total) return total > other.total;
    return path != other.path ? path < other.path : token < other.token;
  }
};

class NextTokens {
 public:
  // Row `row` of `scores`, which is written over, for hypothesis `path` whose total is `so_far`. Rows of the
  // output layer from `vocabulary` on take part in the softmax, as in training, but are no candidates.
  NextTokens(const NextScores& scores, int64_t row, int64_t vocabulary, double so_far, int32_t path);

  void ban(int32_t token);
  // Multiplies the token's log probability.
  void scale(int32_t token, double factor);
  // Lowers the token's log probability.
  void lower(int32_t token, double by);

  // The continuation by this token, whether or not it is banned.
  Candidate with(int32_t token) const;

  // Puts the `wanted` best continuations into `list`, a heap of the best so far whose front is the worst of
  // them. Where everything is banned, only the end is left.
  void best(size_t wanted, std::vector<Candidate>& list) const;

  // One continuation at random: the token with the largest sum of its scaled score and a random number of its
  // own, Gumbel distributed (the Gumbel-max trick). Rounding changes the choice only where two sums are as
  // good as equal; walking along cumulated probabilities it would change at every step between two tokens.
  // The random numbers are those of `key` from counter `first` on, of which a vocabulary takes V / 4.
  Candidate drawn(const Sampling& sampling, RandomKey key, uint64_t first) const;

  bool banned(int32_t token) const;

 private:
  double adjusted(int32_t token) const { return static_cast<double>(scores_[token]) - normaliser_; }
  void remember(int32_t token);
  bool all_banned() const;

  float* scores_;
  float* block_max_;  // no score of a block is above it
  int64_t vocabulary_;
  double normaliser_;
  double so_far_;
  int32_t path_;
  std::vector<std::pair<int32_t, float>> own_;  // the model's scores of tokens that were bent
};

// How far a hypothesis has come with phrases that must all occur in it.
class PhraseProgress {
 public:
  // `token` was added to the hypothesis.
  void add(const std::vector<std::vector<int32_t>>& phrases, int32_t token);

  // Tokens of phrases that are there, those of the phrase under way counted.
  size_t tokens_met(const std::vector<std::vector<int32_t>>& phrases) const;
  bool complete(const std::vector<std::vector<int32_t>>& phrases) const;
  // Tokens that bring a phrase further.
  std::vector<int32_t> wanted(const std::vector<std::vector<int32_t>>& phrases) const;

 private:
  std::vector<bool> met_;   // by phrase; empty: none
  int64_t under_way_ = -1;  // the phrase that the last tokens began
  size_t position_ = 0;     // tokens of it that are there
};

}  // namespace transduce
