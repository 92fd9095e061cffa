#include "transduce/io/ctranslate2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "transduce/base/file.h"
#include "transduce/io/ctranslate2_file.h"
#include "transduce/io/ctranslate2_names.h"
#include "transduce/io/ctranslate2_vocabulary.h"

namespace transduce {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> sides = {"encoder", "decoder"};
constexpr size_t max_config_bytes = size_t{1} << 20;

// What config.json, or in older models model.bin, says beside the parameters.
struct Settings {
  SpecialNames names;
  std::string first_token;  // that the decoder starts from
  bool source_end = false;
  std::optional<double> epsilon;
};

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
  const auto found = std::find_if(std::begin(ctranslate2_activations), std::end(ctranslate2_activations),
                                  [&](const auto& known) { return known.id == id; });
  check_input(found != std::end(ctranslate2_activations),
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

constexpr const char* position_table = "/position_encodings/encodings";

void set_positions(const CTranslate2File& file, TransformerConfig& config) {
  std::array<Shape, 2> shape;
  for (size_t i = 0; i < 2; ++i) shape[i] = file.shape(sides[i] + std::string(position_table));
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
    sinusoids = recognize(file.values(sides[0] + std::string(position_table)));
    const auto other = recognize(file.values(sides[1] + std::string(position_table)));
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

// The first axis of a matrix that must be there.
int64_t rows_of(const CTranslate2File& file, const std::string& tensor) {
  check_input(file.has(tensor), "{} lacks the tensor {}", file.name(), in_quotes(tensor, 100));
  const Shape shape = file.shape(tensor);
  check_input(shape.size() == 2 && elements_of(shape) > 0, "{}: tensor {} must be a matrix, got shape {}",
              file.name(), in_quotes(tensor, 100), to_string(shape));
  return shape[0];
}

int64_t count_layers(const CTranslate2File& file, const char* side) {
  int64_t layers = 0;
  while (file.has(fmt::format("{}/layer_{}/self_attention/linear_0/weight", side, layers))) ++layers;
  return layers;
}

// Scalars that change nothing, and those that do unless they are zero.
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

// Fills the parameters of a model from a file, each once.
class Filler {
 public:
  Filler(const CTranslate2File& file, Transformer& model) : file_(file), model_(model) {}

  void set(const std::string& ours, const Tensor& values, const std::string& theirs) {
    const Parameter* parameter = model_.parameters().find(ours);
    if (parameter == nullptr) throw std::logic_error("[ctranslate2] no parameter " + ours);
    check_input(values.shape() == parameter->shape, "{}: tensor {} must have shape {}, got {}", file_.name(),
                in_quotes(theirs, 100), to_string(parameter->shape), to_string(values.shape()));
    parameter->variable.value().copy_from(values);
    filled_.insert(ours);
  }

  void copy(const std::string& ours, const std::string& theirs) { set(ours, file_.values(theirs), theirs); }

  // A linear layer or a norm. What may be left out, a bias, is zero then.
  void layer(const LayerName& name) {
    for (const auto& [our, their] : parameter_names(name.kind)) {
      const std::string ours = name.ours + "." + our, theirs = name.theirs + "/" + their;
      const bool optional = std::string_view(our) == "bias";
      if (optional && model_.parameters().find(ours) == nullptr) continue;
      if (name.kind == LayerName::Kind::gated) {
        gated(ours, theirs, name.theirs + "_noact/" + their, optional);
      } else if (!optional || file_.has(theirs) || name.kind == LayerName::Kind::norm) {
        copy(ours, theirs);
      } else {
        filled_.insert(ours);
      }
    }
  }

  // Everything must have come from somewhere, and everything in the file must have gone somewhere.
  void finish() const {
    for (const Parameter& parameter : model_.parameters().parameters()) {
      if (!filled_.contains(parameter.name))
        throw std::logic_error("[ctranslate2] unfilled " + parameter.name);
    }
    std::vector<std::string> left = file_.untaken();
    const size_t count = left.size();
    left.resize(std::min<size_t>(count, 3));
    check_input(count == 0,
                "{} holds {} tensors that this program has no part for, so that results would differ: {}{}",
                file_.name(), count, join(left, ", "), count > 3 ? ", ..." : "");
  }

 private:
  // The gate, then what is gated, as one matrix.
  void gated(const std::string& ours, const std::string& gate, const std::string& up, bool optional) {
    const Tensor& both = model_.parameters().find(ours)->variable.value();
    const int64_t half = both.dim(0) / 2;
    for (const auto& [name, begin] : {std::pair{gate, int64_t{0}}, std::pair{up, half}}) {
      if (optional && !file_.has(name)) continue;
      const Tensor values = file_.values(name);
      Shape shape = both.shape();
      shape[0] = half;
      check_input(values.shape() == shape, "{}: tensor {} must have shape {}, got {}", file_.name(),
                  in_quotes(name, 100), to_string(shape), to_string(values.shape()));
      both.flat(begin * (both.size() / both.dim(0)), values.size())
          .copy_from(values.reshape({values.size()}));
    }
    filled_.insert(ours);
  }

  const CTranslate2File& file_;
  Transformer& model_;
  std::set<std::string> filled_;
};

// Rows of `matrix` (V, ...) in another order; zeros where there is none (-1).
Tensor pick_rows(const Tensor& matrix, const std::vector<int64_t>& rows) {
  Shape shape = matrix.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  const int64_t width = matrix.size() / matrix.dim(0);
  const Tensor picked = Tensor::zeros(shape);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    picked.flat(static_cast<int64_t>(i) * width, width).copy_from(matrix.flat(rows[i] * width, width));
  }
  return picked;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.data<float>(), a.data<float>() + a.size(), b.data<float>());
}

void check_kind(const CTranslate2File& file) {
  const std::set<std::string> known{"TransformerSpec", "TransformerBase", "TransformerBig", ""};
  check_input(known.contains(file.specification()),
              "{} holds a {}: only the encoder-decoder TransformerSpec can be imported", file.name(),
              in_quotes(file.specification(), 100));
  check_input(file.revision() >= 2 && file.revision() <= 7,
              "{} has revision {} of its layout: 2 to 7 can be read", file.name(), file.revision());
}

// One side's vocabulary, and the rows of its matrices in our order.
struct Side {
  ReorderedVocabulary reordered;
  std::shared_ptr<const Tokenizer> tokenizer;

  const std::vector<int64_t>& rows() const { return reordered.rows; }
};

std::string vocabulary_file(const fs::path& directory, const std::string& side, const std::string& given) {
  if (!given.empty()) return given;
  std::error_code ignored;
  for (const std::string& name : {side, std::string("shared")}) {
    for (const char* ending : {".json", ".txt"}) {
      const fs::path file = directory / (name + "_vocabulary" + ending);
      if (fs::exists(file, ignored)) return file.string();
    }
  }
  fail_input("no {0}_vocabulary or shared_vocabulary, .json or .txt, in {1}: name it with --{0}-vocabulary",
             side, in_quotes(directory.string(), 4096));
}

// By characters where each ordinary token is one.
TokenizerKind fitting_tokenizer(const Vocabulary& vocabulary) {
  for (auto id = Vocabulary::special_symbols; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(id);
    if (token.empty() || utf8_length(token) != token.size()) return TokenizerKind::word;
  }
  return TokenizerKind::character;
}

Side make_side(const ForeignVocabulary& foreign, const SpecialNames& names, int64_t rows,
               std::optional<TokenizerKind> kind) {
  Side side{reorder(foreign, names, rows), nullptr};
  const Vocabulary& vocabulary = side.reordered.vocabulary;
  side.tokenizer =
      make_tokenizer({kind.value_or(fitting_tokenizer(vocabulary)), NormalForm::none}, vocabulary);
  return side;
}

TransformerConfig read_config(const CTranslate2File& file, int64_t heads) {
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
  config.activation = activation_of(file);
  config.embedding_scale = embedding_scale_of(file, config.width);
  set_positions(file, config);
  return config;
}

// The three matrices (V, C) and the output bias, in our order of tokens.
struct Matrices {
  Tensor source, target, output;  // (V, C)
  Tensor bias;                    // (V), or empty
};

// A bias that leaves a token no probability, and finite.
constexpr float never = -1e9f;

Matrices read_matrices(const CTranslate2File& file, const std::string& source_name, const Side& source,
                       const Side& target, int64_t first_row) {
  const std::string output = "decoder/projection/";
  std::vector<int64_t> target_rows = target.rows();
  target_rows[Vocabulary::start] = first_row;
  check_input(rows_of(file, output + "weight") == rows_of(file, "decoder/embeddings/weight"),
              "{}: the output layer has {} rows, but the target embedding {}", file.name(),
              rows_of(file, output + "weight"), rows_of(file, "decoder/embeddings/weight"));
  Matrices matrices;
  matrices.source = pick_rows(file.values(source_name), source.rows());
  matrices.target = pick_rows(file.values("decoder/embeddings/weight"), target_rows);
  matrices.output = pick_rows(file.values(output + "weight"), target.rows());
  const bool lacking = std::count(target.rows().begin(), target.rows().end(), -1) > 0;
  if (file.has(output + "bias")) {
    const Tensor bias = file.values(output + "bias");
    const Shape expected{rows_of(file, output + "weight")};
    check_input(bias.shape() == expected, "{}: tensor \"{}bias\" must have shape {}, got {}", file.name(),
                output, to_string(expected), to_string(bias.shape()));
    matrices.bias = pick_rows(bias, target.rows());
  } else if (lacking) {
    matrices.bias = Tensor::zeros({static_cast<int64_t>(target.rows().size())});
  }
  for (size_t id = 0; lacking && id < target.rows().size(); ++id) {
    if (target.rows()[id] < 0) matrices.bias.data<float>()[id] = never;
  }
  return matrices;
}

// What is equal was tied.
Tie tie_of(const Matrices& matrices, bool joint_vocabulary) {
  if (!equal(matrices.target, matrices.output)) return Tie::none;
  return joint_vocabulary && equal(matrices.source, matrices.target) ? Tie::all : Tie::decoder;
}

// The file's size bounds the model's: what it asks for beyond is refused before it gets memory.
void check_size(const CTranslate2File& file, const TransformerConfig& config) {
  const int64_t needed = Transformer::count_parameters(config), held = file.elements();
  // Biases may be left out, and four special symbols a matrix.
  check_input(needed / 2 <= held + 12 * config.width,
              "{} holds {} numbers, but a model of its shape has {} parameters", file.name(), held, needed);
}

void fill(const CTranslate2File& file, const Matrices& matrices, Transformer& model) {
  const TransformerConfig& config = model.config();
  Filler filler(file, model);
  for (const LayerName& layer : layers(config)) filler.layer(layer);
  const bool all = config.tie == Tie::all;
  filler.set(all ? "shared_embedding.weight" : "source_embedding.weight", matrices.source,
             "encoder/embeddings");
  if (!all) filler.set("target_embedding.weight", matrices.target, "decoder/embeddings");
  if (config.tie == Tie::none) filler.set("output.weight", matrices.output, "decoder/projection/weight");
  if (config.output_bias) filler.set("output.bias", matrices.bias, "decoder/projection/bias");
  if (config.positions == PositionKind::learned) {
    filler.copy("source_positions.weight", sides[0] + std::string(position_table));
    filler.copy("target_positions.weight", sides[1] + std::string(position_table));
  }
  take_flags(file, config);
  filler.finish();
}

}  // namespace

Seq2SeqModel import_ctranslate2(const std::string& path, const CTranslate2Import& options) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(path, ignored);
  const fs::path directory = is_directory ? fs::path(path) : fs::path(path).parent_path();
  const CTranslate2File file((is_directory ? directory / "model.bin" : fs::path(path)).string());
  check_kind(file);
  const Settings settings = read_settings((directory / "config.json").string(), file);
  TransformerConfig config = read_config(file, options.heads);

  // From revision 5 on there may be several source embeddings, which are numbered; one is supported.
  const std::string source_name =
      file.has("encoder/embeddings_0/weight") ? "encoder/embeddings_0/weight" : "encoder/embeddings/weight";
  const ForeignVocabulary source_tokens = read_foreign_vocabulary(
                              vocabulary_file(directory, "source", options.source_vocabulary)),
                          target_tokens = read_foreign_vocabulary(
                              vocabulary_file(directory, "target", options.target_vocabulary));
  const Side source = make_side(source_tokens, settings.names, rows_of(file, source_name),
                                options.source_tokenizer),
             target = make_side(target_tokens, settings.names, rows_of(file, "decoder/embeddings/weight"),
                                options.target_tokenizer);
  const bool from_zero = file.scalar("decoder/start_from_zero_embedding").value_or(0.0) != 0.0;
  const int64_t first = from_zero ? -1 : target_tokens.find(settings.first_token);
  check_input(from_zero || first >= 0, "{} lacks the token {} that the decoder starts from",
              target_tokens.file, in_quotes(settings.first_token, 100));

  const Matrices matrices = read_matrices(file, source_name, source, target, first);
  const bool joint = source.reordered.vocabulary == target.reordered.vocabulary;
  config.source_vocabulary = matrices.source.dim(0);
  config.target_vocabulary = matrices.target.dim(0);
  // CTranslate2's own defaults.
  config.norm_epsilon = settings.epsilon.value_or(config.norm_kind == NormKind::rms ? 1e-6 : 1e-5);
  config.source_end = settings.source_end;
  config.tie = tie_of(matrices, joint);
  config.output_bias = !matrices.bias.empty();
  config.validate();
  check_size(file, config);
  Seq2SeqModel model{std::make_unique<Transformer>(config), source.tokenizer, target.tokenizer, joint};
  fill(file, matrices, *model.transformer);
  return model;
}

}  // namespace transduce
