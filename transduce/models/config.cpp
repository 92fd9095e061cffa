#include "transduce/models/config.h"

#include <nlohmann/json.hpp>

#include "transduce/base/names.h"

namespace transduce {
namespace {

constexpr Name<NormPlacement> kNormPlacements[] = {{NormPlacement::post, "post"},
                                                   {NormPlacement::pre, "pre"}};
constexpr Name<NormKind> kNormKinds[] = {{NormKind::layer, "layer"}, {NormKind::rms, "rms"}};
constexpr Name<Activation> kActivations[] = {{Activation::relu, "relu"},
                                             {Activation::gelu, "gelu"},
                                             {Activation::gelu_tanh, "gelu-tanh"},
                                             {Activation::swish, "swish"},
                                             {Activation::swiglu, "swiglu"}};
constexpr Name<PositionKind> kPositionKinds[] = {{PositionKind::sinusoidal, "sinusoidal"},
                                                 {PositionKind::learned, "learned"},
                                                 {PositionKind::rotary, "rotary"}};
constexpr Name<SinusoidLayout> kSinusoidLayouts[] = {{SinusoidLayout::interleaved, "interleaved"},
                                                     {SinusoidLayout::concatenated, "concatenated"}};
constexpr Name<Timescales> kTimescales[] = {{Timescales::paper, "paper"},
                                            {Timescales::tensor2tensor, "tensor2tensor"}};
constexpr Name<Tie> kTies[] = {{Tie::none, "none"}, {Tie::decoder, "decoder"}, {Tie::all, "all"}};

constexpr Name<WeightKind> kWeightKinds[] = {{WeightKind::float32, "float32"}, {WeightKind::int8, "int8"}};

// Binds every field once, to be written and to be read.
template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& visit) {
  visit("source_vocabulary", c.source_vocabulary);
  visit("target_vocabulary", c.target_vocabulary);
  visit("width", c.width);
  visit("heads", c.heads);
  visit("feed_forward", c.feed_forward);
  visit("encoder_layers", c.encoder_layers);
  visit("decoder_layers", c.decoder_layers);
  visit("norm", c.norm);
  visit("norm_kind", c.norm_kind);
  visit("norm_epsilon", c.norm_epsilon);
  visit("activation", c.activation);
  visit("positions", c.positions);
  visit("max_positions", c.max_positions);
  visit("sinusoid_layout", c.sinusoid_layout);
  visit("timescales", c.timescales);
  visit("position_offset", c.position_offset);
  visit("tie", c.tie);
  visit("embedding_scale", c.embedding_scale);
  visit("attention_scale", c.attention_scale);
  visit("output_bias", c.output_bias);
  visit("weights", c.weights);
  visit("source_end", c.source_end);
  visit("dropout", c.dropout);
  visit("attention_dropout", c.attention_dropout);
  visit("activation_dropout", c.activation_dropout);
}

void parse_enum(const std::string& text, NormPlacement& value) { value = parse_norm_placement(text); }
void parse_enum(const std::string& text, NormKind& value) { value = parse_norm_kind(text); }
void parse_enum(const std::string& text, Activation& value) { value = parse_activation(text); }
void parse_enum(const std::string& text, PositionKind& value) { value = parse_position_kind(text); }
void parse_enum(const std::string& text, SinusoidLayout& value) { value = parse_sinusoid_layout(text); }
void parse_enum(const std::string& text, Timescales& value) { value = parse_timescales(text); }
void parse_enum(const std::string& text, Tie& value) { value = parse_tie(text); }
void parse_enum(const std::string& text, WeightKind& value) { value = parse_weight_kind(text); }

template <class T>
void read_field(const std::string& name, const nlohmann::json& json, T& field) {
  const auto wrong = [&](const char* expected) {
    fail_input("config.json: '{}' must be {}, got {}", name, expected, json.dump());
  };
  if constexpr (std::is_enum_v<T>) {
    if (!json.is_string()) wrong("a name in quotes");
    parse_enum(json.get<std::string>(), field);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong("true or false");
    field = json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
      wrong("a whole number");
    }
    field = json.get<int64_t>();
  } else {
    if (!json.is_number()) wrong("a number");
    field = json.get<double>();
  }
}

void check_range(const char* name, int64_t value, int64_t low, int64_t high) {
  check_input(value >= low && value <= high, "{} {} is out of range: give {} to {}", name, value, low, high);
}

void check_probability(const char* name, double value) {
  check_input(value >= 0.0 && static_cast<float>(value) < 1.0f,
              "{} {} is out of range: give a probability from 0 to below 1", name, value);
}

}  // namespace

const char* to_string(NormPlacement value) { return name_in(kNormPlacements, value); }
const char* to_string(NormKind value) { return name_in(kNormKinds, value); }
const char* to_string(Activation value) { return name_in(kActivations, value); }
const char* to_string(PositionKind value) { return name_in(kPositionKinds, value); }
const char* to_string(SinusoidLayout value) { return name_in(kSinusoidLayouts, value); }
const char* to_string(Timescales value) { return name_in(kTimescales, value); }
const char* to_string(Tie value) { return name_in(kTies, value); }
const char* to_string(WeightKind value) { return name_in(kWeightKinds, value); }

NormPlacement parse_norm_placement(const std::string& name) {
  return value_in(kNormPlacements, "norm placement", name);
}
NormKind parse_norm_kind(const std::string& name) { return value_in(kNormKinds, "norm kind", name); }
Activation parse_activation(const std::string& name) { return value_in(kActivations, "activation", name); }
PositionKind parse_position_kind(const std::string& name) {
  return value_in(kPositionKinds, "kind of positions", name);
}
SinusoidLayout parse_sinusoid_layout(const std::string& name) {
  return value_in(kSinusoidLayouts, "sinusoid layout", name);
}
Timescales parse_timescales(const std::string& name) { return value_in(kTimescales, "timescales", name); }
Tie parse_tie(const std::string& name) { return value_in(kTies, "tying", name); }
WeightKind parse_weight_kind(const std::string& name) {
  return value_in(kWeightKinds, "kind of weights", name);
}

void TransformerConfig::validate() const {
  check_range("source vocabulary", source_vocabulary, 1, int64_t{1} << 24);
  check_range("target vocabulary", target_vocabulary, 1, int64_t{1} << 24);
  check_range("width", width, 1, 1 << 16);
  check_range("heads", heads, 1, width);
  check_input(
      width % heads == 0,
      "width {} is not divisible by {} heads: every head needs width / heads columns; choose a width that is "
      "a multiple of {}, or other heads",
      width, heads, heads);
  check_range("feed-forward", feed_forward, 1, 1 << 20);
  check_range("encoder layers", encoder_layers, 0, 1024);
  check_range("decoder layers", decoder_layers, 1, 1024);
  check_range("max positions", max_positions, 1, 1 << 24);
  check_range("position offset", position_offset, 0, 1 << 24);
  check_input(positions == PositionKind::sinusoidal || position_offset == 0,
              "position offset {} does not go with {} positions, which count from the first token: give 0",
              position_offset, to_string(positions));
  check_input(positions != PositionKind::rotary || width / heads % 2 == 0,
              "rotary positions turn pairs of columns: width {} with {} heads gives heads of {} columns; "
              "choose a width that is a multiple of {}, or other heads",
              width, heads, width / heads, 2 * heads);
  check_input(timescales != Timescales::tensor2tensor || width >= 3,
              "tensor2tensor's timescales need a width of 3 or more, got {}", width);
  check_input(norm_epsilon > 0.0 && norm_epsilon < 1.0,
              "norm epsilon {} is out of range: give a value between 0 and 1", norm_epsilon);
  check_input(
      tie != Tie::all || source_vocabulary == target_vocabulary,
      "tying all embeddings needs one vocabulary for both sides, got {} source and {} target tokens: build a "
      "joint vocabulary or tie the decoder only",
      source_vocabulary, target_vocabulary);
  check_probability("dropout", dropout);
  check_probability("attention dropout", attention_dropout);
  check_probability("activation dropout", activation_dropout);
}

std::string to_json(const TransformerConfig& config) {
  nlohmann::ordered_json json;
  visit_fields(config, [&](const char* name, const auto& field) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(field)>>) {
      json[name] = to_string(field);
    } else {
      json[name] = field;
    }
  });
  return json.dump(2);
}

TransformerConfig transformer_config_from_json(const std::string& text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail_input("config.json is not JSON: {}", error.what());
  }
  check_input(json.is_object(), "config.json must hold an object");
  TransformerConfig config;
  visit_fields(config, [&](const char* name, auto& field) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    read_field(name, *found, field);
    json.erase(found);
  });
  check_input(json.empty(), "config.json: unknown field '{}'", json.empty() ? "" : json.begin().key());
  config.validate();
  return config;
}

}  // namespace transduce
