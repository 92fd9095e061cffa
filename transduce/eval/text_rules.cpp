#include "transduce/eval/text_rules.h"

#include <array>
#include <span>
#include <utility>

#include "transduce/base/names.h"
#include "transduce/eval/unicode.h"

namespace transduce {
namespace {

constexpr Name<BleuTokenizer> bleu_tokenizers[] = {{BleuTokenizer::v13a, "13a"},
                                                   {BleuTokenizer::intl, "intl"},
                                                   {BleuTokenizer::character, "char"},
                                                   {BleuTokenizer::none, "none"}};

struct Range {
  char32_t first, last;
};

bool in_any(char32_t c, std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    if (range.first <= c && c <= range.last) return true;
  }
  return false;
}

bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_period_or_comma(char32_t c) { return c == '.' || c == ','; }

// ASCII punctuation without apostrophe, comma, hyphen and period; the blank is in the scripts' range too.
bool is_western_punctuation(char32_t c) {
  constexpr std::array<Range, 6> ranges = {
      {{' ', '&'}, {'(', '+'}, {'/', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}};
  return in_any(c, ranges);
}

bool is_asian_punctuation(char32_t c) {
  constexpr std::array<Range, 6> ranges = {{{0x3001, 0x3002},
                                            {0x3008, 0x3011},
                                            {0x3014, 0x301F},
                                            {0xFF61, 0xFF65},
                                            {0x30FB, 0x30FB},
                                            {0xFF1A, 0xFF1B}}};
  constexpr std::u32string_view full_width = U"\uFF0E\uFF0C\uFF1F\uFF01\uFF02\uFF08\uFF09";
  return in_any(c, ranges) || full_width.find(c) != std::u32string_view::npos;
}

// The CJK characters that tercom makes tokens of their own. Its rules for kana apply only where a whole line
// is kana without a blank at either end, which the normaliser has added by then: they never do.
bool is_asian_token(char32_t c) {
  constexpr std::array<Range, 7> ranges = {{{0x2E80, 0x2EFF},
                                            {0x31C0, 0x31EF},
                                            {0x3200, 0x3F22},
                                            {0x3400, 0x4DBF},
                                            {0x4E00, 0x9FFF},
                                            {0xF900, 0xFAFF},
                                            {0xFE30, 0xFE4F}}};
  return in_any(c, ranges) || is_asian_punctuation(c);
}

// s/(X)/ $1 /g
template <class Predicate>
std::u32string pad(std::u32string_view text, Predicate x) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  for (const char32_t c : text) {
    if (x(c)) {
      result += {U' ', c, U' '};
    } else {
      result += c;
    }
  }
  return result;
}

enum class Blank { after, between_and_after, before_and_between };

// s/(X)(Y)/.../g with blanks put in: as regular expressions do, each match begins behind the last one, so a
// character is in one pair only.
template <class First, class Second>
std::u32string separate(std::u32string_view text, First x, Second y, Blank where) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  size_t i = 0;
  while (i < text.size()) {
    if (i + 1 == text.size() || !x(text[i]) || !y(text[i + 1])) {
      result += text[i++];
      continue;
    }
    if (where == Blank::before_and_between) result += U' ';
    result += text[i];
    result += U' ';
    result += text[i + 1];
    if (where == Blank::between_and_after) result += U' ';
    i += 2;
  }
  return result;
}

// Periods and commas apart unless digits stand on both sides, a hyphen after a digit apart.
std::u32string separate_around_digits(std::u32string text) {
  const auto no_digit = [](char32_t c) { return !is_ascii_digit(c); };
  const auto hyphen = [](char32_t c) { return c == '-'; };
  text = separate(text, no_digit, is_period_or_comma, Blank::between_and_after);
  text = separate(text, is_period_or_comma, no_digit, Blank::before_and_between);
  return separate(text, is_ascii_digit, hyphen, Blank::between_and_after);
}

// In this order: "&amp;lt;" becomes "<".
std::u32string resolve_entities(std::u32string text) {
  if (text.find(U'&') == std::u32string::npos) return text;
  text = replace_all(std::move(text), U"&quot;", U"\"");
  text = replace_all(std::move(text), U"&amp;", U"&");
  text = replace_all(std::move(text), U"&lt;", U"<");
  return replace_all(std::move(text), U"&gt;", U">");
}

std::u32string tokenize_13a(std::u32string text) {
  text = replace_all(std::move(text), U"<skipped>", U"");
  text = replace_all(std::move(text), U"-\n", U"");
  text = resolve_entities(replace_all(std::move(text), U"\n", U" "));
  return separate_around_digits(pad(U" " + text + U" ", is_western_punctuation));
}

std::u32string tokenize_intl(std::u32string_view text) {
  const auto no_number = [](char32_t c) { return !is_number(c); };
  std::u32string result = separate(text, no_number, is_punctuation, Blank::between_and_after);
  result = separate(result, is_punctuation, no_number, Blank::before_and_between);
  return pad(result, is_symbol);
}

std::u32string normalize_for_ter(std::u32string text, bool asian_support) {
  text = replace_all(std::move(text), U"\n-", U"");
  text = resolve_entities(replace_all(std::move(text), U"\n", U" "));
  text = pad(U" " + text + U" ", is_western_punctuation);
  text = separate_around_digits(replace_all(std::move(text), U"'s ", U" 's "));
  return asian_support ? pad(text, is_asian_token) : text;
}

}  // namespace

BleuTokenizer parse_bleu_tokenizer(std::string_view name) {
  return value_in(bleu_tokenizers, "BLEU tokenizer", name);
}

const char* name_of(BleuTokenizer tokenizer) { return name_in(bleu_tokenizers, tokenizer); }

std::u32string tokenize_for_bleu(std::u32string_view text, BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::v13a:
      return tokenize_13a(std::u32string(text));
    case BleuTokenizer::intl:
      return tokenize_intl(text);
    case BleuTokenizer::character:
      return pad(text, [](char32_t) { return true; });
    case BleuTokenizer::none:
      break;
  }
  return std::u32string(text);
}

std::u32string tokenize_for_ter(std::u32string_view text, const TercomRules& rules) {
  std::u32string result = rules.case_sensitive ? std::u32string(text) : lower_case(text);
  if (rules.normalized) result = normalize_for_ter(std::move(result), rules.asian_support);
  if (rules.no_punctuation) {
    constexpr std::u32string_view western = U".,?:;!\"()";
    std::erase_if(result, [&](char32_t c) {
      return western.find(c) != std::u32string_view::npos || (rules.asian_support && is_asian_punctuation(c));
    });
  }
  return result;
}

}  // namespace transduce
