#include "transduce/eval/unicode.h"

#include <utf8proc.h>

#include "transduce/base/text.h"

namespace transduce {
namespace {

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool in_range(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

// The property Case_Ignorable: marks and modifiers, and what may stand within a word.
bool is_case_ignorable(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      constexpr std::u32string_view within_words =
          U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027"
          U"\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
      return within_words.find(c) != std::u32string_view::npos;
  }
}

// The property Cased, for characters that are not case-ignorable.
bool is_cased(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:  // ordinal indicators, Roman numerals, letters in circles and squares
      return c == 0xAA || c == 0xBA || in_range(c, 0x2160, 0x217F) || in_range(c, 0x24B6, 0x24E9) ||
             in_range(c, 0x1F130, 0x1F149) || in_range(c, 0x1F150, 0x1F169) || in_range(c, 0x1F170, 0x1F189);
  }
}

// Whether the capital sigma at `position` ends a word: a cased letter before it and none after it, whatever
// case-ignorable characters lie between.
bool is_final_sigma(std::u32string_view text, size_t position) {
  size_t before = position;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = position + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    utf8proc_int32_t scalar = -1;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(length), &scalar);
    result +=
        scalar >= 0 ? static_cast<char32_t>(scalar) : char32_t{0xDC00} + static_cast<unsigned char>(text[0]);
    text.remove_prefix(length);
  }
  return result;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || in_range(c, 0x09, 0x0D) || in_range(c, 0x1C, 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || in_range(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_number(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
}

std::u32string lower_case(std::u32string_view text) {
  constexpr char32_t capital_sigma = 0x3A3, final_sigma = 0x3C2, capital_i_with_dot = 0x130;
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c == capital_sigma && is_final_sigma(text, i)) {
      result += final_sigma;
    } else if (c == capital_i_with_dot) {
      result += U"i\u0307";
    } else {
      result += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
  return result;
}

std::u32string_view trim_end(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    if (is_space(text[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::u32string replace_all(std::u32string text, std::u32string_view from, std::u32string_view to) {
  size_t found = text.find(from);
  if (found == std::u32string::npos) return text;
  std::u32string result;
  size_t done = 0;
  for (; found != std::u32string::npos; found = text.find(from, done)) {
    result.append(text, done, found - done).append(to);
    done = found + from.size();
  }
  return result.append(text, done);
}

}  // namespace transduce
