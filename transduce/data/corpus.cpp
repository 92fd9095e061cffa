#include "transduce/data/corpus.h"

#include <algorithm>

#include "transduce/base/error.h"
#include "transduce/base/file.h"
#include "transduce/base/parallel.h"

namespace transduce {
namespace {

std::string list_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(in_quotes(file));
  return join(names, ", ");
}

void read_parallel_files(const std::string& source_file, const std::string& target_file,
                         std::vector<TextPair>& pairs) {
  LineReader sources(source_file), targets(target_file);
  for (;;) {
    TextPair pair;
    const bool has_source = sources.next(pair.source), has_target = targets.next(pair.target);
    if (!has_source && !has_target) return;
    if (has_source != has_target) {
      const int64_t source_lines = sources.count(), target_lines = targets.count();
      fail_input("{} has {} lines but {} has {}; line i of one must belong to line i of the other",
                 sources.name(), source_lines, targets.name(), target_lines);
    }
    pairs.push_back(std::move(pair));
  }
}

std::vector<std::string_view> sides_of(const std::vector<TextPair>& pairs, std::string TextPair::*side) {
  std::vector<std::string_view> texts;
  texts.reserve(pairs.size());
  for (const auto& pair : pairs) texts.push_back(pair.*side);
  return texts;
}

}  // namespace

std::vector<TextPair> read_pairs(const std::vector<std::string>& files) {
  std::vector<TextPair> pairs;
  for (const auto& file : files) {
    LineReader reader(file);
    for (std::string line; reader.next(line);) {
      const auto tabs = std::count(line.begin(), line.end(), '\t');
      check_input(
          tabs == 1,
          "{}, line {}: expected source<TAB>target with one tab, found {} in {}; correct or remove the line",
          reader.name(), reader.number(), tabs == 0 ? "none" : std::to_string(tabs), in_quotes(line, 60));
      const size_t tab = line.find('\t');
      pairs.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
  }
  check_input(!pairs.empty(), "no sentence pair in {}; give files with lines source<TAB>target",
              files.empty() ? "an empty list of files" : list_names(files));
  return pairs;
}

std::vector<TextPair> read_parallel(const std::vector<std::string>& source_files,
                                    const std::vector<std::string>& target_files) {
  check_input(source_files.size() == target_files.size(),
              "{} source files but {} target files; give each source file its target file",
              source_files.size(), target_files.size());
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < source_files.size(); ++i)
    read_parallel_files(source_files[i], target_files[i], pairs);
  check_input(!pairs.empty(), "no sentence pair in {} and {}; give files with one sentence a line",
              source_files.empty() ? "an empty list of files" : list_names(source_files),
              target_files.empty() ? "an empty list of files" : list_names(target_files));
  return pairs;
}

std::vector<std::string_view> sources_of(const std::vector<TextPair>& pairs) {
  return sides_of(pairs, &TextPair::source);
}

std::vector<std::string_view> targets_of(const std::vector<TextPair>& pairs) {
  return sides_of(pairs, &TextPair::target);
}

std::vector<Example> encode_pairs(const std::vector<TextPair>& pairs, const Tokenizer& source_tokenizer,
                                  const Tokenizer& target_tokenizer) {
  std::vector<Example> examples(pairs.size());
  parallel_for(static_cast<int64_t>(pairs.size()), 1000, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      examples[i] = {source_tokenizer.encode(pairs[i].source), target_tokenizer.encode(pairs[i].target)};
    }
  });
  return examples;
}

}  // namespace transduce
