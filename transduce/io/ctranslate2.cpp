#include "transduce/io/ctranslate2.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "transduce/io/ctranslate2_config.h"
#include "transduce/io/ctranslate2_file.h"
#include "transduce/io/ctranslate2_names.h"
#include "transduce/io/ctranslate2_vocabulary.h"

namespace transduce {
namespace {

namespace fs = std::filesystem;

using namespace ctranslate2;

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
void check_config(const CTranslate2File& file, const TransformerConfig& config) {
  try {
    config.validate();
  } catch (const InputError& error) {
    fail_input("{}: {}", file.name(), error.what());
  }
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
    filler.copy("source_positions.weight", source_position_table);
    filler.copy("target_positions.weight", target_position_table);
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
  TransformerConfig config = read_config(file, settings, options.heads);

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
  config.source_end = settings.source_end;
  config.tie = tie_of(matrices, joint);
  config.output_bias = !matrices.bias.empty();
  check_config(file, config);
  Seq2SeqModel model{std::make_unique<Transformer>(config), source.tokenizer, target.tokenizer, joint};
  fill(file, matrices, *model.transformer);
  return model;
}

}  // namespace transduce
