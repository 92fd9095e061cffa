#pragma once

// The differentiable functions that models are written in. Each checks shapes, allocates the result, runs the
// backend's kernel and records the gradient. What each computes, and the PyTorch function it equals, stands
// in kernels/backend.h; the letters are declared there too.
//
// Errors of all: InputError "[op] expected ..., got ..." when shapes do not fit.

#include "transduce/autograd/tape.h"

namespace transduce::ops {

// (N) ids and positions -> (N, C): scale * table[id] + position_table[position], dropout p.
struct EmbeddingInputs {
  Tensor ids;          // (N) int32
  Tensor positions;    // (N) int32, or empty without position_table
  Var table;           // (V, C)
  Var position_table;  // (P, C), or empty
};
Var embedding(const EmbeddingInputs& inputs, double scale, float dropout);

// x (N, heads * D), positions (N) int32, table (P, D) -> (N, heads * D): rotary positions.
Var rotary(const Var& x, const Tensor& positions, const Var& table);

// x (N, I), weight (O, I), bias (O) or empty -> (N, O)
Var linear(const Var& x, const Var& weight, const Var& bias);

// The same with an 8-bit weight, for inference: see Backend::linear_int8. float32 only.
Var linear_int8(const Var& x, const Int8Matrix& weight, const Var& bias);

// pre (N, F), for swiglu (N, 2F) -> (N, F): dropout(activation(pre))
Var activation(const Var& pre, Activation kind, float dropout = 0.0f);

// activation(linear(x, weight, bias), kind, dropout), fused.
Var linear_activation(const Var& x, const Var& weight, const Var& bias, Activation kind,
                      float dropout = 0.0f);

// x, branch (N, C) -> x + dropout(branch)
Var residual(const Var& x, const Var& branch, float dropout = 0.0f);

Var dropout(const Var& x, float p);

// LayerNorm or RMSNorm. x (N, C), gain (C), bias (C) or empty.
struct NormParameters {
  Var gain;
  Var bias;
  NormSpec spec;
};
Var norm(const Var& x, const NormParameters& parameters);

// norm(residual(x, branch, dropout), parameters), fused.
Var residual_norm(const Var& x, const Var& branch, float dropout, const NormParameters& parameters);

// q (N, C), k and v (M, C) -> (N, C). `dropout` acts on the probabilities (spec.dropout is set here).
// weights: where not null, receives the probabilities (H, P) before dropout.
Var attention(const Var& q, const Var& k, const Var& v, AttentionSpec spec, float dropout = 0.0f,
              Tensor* weights = nullptr);

// Of `rows` rows of logits, how many the loss works on at a time: about 16 MB of them, and enough that the
// products with the output layer, whose gradient is read and written once a chunk, are worth their memory
// traffic.
int64_t chunk_rows(int64_t rows, int64_t vocabulary);

// The output layer and its loss (label smoothing s as torch.nn.functional.cross_entropy) over the N rows.
struct CrossEntropy {
  Var sum;            // (1): the sum over rows of the smoothed loss
  double total = 0;   // the same in float64 (its real part)
  Tensor likelihood;  // (N): log p[target], never smoothed
  Tensor best;        // (N) int32: the likeliest token
};
// x (N, C), weight (V, C), bias (V) or empty, targets (N) int32 in [0, V)
CrossEntropy linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                                  double smoothing);
// With an 8-bit weight, for inference, without smoothing.
CrossEntropy linear_int8_cross_entropy(const Var& x, const Int8Matrix& weight, const Var& bias,
                                       const Tensor& targets);

}  // namespace transduce::ops
