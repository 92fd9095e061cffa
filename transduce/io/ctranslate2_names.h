#pragma once

// How CTranslate2 names what this program has, once for both directions of conversion.

#include <string>
#include <utility>
#include <vector>

#include "transduce/models/config.h"

namespace transduce::ctranslate2 {

// A layer with parameters: ours "encoder.layers.0.feed_forward.inner" is theirs
// "encoder/layer_0/ffn/linear_0".
struct LayerName {
  enum class Kind {
    linear,  // weight, bias
    norm,    // gamma, beta
    gated,   // SwiGLU's inner layer: two of theirs, linear_0 (the gate) and linear_0_noact, are one of ours
  };
  Kind kind = Kind::linear;
  std::string ours;
  std::string theirs;
};

// All layers of both stacks with the final norms; embeddings, positions and the output layer are not among
// them.
std::vector<LayerName> layers(const TransformerConfig& config);

// The scopes of all attentions, e.g. "encoder/layer_0/self_attention".
std::vector<std::string> attentions(const TransformerConfig& config);

// The parameters of a layer: ours, theirs.
using ParameterNames = std::vector<std::pair<const char*, const char*>>;
const ParameterNames& parameter_names(LayerName::Kind kind);

// Their numbers for activations. SwiGLU is a swish beside a linear_0_noact.
struct ActivationName {
  int id;
  Activation ours;
};
inline constexpr ActivationName activations[] = {
    {0, Activation::relu}, {1, Activation::gelu_tanh}, {2, Activation::swish}, {3, Activation::gelu}};

}  // namespace transduce::ctranslate2
