#pragma once

// The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): an encoder and a decoder, each a
// stack of layers, in post-norm (the paper) or pre-norm form.

#include <optional>
#include <vector>

#include "transduce/models/config.h"
#include "transduce/nn/attention.h"
#include "transduce/nn/embedding.h"
#include "transduce/nn/feed_forward.h"
#include "transduce/nn/residual.h"

namespace transduce {

// Self-attention, then the feed-forward network, each with its residual connection and norm (the paper, 3.1).
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, const TransformerConfig& config);
  // (M, C) -> (M, C)
  Var operator()(Var x, const AttentionContext& context) const;

 private:
  SelfAttention self_attention_;
  Residual self_attention_residual_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

// What the attentions of a decoder layer look at.
struct DecoderContext {
  AttentionContext self;   // causal
  AttentionContext cross;  // from the target to the source
};

// Masked self-attention, attention to the encoder's output, then the feed-forward network.
class DecoderLayer {
 public:
  DecoderLayer(const Scope& scope, const TransformerConfig& config);
  // x (N, C), memory (M, 2C): this layer's keys and values of the encoder's output -> (N, C)
  Var operator()(Var x, const Var& memory, const DecoderContext& context) const;

  // encoder output (M, C) -> (M, 2C)
  Var project(const Var& encoded) const { return cross_attention_.project(encoded); }

 private:
  SelfAttention self_attention_;
  Residual self_attention_residual_;
  CrossAttention cross_attention_;
  Residual cross_attention_residual_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

// A sequence of probabilities (H, P) for every layer, where asked for: see AttentionContext::weights.
struct AttentionWeights {
  std::vector<Tensor> encoder;  // one a layer
  std::vector<Tensor> decoder;
  std::vector<Tensor> cross;
};

// The state of decoding token by token, for several sequences ("slots") at once. Each token's keys and values
// are kept once, however many slots continue it: a beam's hypotheses share what they have in common, and
// moving a hypothesis moves a list of row numbers. Memory follows the number of tokens in use.
class DecoderCache {
 public:
  // Makes slot s continue as slot from[s] did, for all s at once: beams that moved or multiplied, or, with
  // fewer entries, finished sequences that leave. Errors: InputError on a slot that is not there.
  void reorder(const std::vector<int32_t>& from);

  int64_t slots() const { return static_cast<int64_t>(sequences_.size()); }
  // Tokens decoded so far in a slot.
  int64_t length(int64_t slot) const { return static_cast<int64_t>(sequences_.at(slot).rows.size()); }

 private:
  friend class Transformer;
  struct Sequence {
    int32_t source = 0;         // the sequence of `sources_` that the slot translates
    std::vector<int32_t> rows;  // of `tokens` in every layer, one a token decoded so far
  };
  struct LayerCache {
    Tensor tokens;  // (R, 2C): keys and values of decoded tokens
    Tensor memory;  // (M, 2C): keys and values of the encoder's output
  };
  // Sources that no slot translates any more leave; (M, 2C) for every layer of new ones are put behind.
  void add(const Layout& source, const std::vector<Tensor>& memory);
  // Gives every slot a row for one more token.
  void extend();
  void collect_rows();

  std::vector<LayerCache> layers_;
  std::vector<Sequence> sequences_;  // one a slot
  std::vector<int32_t> free_rows_;   // of `tokens`
  Layout sources_;                   // rows of each source in `memory`
};

class Transformer {
 public:
  // All parameters are zero until they are drawn (ParameterSet::initialize) or loaded.
  // dtype: float32; float64 for the oracle. Errors: InputError from TransformerConfig::validate.
  explicit Transformer(const TransformerConfig& config, DType dtype = DType::float32);

  // The names and shapes of the parameters of such a model, without taking memory for them.
  static ParameterSet declared(const TransformerConfig& config);
  // How many such a model has.
  static int64_t count_parameters(const TransformerConfig& config);

  // Source tokens (M) -> (M, C).
  Var encode(const Tokens& source, AttentionWeights* weights = nullptr) const;

  // Target tokens (N), shifted right, and the encoder's output (M, C) -> (N, C). Teacher forcing: all
  // positions at once, each seeing itself and what stands before it.
  Var decode(const Tokens& target, const Var& encoded, const Layout& source,
             AttentionWeights* weights = nullptr) const;

  // decode(target, encode(source)): (N, C)
  Var forward(const Tokens& source, const Tokens& target) const;

  // (N, C) -> (N, V): scores of the next token before the softmax.
  Var logits(const Var& decoded) const;

  // The loss of the next tokens `expected` (N) int32, without (N, V) logits in memory.
  ops::CrossEntropy loss(const Var& decoded, const Tensor& expected, double smoothing) const;

  // Decoding step by step, with no sequence yet.
  DecoderCache start() const;

  // Takes source sentences in, given the encoder's output (M, C): one new slot for each, behind those there
  // are.
  void add(const Var& encoded, const Layout& source, DecoderCache& cache) const;

  // Feeds one token to each slot, ids (slots) -> (slots, C), the same as the last rows of decode() on all
  // tokens so far.
  Var step(const std::vector<int32_t>& ids, DecoderCache& cache) const;

  const TransformerConfig& config() const { return config_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }

 private:
  struct Unallocated {};
  Transformer(const TransformerConfig& config, Unallocated);

  TransformerConfig config_;
  ParameterSet parameters_;
  std::vector<TokenEmbedding> embeddings_;  // source, target
  std::vector<EncoderLayer> encoder_;
  std::vector<DecoderLayer> decoder_;
  std::vector<Norm> final_norms_;  // encoder, decoder: pre-norm only
  std::optional<Linear> output_;   // (N, C) -> (N, V)
};

}  // namespace transduce
