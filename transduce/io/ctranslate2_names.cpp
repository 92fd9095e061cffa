#include "transduce/io/ctranslate2_names.h"

#include <fmt/format.h>

namespace transduce::ctranslate2 {
namespace {

using Kind = LayerName::Kind;

struct Row {
  Kind kind;
  const char* ours;
  const char* theirs;
};

// The layers of an encoder layer; a decoder layer has the attention to the source as well.
constexpr Row encoder_layer[] = {
    {Kind::linear, "self_attention.query_key_value", "self_attention/linear_0"},
    {Kind::linear, "self_attention.output", "self_attention/linear_1"},
    {Kind::norm, "self_attention_norm", "self_attention/layer_norm"},
    {Kind::gated, "feed_forward.inner", "ffn/linear_0"},
    {Kind::linear, "feed_forward.outer", "ffn/linear_1"},
    {Kind::norm, "feed_forward_norm", "ffn/layer_norm"},
};
constexpr Row cross_attention[] = {
    {Kind::linear, "cross_attention.query", "attention/linear_0"},
    {Kind::linear, "cross_attention.key_value", "attention/linear_1"},
    {Kind::linear, "cross_attention.output", "attention/linear_2"},
    {Kind::norm, "cross_attention_norm", "attention/layer_norm"},
};

}  // namespace

std::vector<LayerName> layers(const TransformerConfig& config) {
  std::vector<LayerName> names;
  const bool gated = config.activation == Activation::swiglu;
  const auto add = [&](const Row& row, const char* side, int64_t layer) {
    const Kind kind = row.kind == Kind::gated && !gated ? Kind::linear : row.kind;
    names.push_back({kind, fmt::format("{}.layers.{}.{}", side, layer, row.ours),
                     fmt::format("{}/layer_{}/{}", side, layer, row.theirs)});
  };
  for (int64_t i = 0; i < config.encoder_layers; ++i) {
    for (const Row& row : encoder_layer) add(row, "encoder", i);
  }
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    for (const Row& row : encoder_layer) add(row, "decoder", i);
    for (const Row& row : cross_attention) add(row, "decoder", i);
  }
  if (config.norm == NormPlacement::pre) {
    names.push_back({Kind::norm, "encoder.norm", "encoder/layer_norm"});
    names.push_back({Kind::norm, "decoder.norm", "decoder/layer_norm"});
  }
  return names;
}

std::vector<std::string> attentions(const TransformerConfig& config) {
  std::vector<std::string> scopes;
  for (int64_t i = 0; i < config.encoder_layers; ++i) {
    scopes.push_back(fmt::format("encoder/layer_{}/self_attention", i));
  }
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    scopes.push_back(fmt::format("decoder/layer_{}/self_attention", i));
    scopes.push_back(fmt::format("decoder/layer_{}/attention", i));
  }
  return scopes;
}

const ParameterNames& parameter_names(Kind kind) {
  static const ParameterNames linear{{"weight", "weight"}, {"bias", "bias"}},
      norm{{"weight", "gamma"}, {"bias", "beta"}};
  return kind == Kind::norm ? norm : linear;
}

}  // namespace transduce::ctranslate2
