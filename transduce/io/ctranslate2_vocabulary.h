#pragma once

// The vocabularies of a CTranslate2 model: source_vocabulary and target_vocabulary, or shared_vocabulary, as
// .json (an array of strings) or .txt (a token a line). A token's id is its place. Special symbols are tokens
// that config.json names (<s>, </s>, <unk>), and stand anywhere.

#include <cstdint>
#include <string>
#include <vector>

#include "transduce/data/vocabulary.h"

namespace transduce::ctranslate2 {

struct ForeignVocabulary {
  std::string file;                 // in quotes, for error messages
  std::vector<std::string> tokens;  // by id

  // The id of a token; -1 where there is none.
  int64_t find(const std::string& token) const;
};

// Reads a .json file, or any other as text; in text a CR before each LF is dropped only if all lines have
// one, as CTranslate2 does. Errors: InputError naming the file: not an array of strings, no token at all, a
// token that occurs twice (named, with both places).
ForeignVocabulary read_foreign_vocabulary(const std::string& path);

// The names that special symbols have in a foreign vocabulary.
struct SpecialNames {
  std::string start = "<s>";
  std::string end = "</s>";
  std::string unknown = "<unk>";
};

// A foreign vocabulary as one of ours, in which the special symbols come first.
struct ReorderedVocabulary {
  Vocabulary vocabulary;
  // For each of our ids, the row of the foreign matrices that it has; -1 for a special symbol that the
  // foreign vocabulary lacks. Rows that no token belongs to come last.
  std::vector<int64_t> rows;
};

// `rows`: how many the foreign matrices have. The pad symbol is <blank> or <pad>. The unknown symbol may be
// one more than the file has, as CTranslate2 appends it. Errors: InputError when there is no end symbol, or
// fewer rows than tokens (with both sizes).
ReorderedVocabulary reorder(const ForeignVocabulary& foreign, const SpecialNames& names, int64_t rows);

}  // namespace transduce::ctranslate2
