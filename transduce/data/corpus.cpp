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

std::vector<std::string_view> sides_of(const std::vector<TextPair>& pairs, std::string TextPair::*side) {
  std::vector<std::string_view> texts;
  texts.reserve(pairs.size());
  for (const auto& pair : pairs) texts.push_back(pair.*side);
  return texts;
}

// The texts of each side draw from streams of their own, epoch after epoch ("sample" in ASCII).
constexpr uint64_t first_stream = 0x73616D706C650000;

std::vector<std::vector<int32_t>> sample_side(const std::vector<std::string_view>& texts,
                                              const Tokenizer& tokenizer, double alpha, RandomKey key) {
  if (tokenizer.spec().kind == TokenizerKind::sentencepiece) return tokenizer.sample(texts, alpha, key);
  std::vector<std::vector<int32_t>> ids;
  for (const auto text : texts) ids.push_back(tokenizer.encode(text));
  return ids;
}

}  // namespace

SideBySide::SideBySide(std::vector<std::vector<std::string>> texts, std::map<std::string, std::string> copies)
    : texts_(std::move(texts)), copies_(std::move(copies)) {
  int64_t standard_inputs = 0;
  for (const auto& files : texts_) {
    check_input(files.size() == texts_[0].size(),
                "{} files on one side but {} on the other: each file needs the one that belongs to it",
                texts_[0].size(), files.size());
    standard_inputs += std::count(files.begin(), files.end(), "-");
  }
  check_input(standard_inputs <= 1, "standard input (-) can be one of the files only");
  if (!texts_.empty() && !texts_[0].empty()) open();
}

void SideBySide::open() {
  readers_.clear();
  for (const auto& files : texts_) {
    const auto copy = copies_.find(files[file_]);
    const std::string& path = copy == copies_.end() ? files[file_] : copy->second;
    readers_.emplace_back(path, LineReader::default_max_line_bytes, files[file_]);
  }
}

bool SideBySide::next(std::vector<std::string>& lines) {
  lines.resize(texts_.size());
  while (!readers_.empty()) {
    size_t ended = 0, shorter = 0;
    for (size_t t = 0; t < readers_.size(); ++t) {
      if (readers_[t].next(lines[t])) continue;
      ++ended;
      shorter = t;
    }
    if (ended == 0) {
      ++number_;
      return true;
    }
    if (ended < readers_.size()) fail_unequal(shorter);
    if (file_ + 1 == texts_[0].size()) return false;
    ++file_;
    for (const LineReader& reader : readers_) bytes_of_ended_ += reader.bytes_read();
    open();
  }
  return false;
}

int64_t SideBySide::bytes_read() const {
  int64_t bytes = bytes_of_ended_;
  for (const LineReader& reader : readers_) bytes += reader.bytes_read();
  return bytes;
}

bool SideBySide::ready() const {
  return std::all_of(readers_.begin(), readers_.end(), [](const LineReader& r) { return r.ready(); });
}

std::string SideBySide::place(size_t text) const {
  return fmt::format("{}, line {}", readers_[text].name(), readers_[text].number());
}

void SideBySide::fail_unequal(size_t shorter) {
  size_t longer = shorter;
  for (size_t t = 0; t < readers_.size(); ++t) {
    // Who writes to standard input may never end.
    const bool counted = texts_[t][file_] != "-" || copies_.count("-") > 0;
    if ((counted ? readers_[t].count() : readers_[t].number()) > readers_[longer].number()) longer = t;
  }
  const bool open_end = texts_[longer][file_] == "-" && copies_.count("-") == 0;
  fail_input("{} has {} lines but {} has {}{}; line i of one must belong to line i of the other",
             readers_[shorter].name(), readers_[shorter].number(), readers_[longer].name(),
             readers_[longer].number(), open_end ? " or more" : "");
}

LineSource line_source(const std::vector<std::string>& files) {
  return [reader = std::make_shared<SideBySide>(std::vector<std::vector<std::string>>{files}),
          lines = std::vector<std::string>()](std::string& line) mutable {
    if (!reader->next(lines)) return false;
    line = std::move(lines[0]);
    return true;
  };
}

std::vector<std::string> PairFiles::all() const {
  std::vector<std::string> files = pairs;
  files.insert(files.end(), sources.begin(), sources.end());
  files.insert(files.end(), targets.begin(), targets.end());
  return files;
}

PairReader::PairReader(PairFiles files, std::map<std::string, std::string> copies)
    : files_(std::move(files)),
      lines_(files_.sources.empty() && files_.targets.empty()
                 ? std::vector<std::vector<std::string>>{files_.pairs}
                 : std::vector<std::vector<std::string>>{files_.sources, files_.targets},
             std::move(copies)) {}

bool PairReader::next(TextPair& pair) {
  if (!lines_.next(line_)) {
    if (lines_.number() > 0) return false;
    const auto names = [](const std::vector<std::string>& files) {
      return files.empty() ? "an empty list of files" : list_names(files);
    };
    check_input(files_.sources.empty() && files_.targets.empty(),
                "no sentence pair in {} and {}; give files with one sentence a line", names(files_.sources),
                names(files_.targets));
    fail_input("no sentence pair in {}; give files with lines source<TAB>target", names(files_.pairs));
  }
  if (line_.size() == 2) {
    pair = {std::move(line_[0]), std::move(line_[1])};
    return true;
  }
  const std::string& line = line_[0];
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  check_input(tabs == 1,
              "{}: expected source<TAB>target with one tab, found {} in {}; correct or remove the line",
              lines_.place(), tabs == 0 ? "none" : std::to_string(tabs), in_quotes(line, 60));
  const size_t tab = line.find('\t');
  pair = {line.substr(0, tab), line.substr(tab + 1)};
  return true;
}

namespace {

std::vector<TextPair> read_all(PairReader reader) {
  std::vector<TextPair> pairs;
  for (TextPair pair; reader.next(pair);) pairs.push_back(std::move(pair));
  return pairs;
}

}  // namespace

std::vector<TextPair> read_pairs(const std::vector<std::string>& files) {
  return read_all(PairReader({files, {}, {}}));
}

std::vector<TextPair> read_parallel(const std::vector<std::string>& source_files,
                                    const std::vector<std::string>& target_files) {
  return read_all(PairReader({{}, source_files, target_files}));
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

std::vector<Example> sample_pairs(const std::vector<TextPair>& pairs, const Tokenizer& source_tokenizer,
                                  const Tokenizer& target_tokenizer, const SubwordSampling& sampling,
                                  uint64_t epoch, uint64_t part) {
  const uint64_t stream = first_stream + (part << 16) + 2 * epoch;
  auto sources = sample_side(sources_of(pairs), source_tokenizer, sampling.alpha, {sampling.seed, stream});
  auto targets =
      sample_side(targets_of(pairs), target_tokenizer, sampling.alpha, {sampling.seed, stream + 1});
  std::vector<Example> examples(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) examples[i] = {std::move(sources[i]), std::move(targets[i])};
  return examples;
}

void LengthReport::append(const LengthReport& next) {
  if (next.longest > longest) {
    longest = next.longest;
    longest_pair = pairs + next.longest_pair;
  }
  pairs += next.pairs;
  over += next.over;
}

LengthReport limit_lengths(const LengthLimit& limit, std::vector<Example>& examples,
                           std::vector<TextPair>* pairs) {
  LengthReport report;
  size_t kept = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    Example& example = examples[i];
    const auto tokens = static_cast<int64_t>(std::max(example.source.size(), example.target.size()));
    ++report.pairs;
    if (tokens > report.longest) {
      report.longest = tokens;
      report.longest_pair = report.pairs;
    }
    const bool over = limit.tokens > 0 && tokens > limit.tokens;
    if (over) ++report.over;
    if (over && !limit.cut) continue;
    if (over) {
      const auto most = static_cast<size_t>(limit.tokens);
      example.source.resize(std::min(example.source.size(), most));
      example.target.resize(std::min(example.target.size(), most));
    }
    if (kept != i) {
      examples[kept] = std::move(example);
      if (pairs != nullptr) (*pairs)[kept] = std::move((*pairs)[i]);
    }
    ++kept;
  }
  examples.resize(kept);
  if (pairs != nullptr) pairs->resize(kept);
  return report;
}

}  // namespace transduce
