#pragma once

#include <memory>

#include "transduce/autograd/ops.h"
#include "transduce/nn/module.h"

namespace transduce {

enum class PositionKind {
  sinusoidal,
  learned,
  rotary,  // nothing is added to the embeddings: self-attention turns its queries and keys instead
};

// Where the sine and the cosine of a frequency stand in a row.
enum class SinusoidLayout {
  interleaved,   // columns 2i and 2i + 1 (the paper, 3.5)
  concatenated,  // columns i and C / 2 + i: all sines, then all cosines (tensor2tensor, OpenNMT, Marian)
};

// What a position is divided by in column pair i of C / 2.
enum class Timescales {
  paper,          // 10000^(2i / C): from 1 to somewhat below 10000 (the paper, 3.5)
  tensor2tensor,  // 10000^(i / (C / 2 - 1)): from 1 to 10000 itself (tensor2tensor, OpenNMT-tf, fairseq)
};

// The axes along which published models differ; the defaults are the paper's.
struct Sinusoids {
  SinusoidLayout layout = SinusoidLayout::interleaved;
  Timescales timescales = Timescales::paper;
  int64_t offset = 0;  // the position of a sequence's first token: 0 in the paper, 1 in OpenNMT-tf

  bool operator==(const Sinusoids&) const = default;
};

// Row p is position offset + p: sin and cos of (offset + p) / timescale, the paper, 3.5. An odd width ends
// with a sine that has no cosine. Returns (positions, width), computed in float64. Errors: InputError for
// tensor2tensor's timescales and a width below 3, which is a division by zero.
Tensor sinusoid_table(int64_t positions, int64_t width, DType dtype, const Sinusoids& sinusoids = {});

// What is added to the embeddings so that the model knows the order: a table with one row a position, or
// nothing.
class Positions {
 public:
  // `max_positions` rows for learned ones, drawn from a normal distribution of deviation C^-0.5; sinusoids
  // have no end and are computed as far as asked for.
  Positions(const Scope& scope, PositionKind kind, int64_t max_positions, int64_t width,
            const Sinusoids& sinusoids = {});

  // A table (P, C) with P > the last position of `positions` (N) int32; empty for rotary positions.
  // Errors: InputError when a learned table is too short.
  Var table(const Tensor& positions, DType dtype) const;

 private:
  PositionKind kind_;
  int64_t width_;
  Var learned_;  // (max_positions, C)
  Sinusoids sinusoids_;
  struct Cache;
  std::shared_ptr<Cache> computed_;  // grows; shared by the copies of a model and safe for threads
};

// Rotary positions (Su et al. 2021): queries and keys are turned, pair of columns by pair, by angles that
// grow with the position, so that their product depends on how far apart they stand.
class Rotary {
 public:
  // D columns a head, an even number.
  Rotary(const Scope& scope, int64_t head_size) : angles_(scope, PositionKind::sinusoidal, 0, head_size) {}

  // x (N, heads * D), positions (N) int32 -> (N, heads * D)
  Var operator()(const Var& x, const Tensor& positions) const {
    return ops::rotary(x, positions, angles_.table(positions, x.dtype()));
  }

 private:
  Positions angles_;  // sinusoids of width D: sine and cosine of every angle
};

}  // namespace transduce
