#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "transduce/base/file.h"
#include "transduce/io/ctranslate2.h"
#include "transduce/io/ctranslate2_config.h"
#include "transduce/io/ctranslate2_names.h"

namespace transduce {
namespace {

namespace fs = std::filesystem;

using namespace ctranslate2;

// The layout that CTranslate2 4 writes; see ctranslate2_file.h for the bytes.
constexpr uint32_t file_version = 6, specification_revision = 7;

// Rows of a table of sinusoids that CTranslate2 would not compute itself. It cuts sources at 1024 tokens and
// outputs at 256 unless told otherwise.
constexpr int64_t table_rows = 2048;

// Gathers tensors, then writes them in one go.
class ModelBinWriter {
 public:
  explicit ModelBinWriter(const std::string& path) : path_(path) {}

  // A number of rank 0. Types by the file's enumeration: 1 int8, 2 int16.
  void flag(const std::string& name, int value) { number(name, 1, static_cast<int8_t>(value)); }
  void short_number(const std::string& name, int64_t value) { number(name, 2, static_cast<int16_t>(value)); }

  // float32, of any shape, contiguous.
  void tensor(const std::string& name, const Tensor& values) {
    check_input(values.size() <= std::numeric_limits<uint32_t>::max() / 4,
                "tensor {} {} is too large for CTranslate2's format, which counts bytes in 32 bits", name,
                to_string(values.shape()));
    items_.push_back({name, 0, values, ""});
  }

  void alias(const std::string& name, const std::string& of) { aliases_.emplace_back(name, of); }

  void write() const {
    AtomicFile out(path_);
    out.write(bytes_of(file_version) + text("TransformerSpec") + bytes_of(specification_revision) +
              bytes_of(static_cast<uint32_t>(items_.size())));
    for (const Item& item : items_) {
      const Shape shape = item.values ? item.values.shape() : Shape{};
      out.write(text(item.name) + bytes_of(static_cast<uint8_t>(shape.size())));
      for (const int64_t size : shape) out.write(bytes_of(static_cast<uint32_t>(size)));
      const std::string_view elements =
          item.values ? std::string_view(reinterpret_cast<const char*>(item.values.data<float>()),
                                         static_cast<size_t>(item.values.size()) * sizeof(float))
                      : std::string_view(item.scalar);
      out.write(bytes_of(item.type) + bytes_of(static_cast<uint32_t>(elements.size())));
      out.write(elements);
    }
    out.write(bytes_of(static_cast<uint32_t>(aliases_.size())));
    for (const auto& [name, of] : aliases_) out.write(text(name) + text(of));
    out.commit();
  }

 private:
  struct Item {
    std::string name;
    uint8_t type;
    Tensor values;       // or:
    std::string scalar;  // its bytes
  };

  template <class T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  static std::string text(const std::string& value) {
    return bytes_of(static_cast<uint16_t>(value.size() + 1)) + value + '\0';
  }
  template <class T>
  void number(const std::string& name, uint8_t type, T value) {
    items_.push_back({name, type, Tensor(), bytes_of(value)});
  }

  std::string path_;
  std::vector<Item> items_;
  std::vector<std::pair<std::string, std::string>> aliases_;
};

// The tokens in our order; rows that no token belongs to get names of their own.
std::vector<std::string> exported_tokens(const Vocabulary& vocabulary, int64_t rows, const char* side) {
  std::vector<std::string> tokens{"<blank>", "<s>", "</s>", "<unk>"};
  std::set<std::string> taken(tokens.begin(), tokens.end());
  for (auto id = Vocabulary::special_symbols; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(id);
    check_input(is_valid_utf8(token),
                "the {} token {} is not UTF-8, which CTranslate2's vocabularies must be", side,
                in_quotes(token, 100));
    check_input(
        taken.insert(token).second,
        "the {} vocabulary has an ordinary token {}, which CTranslate2 would take for the special symbol",
        side, in_quotes(token, 100));
    tokens.push_back(token);
  }
  for (int64_t number = 0; static_cast<int64_t>(tokens.size()) < rows; ++number) {
    const std::string name = fmt::format("<unused{}>", number);
    if (taken.insert(name).second) tokens.push_back(name);
  }
  return tokens;
}

void add_settings(ModelBinWriter& out, const TransformerConfig& config) {
  const Activation activation =
      config.activation == Activation::swiglu ? Activation::swish : config.activation;
  int id = -1;
  for (const ActivationName& known : activations) {
    if (known.ours == activation) id = known.id;
  }
  check_input(id >= 0, "CTranslate2 has no activation {}", to_string(config.activation));
  for (const std::string side : {"encoder/", "decoder/"}) {
    out.short_number(side + "num_heads", config.heads);
    out.flag(side + "pre_norm", config.norm == NormPlacement::pre);
    out.flag(side + "activation", id);
    out.flag(side + "scale_embeddings", config.embedding_scale);
  }
  out.flag("encoder/embeddings_merge", 0);
  out.flag("encoder/multi_query_attention", 0);
  for (const char* name :
       {"alibi", "alibi_use_positive_positions", "scale_alibi", "start_from_zero_embedding"}) {
    out.flag(std::string("decoder/") + name, 0);
  }
  out.short_number("decoder/alignment_layer", -1);
  out.short_number("decoder/alignment_heads", 1);
}

Tensor parameter(const Transformer& model, const std::string& name) {
  const Parameter* found = model.parameters().find(name);
  return found == nullptr ? Tensor() : found->variable.value();
}

void add_layers(ModelBinWriter& out, const Transformer& model) {
  for (const LayerName& layer : layers(model.config())) {
    for (const auto& [ours, theirs] : parameter_names(layer.kind)) {
      const Tensor values = parameter(model, layer.ours + "." + ours);
      if (!values) continue;  // the bias that RMSNorm does not have
      if (layer.kind != LayerName::Kind::gated) {
        out.tensor(layer.theirs + "/" + theirs, values);
        continue;
      }
      Shape half = values.shape();
      half[0] /= 2;
      const int64_t size = values.size() / 2;
      out.tensor(layer.theirs + "/" + theirs, values.flat(0, size).reshape(half));
      out.tensor(layer.theirs + "_noact/" + theirs, values.flat(size, size).reshape(half));
    }
  }
}

void add_embeddings(ModelBinWriter& out, const Transformer& model) {
  const TransformerConfig& config = model.config();
  const std::string source = "encoder/embeddings_0/weight", target = "decoder/embeddings/weight",
                    output = "decoder/projection/";
  if (config.tie == Tie::all) {
    out.tensor(target, parameter(model, "shared_embedding.weight"));
    out.alias(source, target);
  } else {
    out.tensor(source, parameter(model, "source_embedding.weight"));
    out.tensor(target, parameter(model, "target_embedding.weight"));
  }
  if (config.tie == Tie::none) {
    out.tensor(output + "weight", parameter(model, "output.weight"));
  } else {
    out.alias(output + "weight", target);
  }
  if (config.output_bias) out.tensor(output + "bias", parameter(model, "output.bias"));
}

void add_positions(ModelBinWriter& out, const Transformer& model) {
  const TransformerConfig& config = model.config();
  if (config.positions == PositionKind::learned) {
    out.tensor(source_position_table, parameter(model, "source_positions.weight"));
    out.tensor(target_position_table, parameter(model, "target_positions.weight"));
    return;
  }
  const Sinusoids sinusoids{config.sinusoid_layout, config.timescales, config.position_offset};
  const Sinusoids built_in{SinusoidLayout::concatenated, Timescales::tensor2tensor, 1};
  if (sinusoids == built_in && config.width % 2 == 0) return;
  out.tensor(target_position_table, sinusoid_table(table_rows, config.width, DType::float32, sinusoids));
  out.alias(source_position_table, target_position_table);
}

void write_json(const fs::path& file, const nlohmann::ordered_json& json) {
  write_file_atomic(file.string(), json.dump(2) + "\n");
}

void write_vocabularies(const fs::path& directory, const Seq2SeqModel& model) {
  const TransformerConfig& config = model.transformer->config();
  const auto source = exported_tokens(model.source->vocabulary(), config.source_vocabulary, "source"),
             target = exported_tokens(model.target->vocabulary(), config.target_vocabulary, "target");
  // A vocabulary that another model left would be taken for this one's.
  std::error_code absent;
  for (const char* name : {"source", "target", "shared"}) {
    for (const char* ending : {".json", ".txt"})
      fs::remove(directory / (name + std::string("_vocabulary") + ending), absent);
  }
  if (source == target) {
    write_json(directory / "shared_vocabulary.json", source);
  } else {
    write_json(directory / "source_vocabulary.json", source);
    write_json(directory / "target_vocabulary.json", target);
  }
}

}  // namespace

void export_ctranslate2(const std::string& directory, const Seq2SeqModel& model) {
  const TransformerConfig& config = model.transformer->config();
  check_input(config.encoder_layers > 0, "CTranslate2 has no encoder without layers");
  check_input(config.positions != PositionKind::rotary && config.attention_scale,
              "rotary positions and unscaled attention are not exported to CTranslate2");
  const fs::path place = directory;
  ModelBinWriter out((place / "model.bin").string());
  add_settings(out, config);
  add_embeddings(out, *model.transformer);
  add_positions(out, *model.transformer);
  add_layers(out, *model.transformer);

  make_directories(directory);
  write_vocabularies(place, model);
  write_json(place / "config.json", {{"add_source_bos", false},
                                     {"add_source_eos", config.source_end},
                                     {"bos_token", "<s>"},
                                     {"decoder_start_token", "<s>"},
                                     {"eos_token", "</s>"},
                                     {"layer_norm_epsilon", config.norm_epsilon},
                                     {"multi_query_attention", false},
                                     {"unk_token", "<unk>"}});
  out.write();
}

}  // namespace transduce
