#pragma once

// From text to ids and back. A tokenizer brings text into its normal form, cuts it into tokens and looks them
// up. Tokenizers are immutable: any number of threads may use one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/base/text.h"
#include "transduce/data/vocabulary.h"

namespace transduce {

enum class TokenizerKind {
  character,  // "char": Unicode scalar values; a tab counts as a blank
  word,       // "word": separated by ASCII white space, joined by one blank
};

// From "char" or "word". Errors: as value_in of base/names.h.
TokenizerKind parse_tokenizer_kind(std::string_view name);
const char* name_of(TokenizerKind kind);

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::character;
  NormalForm normal_form = NormalForm::none;

  bool operator==(const TokenizerSpec&) const = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of a text, without start and end symbols. Tokens that the vocabulary lacks are `unknown`; text
  // that spells a special symbol is ordinary text. Never fails, whatever the bytes.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The text of ids. Pad, start and end symbols are skipped; an unknown token shows as "<unk>". With the
  // normal form nfd the text is composed to NFC: a reader expects whole syllables and accented letters.
  // Tokens come out with the bytes they had in the training text. Errors: InputError on an id outside the
  // vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
  virtual TokenizerKind kind() const = 0;
  virtual NormalForm normal_form() const = 0;
};

// A tokenizer over a vocabulary that exists, e.g. one read from a model directory.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, Vocabulary vocabulary);

// A tokenizer whose vocabulary is taken from `lines`; see Vocabulary::from_counts for the two limits and its
// errors. Errors also: InputError when no token is left.
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, std::span<const std::string_view> lines,
                                           int64_t max_size = 0, int64_t min_count = 1);

}  // namespace transduce
