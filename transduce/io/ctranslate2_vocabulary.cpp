#include "transduce/io/ctranslate2_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "transduce/base/error.h"
#include "transduce/base/file.h"

namespace transduce::ctranslate2 {
namespace {

constexpr size_t max_file_bytes = size_t{1} << 28;

std::vector<std::string> tokens_of_json(const std::string& file, const std::string& content) {
  const nlohmann::json json = nlohmann::json::parse(content, nullptr, false);
  const auto is_string = [](const nlohmann::json& item) { return item.is_string(); };
  check_input(json.is_array() && std::all_of(json.begin(), json.end(), is_string),
              "{} is not a vocabulary: it must be a JSON array of strings", file);
  return json.get<std::vector<std::string>>();
}

std::vector<std::string> tokens_of_text(std::string_view content) {
  if (content.ends_with('\n')) content.remove_suffix(1);
  std::vector<std::string_view> lines = split(content, '\n');
  // A token may end with a CR of its own; only a file whose lines all have one has foreign line ends.
  const bool foreign_ends =
      std::all_of(lines.begin(), lines.end(), [](std::string_view line) { return line.ends_with('\r'); });
  std::vector<std::string> tokens;
  for (std::string_view line : lines) {
    if (foreign_ends) line.remove_suffix(1);
    tokens.emplace_back(line);
  }
  return tokens;
}

}  // namespace

int64_t ForeignVocabulary::find(const std::string& token) const {
  const auto found = std::find(tokens.begin(), tokens.end(), token);
  return found == tokens.end() ? -1 : found - tokens.begin();
}

ForeignVocabulary read_foreign_vocabulary(const std::string& path) {
  ForeignVocabulary vocabulary;
  vocabulary.file = in_quotes(path, 4096);
  const std::string content = read_file(path, max_file_bytes);
  check_input(!content.empty(), "{} is empty: it must hold a token a line", vocabulary.file);
  vocabulary.tokens =
      path.ends_with(".json") ? tokens_of_json(vocabulary.file, content) : tokens_of_text(content);
  std::unordered_map<std::string_view, size_t> places;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto [first, is_new] = places.emplace(vocabulary.tokens[id], id);
    check_input(is_new,
                "{}: the token {} occurs twice, with the ids {} and {}: which of the two a text means "
                "cannot be told",
                vocabulary.file, in_quotes(vocabulary.tokens[id], 100), first->second, id);
  }
  return vocabulary;
}

ReorderedVocabulary reorder(const ForeignVocabulary& foreign, const SpecialNames& names, int64_t rows) {
  const auto tokens = static_cast<int64_t>(foreign.tokens.size());
  check_input(tokens <= rows,
              "{} has {} tokens, but the model has embeddings for {} only: it belongs to another model",
              foreign.file, tokens, rows);
  const int64_t end = foreign.find(names.end);
  check_input(end >= 0, "{} lacks the end symbol {}: search would never end", foreign.file,
              in_quotes(names.end, 100));
  const int64_t blank = foreign.find("<blank>"), pad = blank >= 0 ? blank : foreign.find("<pad>");
  // Where one token both starts and ends, its row is the end symbol's.
  const int64_t start = names.start == names.end ? -1 : foreign.find(names.start);
  int64_t unknown = foreign.find(names.unknown);
  int64_t used = tokens;  // rows that belong to tokens
  if (unknown < 0 && tokens < rows) unknown = used++;

  ReorderedVocabulary result;
  result.rows = {pad, start, end, unknown};
  std::vector<std::string> ordinary;
  for (int64_t id = 0; id < tokens; ++id) {
    if (id == pad || id == start || id == end || id == unknown) continue;
    result.rows.push_back(id);
    ordinary.push_back(foreign.tokens[static_cast<size_t>(id)]);
  }
  for (; used < rows; ++used) result.rows.push_back(used);
  result.vocabulary = Vocabulary::from_tokens(std::move(ordinary));
  return result;
}

}  // namespace transduce::ctranslate2
