#pragma once

#include "transduce/nn/positions.h"
#include "transduce/nn/tokens.h"

namespace transduce {

// Rows of a table picked by token id (torch.nn.Embedding). The table is drawn from a normal distribution of
// deviation C^-0.5, so that after the scale sqrt(C) an embedding's elements have deviation 1, the size of a
// sinusoid's.
class Embedding {
 public:
  Embedding(const Scope& scope, int64_t vocabulary, int64_t width);
  const Var& weight() const { return weight_; }  // (V, C)

 private:
  Var weight_;
};

// The paper, 3.4 and 3.5: dropout(sqrt(C) * embedding[token] + position[place]).
class TokenEmbedding {
 public:
  struct Options {
    double scale = 1.0;  // sqrt(C) in the paper
    float dropout = 0.0f;
  };
  TokenEmbedding(Embedding embedding, Positions positions, Options options)
      : embedding_(std::move(embedding)), positions_(std::move(positions)), options_(options) {}

  // (N) tokens -> (N, C)
  Var operator()(const Tokens& tokens) const;

  const Var& weight() const { return embedding_.weight(); }  // (V, C)

 private:
  Embedding embedding_;
  Positions positions_;
  Options options_;
};

}  // namespace transduce
