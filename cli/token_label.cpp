#include "cli/token_label.h"

#include <cstdint>

#include "transduce/base/text.h"
#include "transduce/eval/unicode.h"
#include "transduce/page/svg.h"

namespace transduce::cli {
namespace {

// The letters as they stand alone (Hangul Compatibility Jamo) of modern conjoining ones: U+1100 and on,
// U+1161 and on, U+11A8 and on. Unicode's own mappings lead to conjoining ones, never back.
constexpr std::string_view kInitials = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ";
constexpr std::string_view kVowels = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ";
constexpr std::string_view kFinals = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ";
constexpr size_t kBytes = 3;  // of each of these letters

// The letter of `letters` at `character` - `first`; empty when there is none.
std::string_view letter_of(char32_t character, char32_t first, std::string_view letters) {
  const size_t at = (character - first) * kBytes;
  return character < first || at >= letters.size() ? std::string_view() : letters.substr(at, kBytes);
}

std::string standing_alone(std::string_view character, bool first) {
  const char32_t scalar = decode_utf8(character).front();
  for (const auto& letter : {letter_of(scalar, 0x1100, kInitials), letter_of(scalar, 0x1161, kVowels),
                             letter_of(scalar, 0x11A8, kFinals)}) {
    if (!letter.empty()) return std::string(letter);
  }
  // What takes no room by itself is a mark on the character before it.
  const bool mark = first && page::text_width(character, 1.0) == 0.0;
  return (mark ? "\u25CC" : "") + std::string(character);
}

}  // namespace

std::string token_label(std::string_view token) {
  constexpr int64_t kLongest = 40;
  if (token == " ") return "\u2423";
  const std::string readable = escape_token(normalize(token, NormalForm::nfc));
  std::string label;
  int64_t count = 0;
  for (const std::string_view character : utf8_characters(readable)) {
    if (++count > kLongest) return label + "\u2026";
    label += standing_alone(character, count == 1);
  }
  return label;
}

std::string token_label(const Vocabulary& vocabulary, int32_t id) {
  const std::string& token = vocabulary.token(id);
  return Vocabulary::is_special(id) ? token : token_label(token);
}

}  // namespace transduce::cli
