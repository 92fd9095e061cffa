#pragma once

// Made-up models and batches: each is a pure function of its seed.

#include <cmath>
#include <string>
#include <vector>

#include "transduce/base/random.h"
#include "transduce/models/transformer.h"

namespace transduce::model_tests {

// Small, without dropout.
inline TransformerConfig small_config() {
  TransformerConfig config;
  config.source_vocabulary = 11;
  config.target_vocabulary = 9;
  config.width = 12;
  config.heads = 3;
  config.feed_forward = 20;
  config.encoder_layers = 2;
  config.decoder_layers = 2;
  config.dropout = 0.0;
  return config;
}

struct Variant {
  const char* name;
  void (*apply)(TransformerConfig& config);
};

// Every axis of the configuration, in few models.
inline const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {"post_relu", [](TransformerConfig& c) { c.output_bias = true; }},
      {"pre_gelu_tied_all",
       [](TransformerConfig& c) {
         c.norm = NormPlacement::pre;
         c.activation = Activation::gelu;
         c.tie = Tie::all;
         c.source_vocabulary = c.target_vocabulary;
       }},
      {"pre_rms_swiglu_learned",
       [](TransformerConfig& c) {
         c.norm = NormPlacement::pre;
         c.norm_kind = NormKind::rms;
         c.activation = Activation::swiglu;
         c.positions = PositionKind::learned;
         c.max_positions = 40;
         c.tie = Tie::decoder;
         c.output_bias = true;
       }},
      {"post_swish_odd_width",
       [](TransformerConfig& c) {
         c.width = 15;
         c.activation = Activation::swish;
         c.embedding_scale = false;
       }},
      {"pre_rotary_unscaled_attention",
       [](TransformerConfig& c) {
         c.norm = NormPlacement::pre;
         c.positions = PositionKind::rotary;
         c.attention_scale = false;
       }},
      {"post_rms_gelu_tanh_no_encoder_layers",
       [](TransformerConfig& c) {
         c.norm_kind = NormKind::rms;
         c.activation = Activation::gelu_tanh;
         c.encoder_layers = 0;
         c.tie = Tie::decoder;
       }},
  };
  return all;
}

inline TransformerConfig config_of(const Variant& variant) {
  TransformerConfig config = small_config();
  variant.apply(config);
  return config;
}

// Every parameter away from its start, biases and gains included, so that none can be left out unnoticed. The
// numbers are exact in float32, so that models of different types are the same.
inline void randomise(ParameterSet& set, uint64_t seed) {
  uint64_t stream = 0;
  for (const Parameter& p : set.parameters()) {
    Random random({seed, stream++});
    const bool gain = p.init.kind == Init::Kind::ones;
    const double deviation = p.shape.size() == 2 ? 1.0 / std::sqrt(static_cast<double>(p.shape[1])) : 0.2;
    std::vector<float> values;
    for (int64_t i = 0; i < p.size(); ++i) {
      values.push_back(static_cast<float>((gain ? 1.0 : 0.0) + deviation * random.normal()));
    }
    p.variable.value().copy_from(Tensor::of(p.shape, values).to(p.variable.dtype()));
  }
}

inline Transformer made_model(const TransformerConfig& config, uint64_t seed, DType dtype = DType::float32) {
  Transformer model(config, dtype);
  randomise(model.parameters(), seed);
  return model;
}

using Sequences = std::vector<std::vector<int32_t>>;

// Sequences of these lengths with ids from `first` to below `vocabulary`.
inline Sequences made_sequences(const std::vector<int32_t>& lengths, int64_t vocabulary, uint64_t seed,
                                int32_t first = 0) {
  Random random({seed, 77});
  Sequences sequences;
  for (const int32_t length : lengths) {
    sequences.emplace_back();
    for (int32_t t = 0; t < length; ++t) {
      sequences.back().push_back(
          first + static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary - first))));
    }
  }
  return sequences;
}

// float32 models of these sizes: a logit stands at the end of a path of about 600 rounded terms, there are
// some thousand of them, so 4 sqrt(600) 2^-24 of the largest is what rounding may make of it.
constexpr double kRounding = 6e-6;

}  // namespace transduce::model_tests
