#pragma once

// A model on disk is a directory:
//   config.json         what it is made of (TransformerConfig) and how text is cut
//   model.safetensors   its parameters, float32, under the names that ParameterSet lists; a weight in 8 bits
//   is an
//                       int8 tensor of its name beside NAME_scale, one float32 a row
//   source.vocab, target.vocab, or with one vocabulary for both sides joint.vocab; of a side that is cut by
//                       SentencePiece its model instead: source.spm, target.spm, joint.spm

#include <memory>
#include <string>

#include "transduce/data/tokenizer.h"
#include "transduce/models/transformer.h"

namespace transduce {

// A Transformer with the tokenizers it was trained with: all that is needed to translate.
struct Seq2SeqModel {
  std::unique_ptr<Transformer> transformer;
  std::shared_ptr<const Tokenizer> source;
  std::shared_ptr<const Tokenizer> target;
  bool joint_vocabulary = false;  // one vocabulary for both sides
};

// The configuration of a model for these tokenizers: with their vocabulary sizes. Errors: InputError from
// TransformerConfig::validate, and when all embeddings are tied without a joint vocabulary.
TransformerConfig with_vocabularies(TransformerConfig config, const Tokenizer& source,
                                    const Tokenizer& target, bool joint_vocabulary);

// A model of that configuration with fresh parameters, drawn from the seed. Errors: as with_vocabularies.
Seq2SeqModel make_model(TransformerConfig config, std::shared_ptr<const Tokenizer> source,
                        std::shared_ptr<const Tokenizer> target, bool joint_vocabulary, uint64_t seed);

// Writes config.json and the vocabularies, making the directory; an earlier model's parameters are removed.
// Errors: those of AtomicFile.
void save_description(const std::string& directory, const Seq2SeqModel& model);

// Writes the parameters to DIRECTORY/model.safetensors: beside it, then renamed. The file also says which
// vocabularies they belong to. Errors: those of AtomicFile.
void save_parameters(const std::string& directory, const Seq2SeqModel& model);

// The same to any file.
void save_parameters_to(const std::string& file, const Seq2SeqModel& model);

// Whether the directory holds a model, or files that a model would replace.
bool holds_model(const std::string& directory);

// Errors: InputError when it does and must not be overwritten.
void check_replaceable(const std::string& directory, bool overwrite);

// A model without its parameters, as save_description wrote it.
struct ModelDescription {
  TransformerConfig config;
  std::shared_ptr<const Tokenizer> source, target;
  std::string source_file, target_file;  // where they lie
  bool joint_vocabulary = false;
};

// Errors: InputError naming the file and the value: a missing file, an unknown field, a vocabulary larger
// than its embedding (more rows than tokens are fine).
ModelDescription load_description(const std::string& directory);

// Reads a model for inference: its parameters are frozen (ParameterSet::freeze). Errors: those of
// load_description; InputError for a vocabulary that is not the one the parameters were trained with, and for
// a tensor that is missing, unused, of another shape or not finite.
Seq2SeqModel load_model(const std::string& directory);

// The same for parameters alone, e.g. those of an earlier step.
void load_parameters(const std::string& file, Transformer& model);

}  // namespace transduce
