#pragma once

#include <memory>
#include <optional>

#include "transduce/nn/linear.h"
#include "transduce/nn/positions.h"

namespace transduce {

// Who attends to whom in a call, and what else is asked of it.
struct AttentionContext {
  Layout queries;
  Layout keys;
  bool causal = false;  // query t of T sees keys 0 .. S - T + t
  Tensor positions;     // (N) int32 of the queries, for rotary positions
  Tensor visible;       // optional, for study: see AttentionSpec::visible
  // Self-attention token by token: keys and values (R, 2C) of tokens seen before, keys first. Those of the
  // new tokens are written there too: `key_rows` names the rows of each sequence's tokens, the new ones last.
  Tensor cache;
  Tensor key_rows;                         // (sum of S_b) int32
  std::vector<Tensor>* weights = nullptr;  // where not null, each call appends its probabilities (H, P)
};

struct AttentionOptions {
  int64_t width = 0;     // C
  int64_t heads = 1;     // H, a divisor of C
  float dropout = 0.0f;  // on the probabilities
  bool scaled = true;    // scores are divided by sqrt(D)
  bool rotary = false;   // self-attention turns queries and keys by their positions
};

// Multi-head attention of a sequence to itself (the paper, 3.2.2 and 3.2.3; torch.nn.MultiheadAttention with
// one input). Q, K and V are one product; its weight starts Xavier-uniform as a whole, as in PyTorch.
class SelfAttention {
 public:
  SelfAttention(const Scope& scope, const AttentionOptions& options);

  // (N, C) -> (N, C)
  Var operator()(const Var& x, const AttentionContext& context) const;

 private:
  AttentionOptions options_;
  Linear query_key_value_;  // (3C, C)
  Linear output_;           // (C, C)
  std::optional<Rotary> rotary_;
};

// Multi-head attention of the decoder to the encoder's output. The memory's keys and values are projected
// once, then serve every step of decoding.
class CrossAttention {
 public:
  CrossAttention(const Scope& scope, const AttentionOptions& options);

  // memory (M, C) -> its keys and values (M, 2C)
  Var project(const Var& memory) const { return key_value_(memory); }

  // x (N, C), key_value (M, 2C) as `project` gives it -> (N, C)
  Var operator()(const Var& x, const Var& key_value, const AttentionContext& context) const;

 private:
  AttentionOptions options_;
  Linear query_;      // (C, C)
  Linear key_value_;  // (2C, C)
  Linear output_;     // (C, C)
};

}  // namespace transduce
