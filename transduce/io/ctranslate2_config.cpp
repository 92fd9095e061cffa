#include "transduce/io/ctranslate2_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "transduce/base/file.h"
#include "transduce/io/ctranslate2_names.h"

namespace transduce::ctranslate2 {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> sides = {"encoder", "decoder"};
constexpr std::array<const char*, 2> position_tables = {source_position_table, target_position_table};
constexpr size_t max_config_bytes = size_t{1} << 20;

// A field of config.json, `fallback` where it is absent or null.
template <class T>
T field(const nlohmann::json& json, const std::string& file, const char* name, const T& fallback) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return fallback;
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    fail_input("{}: field '{}' cannot be {}", file, name, in_quotes(found->dump(), 100));
  }
}

// A number that encoder and decoder must agree on; before revision 5 it stands there once for both.
std::optional<double> common(const CTranslate2File& file, const std::string& name) {
  const std::optional<double> both = file.scalar(name);
  std::array<std::optional<double>, 2> value;
  for (size_t i = 0; i < sides.size(); ++i) {
    value[i] = file.scalar(std::string(sides[i]) + "/" + name);
    if (!value[i]) value[i] = both;
  }
  check_input(value[0] == value[1],
              "{}: {} is {} in the encoder and {} in the decoder: one for both is supported", file.name(),
              name, value[0] ? fmt::format("{}", *value[0]) : "absent",
              value[1] ? fmt::format("{}", *value[1]) : "absent");
  return value[0];
}

int64_t heads_of(const CTranslate2File& file, int64_t asked) {
  std::optional<double> stated = common(file, "num_heads");
  // Before revision 3 the kind of model implies the heads.
  if (!stated && asked == 0) {
    check_input(file.revision() < 3 && file.specification() != "TransformerSpec",
                "{} does not say how many attention heads the model has: give --heads", file.name());
    return file.specification() == "TransformerBig" ? 16 : 8;
  }
  check_input(!stated || asked == 0 || *stated == static_cast<double>(asked),
              "{} has {} attention heads, not the {} asked for", file.name(), stated.value_or(0.0), asked);
  const double heads = stated.value_or(static_cast<double>(asked));
  check_input(heads >= 1.0 && heads <= 65536.0 && heads == std::floor(heads), "{}: {} attention heads",
              file.name(), heads);
  return static_cast<int64_t>(heads);
}

Activation activation_of(const CTranslate2File& file) {
  const double id = common(file, "activation").value_or(0.0);
  const auto found = std::find_if(std::begin(activations), std::end(activations),
                                  [&](const auto& known) { return known.id == id; });
  check_input(found != std::end(activations),
              "{}: activation {} is not supported: 0 (relu), 1 (gelu by tanh), 2 (swish) and 3 (gelu) are",
              file.name(), id);
  const bool gated = file.has("decoder/layer_0/ffn/linear_0_noact/weight");
  check_input(
      !gated || found->ours == Activation::swish,
      "{}: a gated feed-forward network with activation {} is not supported: only with 2 (swish), which "
      "makes SwiGLU",
      file.name(), id);
  return gated ? Activation::swiglu : found->ours;
}

// Whether embeddings are multiplied by sqrt(C): a flag, or the factor itself.
bool embedding_scale_of(const CTranslate2File& file, int64_t width) {
  const std::string older = "embeddings/multiply_by_sqrt_depth";
  const std::optional<double> now = common(file, "scale_embeddings"), before = common(file, older);
  if (!now && !before) return true;
  const double scale = now ? *now : *before;
  const std::string name = now ? "scale_embeddings" : older;
  if (!file.is_floating("decoder/" + name)) return scale != 0.0;
  const double root = std::sqrt(static_cast<double>(width));
  check_input(scale == 1.0 || std::abs(scale / root - 1.0) < 1e-5,
              "{}: embeddings are multiplied by {}: only by sqrt({}) or not at all is supported", file.name(),
              scale, width);
  return scale != 1.0;
}

// The sinusoids that a table (P, C) holds to float32 rounding, if it does.
std::optional<Sinusoids> recognize(const Tensor& table) {
  const int64_t width = table.dim(1);
  const auto same = [&](const Sinusoids& sinusoids, int64_t rows) {
    const std::vector<float> expected =
        sinusoid_table(rows, width, DType::float32, sinusoids).to_vector<float>();
    return std::equal(expected.begin(), expected.end(), table.data<float>(),
                      [](float a, float b) { return std::abs(a - b) <= 1e-6f; });
  };
  for (const auto layout : {SinusoidLayout::interleaved, SinusoidLayout::concatenated}) {
    for (const auto timescales : {Timescales::paper, Timescales::tensor2tensor}) {
      if (timescales == Timescales::tensor2tensor && width < 3) continue;
      for (const int64_t offset : {0, 1, 2}) {
        const Sinusoids sinusoids{layout, timescales, offset};
        const int64_t rows = table.dim(0);
        if (same(sinusoids, std::min<int64_t>(rows, 4)) && same(sinusoids, rows)) return sinusoids;
      }
    }
  }
  return std::nullopt;
}

void set_positions(const CTranslate2File& file, TransformerConfig& config) {
  std::array<Shape, 2> shape;
  for (size_t i = 0; i < 2; ++i) shape[i] = file.shape(position_tables[i]);
  const std::string described =
      fmt::format("{} in the encoder and {} in the decoder", to_string(shape[0]), to_string(shape[1]));
  std::optional<Sinusoids> sinusoids;
  if (shape[0].empty() && shape[1].empty()) {
    // Without tables CTranslate2 computes tensor2tensor's sinusoids, with positions from 1.
    check_input(config.width % 2 == 0, "{}: sinusoids of an odd width {} are not defined", file.name(),
                config.width);
    sinusoids = {SinusoidLayout::concatenated, Timescales::tensor2tensor, 1};
  } else {
    check_input(shape[0].size() == 2 && shape[1].size() == 2 && shape[0][1] == config.width &&
                    shape[1][1] == config.width && shape[0][0] > 0 && shape[1][0] > 0,
                "{}: tables of positions must be (positions, {}), got {}", file.name(), config.width,
                described);
    sinusoids = recognize(file.values(source_position_table));
    const auto other = recognize(file.values(target_position_table));
    if (sinusoids != other) sinusoids.reset();
  }
  if (sinusoids) {
    config.sinusoid_layout = sinusoids->layout;
    config.timescales = sinusoids->timescales;
    config.position_offset = sinusoids->offset;
    return;
  }
  check_input(shape[0][0] == shape[1][0], "{}: learned positions of different number are not supported: {}",
              file.name(), described);
  config.positions = PositionKind::learned;
  config.max_positions = shape[0][0];
}

int64_t count_layers(const CTranslate2File& file, const char* side) {
  int64_t layers = 0;
  while (file.has(fmt::format("{}/layer_{}/self_attention/linear_0/weight", side, layers))) ++layers;
  return layers;
}

}  // namespace

int64_t rows_of(const CTranslate2File& file, const std::string& tensor) {
  check_input(file.has(tensor), "{} lacks the tensor {}", file.name(), in_quotes(tensor, 100));
  const Shape shape = file.shape(tensor);
  check_input(shape.size() == 2 && elements_of(shape) > 0, "{}: tensor {} must be a matrix, got shape {}",
              file.name(), in_quotes(tensor, 100), to_string(shape));
  return shape[0];
}

Settings read_settings(const std::string& path, const CTranslate2File& model) {
  const std::string file = in_quotes(path, 4096);
  nlohmann::json json = nlohmann::json::object();
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    json = nlohmann::json::parse(read_file(path, max_config_bytes), nullptr, false);
    check_input(json.is_object(), "{} is not a JSON object", file);
  }
  // Before version 6 of the format the file itself holds these.
  const bool source_start = model.scalar("with_source_bos").value_or(0.0) != 0.0,
             source_end = model.scalar("with_source_eos").value_or(0.0) != 0.0,
             target_start = model.scalar("with_target_bos").value_or(1.0) != 0.0;
  Settings settings;
  SpecialNames& names = settings.names;
  names.start = field<std::string>(json, file, "bos_token", names.start);
  names.end = field<std::string>(json, file, "eos_token", names.end);
  names.unknown = field<std::string>(json, file, "unk_token", names.unknown);
  check_input(
      !json.contains("decoder_start_token") || !json["decoder_start_token"].is_null(),
      "{}: decoder_start_token is null: this model wants its first token (a language, say) with every "
      "text, which cannot be imported",
      file);
  settings.first_token =
      field<std::string>(json, file, "decoder_start_token", target_start ? names.start : names.end);
  settings.source_end = field<bool>(json, file, "add_source_eos", source_end);
  if (json.contains("layer_norm_epsilon") && !json["layer_norm_epsilon"].is_null()) {
    settings.epsilon = field<double>(json, file, "layer_norm_epsilon", 0.0);
  }
  check_input(!field<bool>(json, file, "add_source_bos", source_start),
              "{}: source sequences that begin with a start symbol (add_source_bos) cannot be imported",
              model.name());
  return settings;
}

TransformerConfig read_config(const CTranslate2File& file, const Settings& settings, int64_t heads) {
  const std::string embedding = "decoder/embeddings/weight";
  TransformerConfig config;
  (void)rows_of(file, embedding);
  config.width = file.shape(embedding)[1];
  config.heads = heads_of(file, heads);
  config.feed_forward = rows_of(file, "decoder/layer_0/ffn/linear_0/weight");
  config.encoder_layers = count_layers(file, "encoder");
  config.decoder_layers = count_layers(file, "decoder");
  config.norm = common(file, "pre_norm").value_or(1.0) != 0.0 ? NormPlacement::pre : NormPlacement::post;
  config.norm_kind = file.has("decoder/layer_0/ffn/layer_norm/beta") ? NormKind::layer : NormKind::rms;
  // CTranslate2's own defaults.
  config.norm_epsilon = settings.epsilon.value_or(config.norm_kind == NormKind::rms ? 1e-6 : 1e-5);
  config.activation = activation_of(file);
  config.embedding_scale = embedding_scale_of(file, config.width);
  set_positions(file, config);
  return config;
}

void take_flags(const CTranslate2File& file, const TransformerConfig& config) {
  for (const char* name : {"alignment_layer", "alignment_heads", "embeddings_merge"}) {
    for (const char* scope : {"", "encoder/", "decoder/"}) (void)file.scalar(scope + std::string(name));
  }
  for (const char* name : {"decoder/alibi", "decoder/alibi_use_positive_positions", "decoder/scale_alibi",
                           "encoder/multi_query_attention"}) {
    check_input(file.scalar(name).value_or(0.0) == 0.0, "{}: {} is not supported", file.name(), name);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(config.width / config.heads));
  for (const std::string& attention : attentions(config)) {
    const std::string name = attention + "/queries_scale";
    const double stated = file.scalar(name).value_or(scale);
    check_input(std::abs(stated / scale - 1.0) < 1e-5,
                "{}: {} is {}: only 1 / sqrt(head size), {}, is supported", file.name(), name, stated, scale);
  }
}

}  // namespace transduce::ctranslate2
