#include "transduce/io/model_directory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "transduce/base/file.h"
#include "transduce/base/hash.h"
#include "transduce/io/safetensors.h"

namespace transduce {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMaxConfigBytes = size_t{1} << 20;

std::string path_in(const std::string& directory, const char* name) {
  return (std::filesystem::path(directory) / name).string();
}

ordered_json describe(const TokenizerSpec& spec) {
  ordered_json json{{"tokenizer", name_of(spec.kind)}, {"normalize", name_of(spec.normal_form)}};
  if (!spec.joiner.empty()) json["joiner"] = spec.joiner;
  return json;
}

// What the vocabulary of a side is called: "source.vocab", "joint.spm".
std::string vocabulary_file(const std::string& directory, bool joint, const char* side, TokenizerKind kind) {
  const char* const extension = kind == TokenizerKind::sentencepiece ? ".spm" : ".vocab";
  return path_in(directory, ((joint ? "joint" : side) + std::string(extension)).c_str());
}

// A member of config.json. Errors: InputError when it is absent or of another type.
template <class T>
T member(const ordered_json& json, const std::string& file, const char* name, const char* expected) {
  const auto found = json.find(name);
  check_input(found != json.end(), "'{}' has no field '{}': it is not a model of this program, or is damaged",
              file, name);
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    fail_input("'{}': field '{}' must be {}, got {}", file, name, expected, found->dump());
  }
}

TokenizerSpec read_spec(const ordered_json& json, const std::string& config_file) {
  TokenizerSpec spec;
  spec.kind = parse_tokenizer_kind(member<std::string>(json, config_file, "tokenizer", "a name"));
  spec.normal_form = parse_normal_form(member<std::string>(json, config_file, "normalize", "a name"));
  if (json.contains("joiner")) spec.joiner = member<std::string>(json, config_file, "joiner", "a text");
  return spec;
}

// Tells vocabularies apart: the number of tokens and the hash of all of them, or of a SentencePiece
// model, which also says how text is cut into them.
std::string fingerprint(const Tokenizer& tokenizer) {
  Hash hash;
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  if (tokenizer.spec().kind == TokenizerKind::sentencepiece) {
    hash.add(tokenizer.file_content());
  } else {
    for (int64_t id = 0; id < vocabulary.size(); ++id) {
      hash.add(escape_token(vocabulary.token(static_cast<int32_t>(id))) + "\n");
    }
  }
  return fmt::format("{} tokens, {:016x}", vocabulary.size(), hash.value());
}

// Parameters say which vocabulary they were trained with; those from elsewhere may not.
void check_fingerprint(const std::string& file, const std::string& found, const TensorReader& tensors,
                       const char* side) {
  const auto expected = tensors.metadata().find(side);
  if (expected == tensors.metadata().end() || found == expected->second) return;
  fail_input(
      "'{}' ({}) is not the vocabulary that this model was trained with ({}): it belongs to another model",
      file, found, expected->second);
}

// Fewer rows than tokens is broken; more is only unused room.
void check_vocabulary(const std::string& file, const Tokenizer& tokenizer, int64_t rows) {
  check_input(tokenizer.vocabulary().size() <= rows,
              "'{}' has {} tokens, but the model has embeddings for {} only: it belongs to another model",
              file, tokenizer.vocabulary().size(), rows);
}

// The type of the tensor of this name, which must have this shape.
DType type_of(const std::string& file, const TensorReader& from, const std::string& name,
              const Shape& shape) {
  const auto found = from.tensors().find(name);
  if (found == from.tensors().end()) {
    fail_input("'{}' lacks the tensor '{}' {}", file, name, to_string(shape));
  }
  if (found->second.shape != shape) {
    fail_input("'{}': tensor '{}' must have shape {}, got {}", file, name, to_string(shape),
               to_string(found->second.shape));
  }
  return found->second.dtype;
}

// The tensor of this name, which must have this shape and type.
Tensor read_tensor(const std::string& file, TensorReader& from, const std::string& name, const Shape& shape,
                   DType dtype) {
  const DType found = type_of(file, from, name, shape);
  check_input(found == dtype, "'{}': tensor '{}' must be {}, got {}", file, name, name_of(dtype),
              name_of(found));
  return from.read(name);
}

void read_int8(const std::string& file, TensorReader& from, const Int8Parameter& parameter) {
  Int8Matrix& matrix = *parameter.matrix;
  matrix.values = read_tensor(file, from, parameter.name, parameter.shape, DType::int8);
  matrix.scales = read_tensor(file, from, parameter.name + "_scale", {parameter.shape[0]}, DType::float32);
  const float* scale = matrix.scales.data<float>();
  const int8_t* value = matrix.values.data<int8_t>();
  check_input(
      std::all_of(scale, scale + matrix.scales.size(),
                  [](float x) { return std::isfinite(x) && x >= 0.0f; }) &&
          std::find(value, value + matrix.values.size(), int8_t{-128}) == value + matrix.values.size(),
      "'{}': tensor '{}' holds values from outside of -127 to 127 or scales that are no numbers: the file is "
      "damaged",
      file, parameter.name);
  current_backend().pack(matrix);
}

// Reads a parameter to its place in the model.
void read_parameter(const std::string& file, TensorReader& from, const Parameter& parameter) {
  const DType dtype = type_of(file, from, parameter.name, parameter.shape);
  check_input(dtype == DType::float32 || dtype == DType::float64,
              "'{}': tensor '{}' must hold floating-point numbers, got {}", file, parameter.name,
              name_of(dtype));
  const Tensor& to = parameter.variable.value();
  if (dtype == to.dtype()) {
    from.read(parameter.name, to);
  } else {
    to.copy_from(from.read(parameter.name).to(to.dtype()));
  }
  const float* value = to.data<float>();
  check_input(std::all_of(value, value + to.size(), [](float x) { return std::isfinite(x); }),
              "'{}': tensor '{}' holds values that are not finite numbers: the file is damaged, or the "
              "training diverged",
              file, parameter.name);
}

void read_parameters(const std::string& file, TensorReader& from, Transformer& model) {
  std::set<std::string> used;
  for (const Parameter& parameter : model.parameters().parameters()) {
    read_parameter(file, from, parameter);
    used.insert(parameter.name);
  }
  for (const Int8Parameter& parameter : model.parameters().int8_parameters()) {
    read_int8(file, from, parameter);
    used.insert({parameter.name, parameter.name + "_scale"});
  }
  for (const auto& [name, outline] : from.tensors()) {
    if (used.count(name) > 0) continue;
    fail_input("'{}' holds a tensor '{}' {} that the model does not use", file, name,
               to_string(outline.shape));
  }
}

}  // namespace

TransformerConfig with_vocabularies(TransformerConfig config, const Tokenizer& source,
                                    const Tokenizer& target, bool joint_vocabulary) {
  config.source_vocabulary = source.vocabulary().size();
  config.target_vocabulary = target.vocabulary().size();
  check_input(config.tie != Tie::all || joint_vocabulary,
              "tying all embeddings needs one vocabulary for both sides: add --joint-vocabulary, or tie the "
              "decoder only");
  config.validate();
  return config;
}

Seq2SeqModel make_model(TransformerConfig config, std::shared_ptr<const Tokenizer> source,
                        std::shared_ptr<const Tokenizer> target, bool joint_vocabulary, uint64_t seed) {
  config = with_vocabularies(config, *source, *target, joint_vocabulary);
  Seq2SeqModel model{std::make_unique<Transformer>(config), std::move(source), std::move(target),
                     joint_vocabulary};
  model.transformer->parameters().initialize(seed);
  return model;
}

void save_description(const std::string& directory, const Seq2SeqModel& model) {
  make_directories(directory);
  // What an earlier model left must not be taken for this one's.
  std::error_code absent;
  for (const char* name : {"model.safetensors", "source.vocab", "target.vocab", "joint.vocab", "source.spm",
                           "target.spm", "joint.spm"}) {
    std::filesystem::remove(path_in(directory, name), absent);
  }
  ordered_json json;
  json["format"] = "transduce";
  json["version"] = kVersion;
  json["source"] = describe(model.source->spec());
  json["target"] = describe(model.target->spec());
  json["joint_vocabulary"] = model.joint_vocabulary;
  json["model"] = ordered_json::parse(to_json(model.transformer->config()));
  const auto write = [&](const char* side, const Tokenizer& tokenizer) {
    write_file_atomic(vocabulary_file(directory, model.joint_vocabulary, side, tokenizer.spec().kind),
                      tokenizer.file_content());
  };
  write("source", *model.source);
  if (!model.joint_vocabulary) write("target", *model.target);
  write_file_atomic(path_in(directory, "config.json"), json.dump(2) + "\n");
}

void save_parameters(const std::string& directory, const Seq2SeqModel& model) {
  save_parameters_to(path_in(directory, "model.safetensors"), model);
}

void save_parameters_to(const std::string& file, const Seq2SeqModel& model) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter& parameter : model.transformer->parameters().parameters()) {
    tensors.emplace_back(parameter.name, parameter.variable.value());
  }
  for (const Int8Parameter& parameter : model.transformer->parameters().int8_parameters()) {
    tensors.emplace_back(parameter.name, parameter.matrix->values);
    tensors.emplace_back(parameter.name + "_scale", parameter.matrix->scales);
  }
  write_safetensors(file, tensors,
                    {{"format", "transduce"},
                     {"source_vocabulary", fingerprint(*model.source)},
                     {"target_vocabulary", fingerprint(*model.target)}});
}

bool holds_model(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(path_in(directory, "config.json"), ignored) ||
         std::filesystem::exists(path_in(directory, "model.safetensors"), ignored);
}

void check_replaceable(const std::string& directory, bool overwrite) {
  check_input(overwrite || !holds_model(directory),
              "'{}' holds a model already: name another directory, or give --overwrite to replace it",
              directory);
}

ModelDescription load_description(const std::string& directory) {
  const std::string config_file = path_in(directory, "config.json");
  std::error_code ignored;
  check_input(std::filesystem::exists(directory, ignored),
              "there is no model directory '{}': train one with --model {}", directory, directory);
  ordered_json json;
  try {
    json = ordered_json::parse(read_file(config_file, kMaxConfigBytes));
  } catch (const nlohmann::json::exception& error) {
    fail_input("'{}' is not JSON: {}", config_file, error.what());
  }
  check_input(json.is_object() && member<std::string>(json, config_file, "format", "a name") == "transduce",
              "'{}' does not describe a model of this program", config_file);
  const int version = member<int>(json, config_file, "version", "a whole number");
  check_input(version == kVersion, "'{}' has version {}, this program reads version {}", config_file, version,
              kVersion);
  ModelDescription model;
  model.config =
      transformer_config_from_json(member<ordered_json>(json, config_file, "model", "an object").dump());
  model.joint_vocabulary = member<bool>(json, config_file, "joint_vocabulary", "true or false");
  const auto source_json = member<ordered_json>(json, config_file, "source", "an object");
  const auto target_json = member<ordered_json>(json, config_file, "target", "an object");
  const TokenizerSpec source = read_spec(source_json, config_file),
                      target = read_spec(target_json, config_file);
  model.source_file = vocabulary_file(directory, model.joint_vocabulary, "source", source.kind);
  model.target_file = vocabulary_file(directory, model.joint_vocabulary, "target", target.kind);
  model.source = read_tokenizer(source, model.source_file);
  const bool same = model.joint_vocabulary && source_json == target_json;
  model.target = same ? model.source : read_tokenizer(target, model.target_file);
  check_input(model.config.tie != Tie::all || model.joint_vocabulary,
              "'{}' ties all embeddings but names two vocabularies", config_file);
  check_vocabulary(model.source_file, *model.source, model.config.source_vocabulary);
  check_vocabulary(model.target_file, *model.target, model.config.target_vocabulary);
  return model;
}

Seq2SeqModel load_model(const std::string& directory) {
  const ModelDescription description = load_description(directory);
  const TransformerConfig& config = description.config;
  Seq2SeqModel model{nullptr, description.source, description.target, description.joint_vocabulary};

  // What the file holds bounds the memory: a config that asks for more than that is refused before it gets
  // any.
  const std::string file = path_in(directory, "model.safetensors");
  TensorReader tensors(file);
  const std::string source_print = fingerprint(*model.source);
  const std::string target_print = model.target == model.source ? source_print : fingerprint(*model.target);
  check_fingerprint(description.source_file, source_print, tensors, "source_vocabulary");
  check_fingerprint(description.target_file, target_print, tensors, "target_vocabulary");
  int64_t held = 0;
  for (const auto& [name, outline] : tensors.tensors()) held += elements_of(outline.shape);
  const int64_t needed = Transformer::count_parameters(config);
  check_input(held >= needed, "'{}' holds {} numbers, but the model in '{}' has {} parameters", file, held,
              path_in(directory, "config.json"), needed);
  model.transformer = std::make_unique<Transformer>(config);
  read_parameters(file, tensors, *model.transformer);
  model.transformer->parameters().freeze();
  return model;
}

void load_parameters(const std::string& file, Transformer& model) {
  TensorReader tensors(file);
  read_parameters(file, tensors, model);
}

}  // namespace transduce
