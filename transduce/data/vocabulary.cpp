#include "transduce/data/vocabulary.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/base/file.h"

namespace transduce {
namespace {

constexpr std::array<std::string_view, Vocabulary::special_symbols> special_names = {"<pad>", "<s>", "</s>",
                                                                                     "<unk>"};

// The longest line that escape_token makes of the longest token: a byte takes up to 8 ("\u{0001}").
constexpr size_t max_line_bytes = 8 * Vocabulary::max_token_bytes + 2;

// The id of the special symbol that is shown as `token`; -1 when there is none.
int32_t special_id(std::string_view token) {
  const auto found = std::find(special_names.begin(), special_names.end(), token);
  return found == special_names.end() ? -1 : static_cast<int32_t>(found - special_names.begin());
}

// Invisible in an editor, or changed by one: control, format, space, private and unassigned characters.
bool is_invisible(utf8proc_int32_t scalar) {
  switch (utf8proc_category(scalar)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return true;
    default:
      return false;
  }
}

// The value of hexadecimal digits; nothing when they are none.
std::optional<uint32_t> parse_hexadecimal(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Appends what the escape at the start of `rest` (backslash included) stands for; returns the escape's
// length, 0 when there is no such escape.
size_t unescape_one(std::string_view rest, std::string& token) {
  constexpr std::string_view names = "stnr\\<e", values = " \t\n\r\\<";
  const char name = rest.size() > 1 ? rest[1] : '\0';
  if (const size_t i = names.find(name); i != std::string_view::npos) {
    if (i < values.size()) token += values[i];
    return 2;
  }
  if (name == 'x' && rest.size() >= 4) {
    const auto byte = parse_hexadecimal(rest.substr(2, 2));
    if (!byte) return 0;
    token += static_cast<char>(*byte);
    return 4;
  }
  const size_t close = rest.find('}');
  if (!rest.starts_with("\\u{") || close == std::string_view::npos || close > 9) return 0;
  const auto scalar = parse_hexadecimal(rest.substr(3, close - 3));
  if (!scalar || !utf8proc_codepoint_valid(static_cast<utf8proc_int32_t>(*scalar))) return 0;
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(*scalar), bytes);
  token.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  return close + 1;
}

}  // namespace

Vocabulary::Vocabulary() : tokens_(special_names.begin(), special_names.end()) {}

void Vocabulary::add(std::string token) {
  if (token.size() > max_token_bytes) {
    fail_input("the token {} is {} bytes long; at most {} are allowed", in_quotes(token, 40), token.size(),
               max_token_bytes);
  }
  check_input(tokens_.size() < max_tokens, "a vocabulary holds at most {} tokens; give a smaller size",
              max_tokens);
  ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(std::move(token));
}

Vocabulary Vocabulary::from_counts(const TokenCounts& counts, int64_t max_size, int64_t min_count) {
  check_input(max_size == 0 || max_size > special_symbols,
              "a vocabulary of size {} leaves no room beside the {} special symbols; give at least {}, or 0 "
              "for no bound",
              max_size, special_symbols, special_symbols + 1);
  check_input(min_count >= 0, "a minimum count of {} is negative; give 1 to keep every token", min_count);
  std::vector<const TokenCounts::value_type*> ordered;
  for (const auto& entry : counts) {
    if (entry.second >= min_count && entry.first.size() <= max_token_bytes) ordered.push_back(&entry);
  }
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  if (max_size > 0) ordered.resize(std::min(ordered.size(), static_cast<size_t>(max_size - special_symbols)));
  Vocabulary vocabulary;
  for (const auto* entry : ordered) vocabulary.add(entry->first);
  return vocabulary;
}

Vocabulary Vocabulary::from_tokens(std::vector<std::string> tokens) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t first = vocabulary.find(tokens[i]);
    if (first >= 0) {
      fail_input("the token {} occurs twice in the vocabulary, as token {} and as token {}; remove one",
                 in_quotes(tokens[i]), first - special_symbols + 1, i + 1);
    }
    vocabulary.add(std::move(tokens[i]));
  }
  return vocabulary;
}

int32_t Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

int32_t Vocabulary::id(std::string_view token) const {
  const int32_t found = find(token);
  return found < 0 ? unknown : found;
}

const std::string& Vocabulary::token(int32_t id) const {
  check_input(id >= 0 && id < size(), "there is no token with the id {}: the vocabulary has {} (ids 0 to {})",
              id, size(), size() - 1);
  return tokens_[static_cast<size_t>(id)];
}

Vocabulary Vocabulary::read(const std::string& path) {
  LineReader reader(path, max_line_bytes);
  Vocabulary vocabulary;
  std::string line;
  for (const auto name : special_names) {
    const bool any = reader.next(line);
    check_input(
        any && line == name,
        "{} is not a vocabulary: line {} must be {}, found {}; the first lines are <pad>, <s>, </s>, <unk>",
        reader.name(), any ? reader.number() : reader.number() + 1, name,
        any ? std::string(in_quotes(line)) : "the end of the file");
  }
  while (reader.next(line)) {
    try {
      std::string token = unescape_token(line);
      const int32_t special = special_id(line);
      const int32_t first = special >= 0 ? special : vocabulary.find(token);
      if (first >= 0) {
        fail_input("the token {} occurs twice, on line {} and on line {}; remove one{}", in_quotes(line),
                   first + 1, reader.number(),
                   special >= 0 ? ", or write \\ before an ordinary token that is spelled so" : "");
      }
      vocabulary.add(std::move(token));
    } catch (const InputError& error) {
      fail_input("{}, line {}: {}", reader.name(), reader.number(), error.what());
    }
  }
  return vocabulary;
}

std::string Vocabulary::to_text() const {
  std::string text;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    text += (id < special_symbols ? tokens_[id] : escape_token(tokens_[id])) + "\n";
  }
  return text;
}

void Vocabulary::write(const std::string& path) const { write_file_atomic(path, to_text()); }

std::string escape_token(std::string_view token) {
  if (token.empty()) return "\\e";
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F && c != '\\' && c != '<'; };
  if (std::all_of(token.begin(), token.end(), is_plain)) return std::string(token);
  std::string line = special_id(token) >= 0 ? "\\" : "";
  for (const auto character : utf8_characters(token)) {
    constexpr std::string_view values = " \t\n\r\\", names = "stnr\\";
    if (const size_t i = values.find(character); i != std::string_view::npos) {
      line += {'\\', names[i]};
      continue;
    }
    utf8proc_int32_t scalar = -1;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                     static_cast<utf8proc_ssize_t>(character.size()), &scalar);
    if (scalar < 0) {
      line += fmt::format("\\x{:02X}", static_cast<unsigned char>(character[0]));
    } else if (is_invisible(scalar)) {
      line += fmt::format("\\u{{{:04X}}}", scalar);
    } else {
      line += character;
    }
  }
  return line;
}

std::string unescape_token(std::string_view line) {
  check_input(!line.empty(), "empty line; write \\e for the empty token");
  std::string token;
  while (!line.empty()) {
    const size_t plain = std::min(line.find('\\'), line.size());
    token += line.substr(0, plain);
    line.remove_prefix(plain);
    if (line.empty()) break;
    const size_t length = unescape_one(line, token);
    check_input(length > 0,
                "unknown escape at {}; known are \\s \\t \\n \\r \\\\ \\e \\< \\u{{...}} \\x.. (write \\\\ "
                "for a backslash)",
                in_quotes(line, 20));
    line.remove_prefix(length);
  }
  return token;
}

}  // namespace transduce
