#pragma once

#include <memory>

#include "transduce/autograd/ops.h"
#include "transduce/nn/module.h"

namespace transduce {

enum class PositionKind { sinusoidal, learned };

// The paper, 3.5, interleaved: table[p][2i] = sin(p / 10000^(2i / C)), table[p][2i + 1] = cos of the same.
// An odd width ends with a sine. Returns (positions, width), computed in float64.
Tensor sinusoid_table(int64_t positions, int64_t width, DType dtype);

// What is added to the embeddings so that the model knows the order: a table with one row a position.
class Positions {
 public:
  // `max_positions` rows for learned ones, drawn from a normal distribution of deviation C^-0.5; sinusoids
  // have no end and are computed as far as asked for.
  Positions(const Scope& scope, PositionKind kind, int64_t max_positions, int64_t width);

  // A table (P, C) with P > the last position of `positions` (N) int32.
  // Errors: InputError when a learned table is too short.
  Var table(const Tensor& positions, DType dtype) const;

 private:
  PositionKind kind_;
  int64_t width_;
  Var learned_;  // (max_positions, C)
  struct Cache;
  std::shared_ptr<Cache> sinusoids_;  // grows; shared by the copies of a model and safe for threads
};

}  // namespace transduce
