#pragma once

// Text as the library sees it: bytes that are usually UTF-8. No function here cuts a character in two, and
// bytes that are not UTF-8 pass through unchanged, so one stray byte costs neither its line nor its
// neighbours.

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace transduce {

// The Unicode normal forms (Unicode Standard Annex 15); `none` leaves text as it is.
enum class NormalForm { none, nfc, nfd, nfkc };

// From "none", "nfc", "nfd" or "nfkc". Errors: as value_in of base/names.h.
NormalForm parse_normal_form(std::string_view name);
const char* name_of(NormalForm form);

// `text` in a normal form, in time near linear in its length. NUL is an ordinary character. The valid
// stretches between invalid bytes are normalised one by one; the invalid bytes stay.
std::string normalize(std::string_view text, NormalForm form);

// The length in bytes of the unit `text` begins with: one Unicode scalar value in UTF-8, or 1 for a byte that
// begins none. 0 for empty text.
size_t utf8_length(std::string_view text);

// `text` cut into its units (see utf8_length); put end to end they are `text` again. They view into `text`.
std::vector<std::string_view> utf8_characters(std::string_view text);

bool is_valid_utf8(std::string_view text);

// `text` with every invalid byte replaced by U+FFFD: for places that must hold UTF-8, such as JSON.
std::string to_valid_utf8(std::string_view text);

// The words of `text`: stretches free of ASCII white space (blank, tab, LF, VT, FF, CR). No-break and
// ideographic spaces are part of words. They view into `text`.
std::vector<std::string_view> split_whitespace(std::string_view text);

// Whether `text` has no word.
bool is_blank(std::string_view text);

// The fields of `text` between separators: always one more than there are separators. They view into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

std::string join(const std::vector<std::string_view>& parts, std::string_view separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// `text` with the words joined that were split beforehand: `joiner` at the end of a piece goes, together with
// the blank after it ("@@": "Hau@@ s" becomes "Haus"). An empty joiner changes nothing.
std::string join_pieces(std::string_view text, std::string_view joiner);

// `text` in double quotes for an error message: always one line and valid UTF-8, at most `max_bytes` of it
// shown. It is put together where it is formatted or made a string, so it costs nothing in a check that
// holds. Views into `text`.
struct Quoted {
  std::string_view text;
  size_t max_bytes;

  operator std::string() const;
};
inline Quoted in_quotes(std::string_view text, size_t max_bytes = 200) { return {text, max_bytes}; }

// Lets an unordered_map with std::string keys be searched by string_view: give it std::equal_to<> as well.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

}  // namespace transduce

template <>
struct fmt::formatter<transduce::Quoted> : fmt::formatter<std::string_view> {
  auto format(const transduce::Quoted& quoted, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(std::string(quoted), context);
  }
};
