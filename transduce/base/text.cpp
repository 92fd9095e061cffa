#include "transduce/base/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/base/names.h"

namespace transduce {
namespace {

constexpr Name<NormalForm> normal_forms[] = {{NormalForm::none, "none"},
                                             {NormalForm::nfc, "nfc"},
                                             {NormalForm::nfd, "nfd"},
                                             {NormalForm::nfkc, "nfkc"}};

// U+11A7, an old Korean vowel, is its own normal form and takes part in no composition, but most releases of
// utf8proc drop it after a syllable (JuliaStrings/utf8proc#317), so it is kept out of what utf8proc sees.
constexpr utf8proc_int32_t vowel_o_yae = 0x11A7;

constexpr std::string_view white_space = " \t\n\v\f\r";

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The scalar value `text` begins with and its bytes; -1 and 1 for a byte that begins none. `text` is not
// empty.
std::pair<utf8proc_int32_t, size_t> first_scalar(std::string_view text) {
  utf8proc_int32_t scalar = -1;
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4)), &scalar);
  if (length <= 0) return {-1, 1};
  return {scalar, static_cast<size_t>(length)};
}

int combining_class(utf8proc_int32_t scalar) { return utf8proc_get_property(scalar)->combining_class; }

void append_decomposed(utf8proc_int32_t scalar, int options, std::vector<utf8proc_int32_t>& scalars) {
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition in Unicode has 18
  int boundary_class = 0;
  const auto count = utf8proc_decompose_char(scalar, parts.data(), parts.size(),
                                             static_cast<utf8proc_option_t>(options), &boundary_class);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
    scalars.push_back(scalar);
  } else {
    scalars.insert(scalars.end(), parts.begin(), parts.begin() + count);
  }
}

// Sorts each run of combining marks by class. utf8proc_map would do it in quadratic time, so that one hostile
// line of marks could take hours.
void order_marks(std::vector<utf8proc_int32_t>& scalars) {
  const auto is_mark = [](utf8proc_int32_t scalar) { return combining_class(scalar) != 0; };
  for (auto run = scalars.begin(); run != scalars.end();) {
    run = std::find_if(run, scalars.end(), is_mark);
    const auto run_end = std::find_if_not(run, scalars.end(), is_mark);
    std::stable_sort(run, run_end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    run = run_end;
  }
}

// Normalises valid scalars and appends their UTF-8 to `out`; leaves `scalars` empty.
void flush_normalized(std::vector<utf8proc_int32_t>& scalars, NormalForm form, std::string& out) {
  const int compatibility = form == NormalForm::nfkc ? UTF8PROC_COMPAT : 0;
  std::vector<utf8proc_int32_t> parts;
  parts.reserve(scalars.size());
  for (const auto scalar : scalars) {
    append_decomposed(scalar, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | compatibility, parts);
  }
  scalars.clear();
  order_marks(parts);
  auto count = static_cast<utf8proc_ssize_t>(parts.size());
  if (form != NormalForm::nfd) {
    const int options = UTF8PROC_STABLE | UTF8PROC_COMPOSE | compatibility;
    count = utf8proc_normalize_utf32(parts.data(), count, static_cast<utf8proc_option_t>(options));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(parts[static_cast<size_t>(i)], bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
}

template <class Part>
std::string join_parts(const std::vector<Part>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

}  // namespace

NormalForm parse_normal_form(std::string_view name) { return value_in(normal_forms, "normal form", name); }

const char* name_of(NormalForm form) { return name_in(normal_forms, form); }

std::string normalize(std::string_view text, NormalForm form) {
  if (form == NormalForm::none || is_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> stretch;
  while (!text.empty()) {
    const auto [scalar, length] = first_scalar(text);
    if (scalar >= 0 && scalar != vowel_o_yae) {
      stretch.push_back(scalar);
    } else {
      flush_normalized(stretch, form, out);
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  flush_normalized(stretch, form, out);
  return out;
}

size_t utf8_length(std::string_view text) { return text.empty() ? 0 : first_scalar(text).second; }

std::vector<std::string_view> utf8_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto [scalar, length] = first_scalar(text);
    if (scalar < 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const auto [scalar, length] = first_scalar(text);
    valid += scalar < 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    text.remove_prefix(length);
  }
  return valid;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(white_space) == std::string_view::npos; }

std::vector<std::string_view> split_whitespace(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(white_space); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(white_space, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(white_space, end);
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  fields.push_back(text);
  return fields;
}

std::string join(const std::vector<std::string_view>& parts, std::string_view separator) {
  return join_parts(parts, separator);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return join_parts(parts, separator);
}

std::string join_pieces(std::string_view text, std::string_view joiner) {
  std::string joined;
  while (!joiner.empty()) {
    size_t at = text.find(joiner);
    const auto ends_piece = [&] {
      const size_t end = at + joiner.size();
      return end == text.size() || text[end] == ' ';
    };
    while (at != std::string_view::npos && !ends_piece()) at = text.find(joiner, at + 1);
    if (at == std::string_view::npos) break;
    joined += text.substr(0, at);
    text.remove_prefix(std::min(at + joiner.size() + 1, text.size()));
  }
  return joined + std::string(text);
}

Quoted::operator std::string() const {
  std::string shown = "\"";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto [scalar, length] = first_scalar(rest);
    if (shown.size() + length > max_bytes + 1) return shown + "\"...";
    const auto byte = static_cast<unsigned char>(rest[0]);
    if (scalar == '"' || scalar == '\\') {
      shown += {'\\', rest[0]};
    } else if (scalar == '\t') {
      shown += "\\t";
    } else if (scalar < 0 || scalar < 0x20 || scalar == 0x7F) {
      shown += fmt::format("\\x{:02X}", byte);
    } else if ((scalar >= 0x80 && scalar < 0xA0) || scalar == 0x2028 || scalar == 0x2029) {
      shown += fmt::format("\\u{{{:04X}}}", scalar);
    } else {
      shown += rest.substr(0, length);
    }
    rest.remove_prefix(length);
  }
  return shown + '"';
}

}  // namespace transduce
