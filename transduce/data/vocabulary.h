#pragma once

// The two-way table between tokens and ids.
//
// The four special symbols are ids, not texts: nothing in a user's text can become one. A token of the data
// that happens to be spelled "</s>" is an ordinary token with an id of its own (or unknown), never the end
// symbol.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transduce/base/text.h"

namespace transduce {

using TokenCounts = std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>>;

class Vocabulary {
 public:
  static constexpr int32_t pad = 0;      // shown as <pad>
  static constexpr int32_t start = 1;    // shown as <s>
  static constexpr int32_t end = 2;      // shown as </s>
  static constexpr int32_t unknown = 3;  // shown as <unk>
  static constexpr int32_t special_symbols = 4;

  // Bounds that keep a broken file from filling the memory, and hold for built vocabularies as well.
  static constexpr size_t max_token_bytes = size_t{64} << 10;
  static constexpr size_t max_tokens = size_t{1} << 24;

  // The special symbols alone.
  Vocabulary();

  // The special symbols and then the most frequent tokens, equal counts in the order of their bytes.
  // `max_size` counts the special symbols; 0 takes all tokens. Tokens seen less than `min_count` times or
  // longer than max_token_bytes are left out. Errors: InputError when max_size is below 5 but not 0, when
  // min_count is negative, or when there are more than max_tokens.
  static Vocabulary from_counts(const TokenCounts& counts, int64_t max_size = 0, int64_t min_count = 1);

  // The special symbols and then these tokens, in this order. Errors: InputError on a token that occurs twice
  // (named, with both places) or beyond the bounds.
  static Vocabulary from_tokens(std::vector<std::string> tokens);

  // The id of an ordinary token; `unknown` when it is absent.
  int32_t id(std::string_view token) const;

  // The token of an id; the names above for the special symbols. Errors: InputError when there is no such id.
  const std::string& token(int32_t id) const;

  static bool is_special(int32_t id) { return id >= 0 && id < special_symbols; }

  // The number of ids, special symbols included.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

  // The file: one token a line, id i on line i + 1, the special symbols first. What would be invisible or
  // ambiguous is escaped: \s blank, \t tab, \n LF, \r CR, \\ backslash, \e the empty token, \u{FEFF} a
  // control, format or space character, \xFF a byte that is not UTF-8, \<pad> an ordinary token spelled like
  // a special symbol. Errors of read: InputError naming the file and the line; a token that occurs twice is
  // named with both lines. Errors of write: as AtomicFile.
  static Vocabulary read(const std::string& path);
  void write(const std::string& path) const;
  // The bytes of that file.
  std::string to_text() const;

  bool operator==(const Vocabulary& other) const { return tokens_ == other.tokens_; }

 private:
  // The id of an ordinary token; -1 when it is absent.
  int32_t find(std::string_view token) const;
  // Appends an ordinary token that is absent.
  void add(std::string token);

  std::vector<std::string> tokens_;                                            // by id
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;  // ordinary tokens only
};

// A token as it stands in a vocabulary file, and back. Errors of unescape: InputError saying what is wrong
// with it.
std::string escape_token(std::string_view token);
std::string unescape_token(std::string_view line);

}  // namespace transduce
