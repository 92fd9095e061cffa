#include "transduce/models/transformer.h"

#include <algorithm>
#include <cmath>

namespace transduce {
namespace {

AttentionOptions attention_options(const TransformerConfig& c) {
  return {c.width, c.heads, static_cast<float>(c.attention_dropout), c.attention_scale,
          c.positions == PositionKind::rotary};
}

FeedForward::Options feed_forward_options(const TransformerConfig& c) {
  return {c.width, c.feed_forward, c.activation, static_cast<float>(c.activation_dropout)};
}

NormSpec norm_spec(const TransformerConfig& c) { return {c.norm_kind, c.norm_epsilon}; }

Residual::Options residual_options(const TransformerConfig& c) {
  return {c.norm, norm_spec(c), static_cast<float>(c.dropout)};
}

TokenEmbedding::Options embedding_options(const TransformerConfig& c) {
  return {c.embedding_scale ? std::sqrt(static_cast<double>(c.width)) : 1.0, static_cast<float>(c.dropout)};
}

Sinusoids sinusoids(const TransformerConfig& c) {
  return {c.sinusoid_layout, c.timescales, c.position_offset};
}

}  // namespace

EncoderLayer::EncoderLayer(const Scope& scope, const TransformerConfig& c)
    : self_attention_(scope / "self_attention", attention_options(c)),
      self_attention_residual_(scope / "self_attention_norm", c.width, residual_options(c)),
      feed_forward_(scope / "feed_forward", feed_forward_options(c)),
      feed_forward_residual_(scope / "feed_forward_norm", c.width, residual_options(c)) {}

Var EncoderLayer::operator()(Var x, const AttentionContext& context) const {
  x = self_attention_residual_(x, [&](const Var& h) { return self_attention_(h, context); });
  return feed_forward_residual_(x, [&](const Var& h) { return feed_forward_(h); });
}

DecoderLayer::DecoderLayer(const Scope& scope, const TransformerConfig& c)
    : self_attention_(scope / "self_attention", attention_options(c)),
      self_attention_residual_(scope / "self_attention_norm", c.width, residual_options(c)),
      cross_attention_(scope / "cross_attention", attention_options(c)),
      cross_attention_residual_(scope / "cross_attention_norm", c.width, residual_options(c)),
      feed_forward_(scope / "feed_forward", feed_forward_options(c)),
      feed_forward_residual_(scope / "feed_forward_norm", c.width, residual_options(c)) {}

Var DecoderLayer::operator()(Var x, const Var& memory, const DecoderContext& context) const {
  x = self_attention_residual_(x, [&](const Var& h) { return self_attention_(h, context.self); });
  x = cross_attention_residual_(x, [&](const Var& h) { return cross_attention_(h, memory, context.cross); });
  return feed_forward_residual_(x, [&](const Var& h) { return feed_forward_(h); });
}

Transformer::Transformer(const TransformerConfig& config, DType dtype) : Transformer(config, Unallocated{}) {
  parameters_.allocate(dtype);
}

ParameterSet Transformer::declared(const TransformerConfig& config) {
  return Transformer(config, Unallocated{}).parameters();
}

int64_t Transformer::count_parameters(const TransformerConfig& config) { return declared(config).count(); }

Transformer::Transformer(const TransformerConfig& config, Unallocated) : config_(config) {
  config_.validate();
  const TransformerConfig& c = config_;
  const Scope root(parameters_, "", c.weights == WeightKind::int8);

  const bool shared = c.tie == Tie::all;
  const Embedding source(root / (shared ? "shared_embedding" : "source_embedding"), c.source_vocabulary,
                         c.width);
  const Embedding target =
      shared ? source : Embedding(root / "target_embedding", c.target_vocabulary, c.width);
  const auto positions = [&](const char* side) {
    return Positions(root / side, c.positions, c.max_positions, c.width, sinusoids(c));
  };
  embeddings_.emplace_back(source, positions("source_positions"), embedding_options(c));
  embeddings_.emplace_back(target, positions("target_positions"), embedding_options(c));

  for (int64_t i = 0; i < c.encoder_layers; ++i) encoder_.emplace_back(root / "encoder" / "layers" / i, c);
  for (int64_t i = 0; i < c.decoder_layers; ++i) decoder_.emplace_back(root / "decoder" / "layers" / i, c);
  if (c.norm == NormPlacement::pre) {
    final_norms_.emplace_back(root / "encoder" / "norm", c.width, norm_spec(c));
    final_norms_.emplace_back(root / "decoder" / "norm", c.width, norm_spec(c));
  }

  const Scope output = root / "output";
  if (c.tie == Tie::none || c.weights == WeightKind::int8) {
    const Init init = Init::xavier_uniform(c.width, c.target_vocabulary);
    output_.emplace(output, c.width, c.target_vocabulary,
                    Linear::Options{init, Init::zeros(), c.output_bias});
  } else {
    const Var bias = c.output_bias ? output.declare("bias", {c.target_vocabulary}, Init::zeros()) : Var();
    output_.emplace(target.weight(), bias);
  }
}

Var Transformer::encode(const Tokens& source, AttentionWeights* weights) const {
  AttentionContext context;
  context.queries = context.keys = source.layout;
  context.positions = source.positions;
  context.weights = weights != nullptr ? &weights->encoder : nullptr;
  Var x = embeddings_[0](source);  // (M, C)
  for (const EncoderLayer& layer : encoder_) x = layer(x, context);
  return final_norms_.empty() ? x : final_norms_[0](x);
}

Var Transformer::decode(const Tokens& target, const Var& encoded, const Layout& source,
                        AttentionWeights* weights) const {
  DecoderContext context;
  context.self.queries = context.self.keys = context.cross.queries = target.layout;
  context.cross.keys = source;
  context.self.positions = target.positions;
  context.self.weights = weights != nullptr ? &weights->decoder : nullptr;
  context.cross.weights = weights != nullptr ? &weights->cross : nullptr;
  context.self.causal = true;
  Var x = embeddings_[1](target);  // (N, C)
  for (const DecoderLayer& layer : decoder_) x = layer(x, layer.project(encoded), context);
  return final_norms_.empty() ? x : final_norms_[1](x);
}

Var Transformer::forward(const Tokens& source, const Tokens& target) const {
  return decode(target, encode(source), source.layout);
}

Var Transformer::logits(const Var& decoded) const { return (*output_)(decoded); }

ops::CrossEntropy Transformer::loss(const Var& decoded, const Tensor& expected, double smoothing) const {
  return output_->cross_entropy(decoded, expected, smoothing);
}

DecoderCache Transformer::start() const {
  DecoderCache cache;
  cache.layers_.resize(decoder_.size());
  return cache;
}

void Transformer::add(const Var& encoded, const Layout& source, DecoderCache& cache) const {
  std::vector<Tensor> memory;
  for (const DecoderLayer& layer : decoder_) memory.push_back(layer.project(encoded).value());
  cache.add(source, memory);
}

Var Transformer::step(const std::vector<int32_t>& ids, DecoderCache& cache) const {
  const int64_t slots = cache.slots();
  check_input(static_cast<int64_t>(ids.size()) == slots, "[step] {} tokens for {} slots", ids.size(), slots);
  std::vector<int32_t> positions, seen, rows, memory_begin, memory_length;
  for (int64_t s = 0; s < slots; ++s) positions.push_back(static_cast<int32_t>(cache.length(s)));
  cache.extend();
  for (const DecoderCache::Sequence& sequence : cache.sequences_) {
    seen.push_back(static_cast<int32_t>(sequence.rows.size()));
    rows.insert(rows.end(), sequence.rows.begin(), sequence.rows.end());
    const auto source = static_cast<size_t>(sequence.source);
    memory_begin.push_back(cache.sources_.begin[source]);
    memory_length.push_back(cache.sources_.length[source]);
  }
  const Tokens tokens{Tensor::of<int32_t>({slots}, ids), Tensor::of<int32_t>({slots}, positions),
                      Layout::packed(std::vector<int32_t>(ids.size(), 1))};
  DecoderContext context;
  context.self.queries = context.cross.queries = tokens.layout;
  context.self.keys = Layout::packed(seen);
  context.self.positions = tokens.positions;
  context.self.key_rows = Tensor::of<int32_t>({static_cast<int64_t>(rows.size())}, rows);
  context.self.causal = true;
  context.cross.keys = Layout::placed(memory_begin, memory_length, cache.sources_.rows);

  Var x = embeddings_[1](tokens);  // (slots, C)
  for (size_t i = 0; i < decoder_.size(); ++i) {
    context.self.cache = cache.layers_[i].tokens;
    x = decoder_[i](x, Var(cache.layers_[i].memory), context);
  }
  return final_norms_.empty() ? x : final_norms_[1](x);
}

}  // namespace transduce
