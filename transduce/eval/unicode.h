#pragma once

// Text as the metrics see it: Unicode scalar values, white space, case and categories as Python's `str` has
// them, since the published scores were made with it.

#include <string>
#include <string_view>
#include <vector>

namespace transduce {

// The scalar values of UTF-8 text. A byte b that is not UTF-8 becomes U+DC00 + b, a value that no text holds
// otherwise: it equals only itself and is neither space, letter nor punctuation.
std::u32string decode_utf8(std::string_view text);

// White space as str.isspace() says: ASCII's, the four separators U+001C to U+001F, no-break, ideographic and
// the other Unicode spaces.
bool is_space(char32_t c);

// The Unicode general categories N (numbers), P (punctuation) and S (symbols).
bool is_number(char32_t c);
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);

// Full lower case as str.lower(): U+0130 becomes two values, and a capital sigma at the end of a word becomes
// the final small sigma (Unicode Standard, 3.13).
std::u32string lower_case(std::u32string_view text);

// `text` without white space at its end.
std::u32string_view trim_end(std::u32string_view text);

// The words of `text`: stretches free of white space, as str.split(). They view into `text`.
std::vector<std::u32string_view> split_words(std::u32string_view text);

// `text` with every occurrence of `from`, found from left to right, replaced by `to`, as str.replace().
std::u32string replace_all(std::u32string text, std::u32string_view from, std::u32string_view to);

}  // namespace transduce
