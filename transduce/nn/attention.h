#pragma once

#include <memory>

#include "transduce/nn/linear.h"

namespace transduce {

// Keys and values of tokens seen so far, for decoding step by step: room for `capacity` tokens in each of
// `slots` sequences. Slot s owns rows s * capacity to (s + 1) * capacity - 1; keys are the first C columns,
// values the rest.
struct KeyValueCache {
  Tensor rows;  // (slots * capacity, 2C)
  int64_t capacity = 0;
};

// Who attends to whom in a call, and what else is asked of it.
struct AttentionContext {
  Layout queries;
  Layout keys;                     // with a cache: rows of the cache, the new tokens' included
  bool causal = false;             // query t of T sees keys 0 .. S - T + t
  Tensor visible;                  // optional, for study: see AttentionSpec::visible
  KeyValueCache* cache = nullptr;  // self-attention: new keys and values go here and are read from here
  std::vector<Tensor>* weights = nullptr;  // where not null, each call appends its probabilities (H, P)
};

struct AttentionOptions {
  int64_t width = 0;     // C
  int64_t heads = 1;     // H, a divisor of C
  float dropout = 0.0f;  // on the probabilities
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
