#pragma once

// What a CTranslate2 model is made of, read from model.bin and the config.json beside it.

#include <optional>
#include <string>

#include "transduce/io/ctranslate2_file.h"
#include "transduce/io/ctranslate2_vocabulary.h"
#include "transduce/models/config.h"

namespace transduce::ctranslate2 {

inline constexpr const char* source_position_table = "encoder/position_encodings/encodings";
inline constexpr const char* target_position_table = "decoder/position_encodings/encodings";

// What does not follow from the parameters.
struct Settings {
  SpecialNames names;
  std::string first_token;  // that the decoder starts from
  bool source_end = false;
  std::optional<double> epsilon;  // of the norms, where it is stated
};

// Reads config.json, where there is one, or the older fields of the model's file. Errors: InputError naming
// the file and the field: not a JSON object, a field of another type, sources that begin with a start symbol,
// a decoder without a start token.
Settings read_settings(const std::string& config_file, const CTranslate2File& model);

// The configuration that a model's file describes; vocabularies, tying, output bias and source_end are left
// to the caller. `heads`: for files that do not say, else 0. Errors: InputError naming the file and what is
// not supported, missing, or different in encoder and decoder.
TransformerConfig read_config(const CTranslate2File& file, const Settings& settings, int64_t heads);

// Takes the numbers that change nothing. Errors: InputError for one that would.
void take_flags(const CTranslate2File& file, const TransformerConfig& config);

// The first axis of a matrix. Errors: InputError when the file lacks it, or it is no matrix.
int64_t rows_of(const CTranslate2File& file, const std::string& tensor);

}  // namespace transduce::ctranslate2
