#pragma once

// Sentence pairs from files, and their ids. Files are read as LineReader does: plain or gzip, LF or CRLF.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/base/file.h"
#include "transduce/data/tokenizer.h"

namespace transduce {

// Texts whose lines belong together, read side by side. Each is a list of files that follow one another: line
// i of a text's file j belongs to line i of the other texts' file j.
class SideBySide {
 public:
  // "-" is standard input. `copies`: where to read files instead, by their names. Errors: InputError when the
  // lists differ in length or standard input is named twice; as LineReader.
  explicit SideBySide(std::vector<std::vector<std::string>> texts,
                      std::map<std::string, std::string> copies = {});

  // Sets lines[t] to the next line of text t and returns true; false at the end of all. Errors: InputError
  // with both numbers of lines when a file ends before one that belongs to it; as LineReader.
  bool next(std::vector<std::string>& lines);

  // Whether next() need not wait (see LineReader::ready).
  bool ready() const;

  // What error messages call the line last given: "\"a.txt\", line 3".
  std::string place(size_t text = 0) const;

  // The number of lines given so far, of all files.
  int64_t number() const { return number_; }

  // Bytes read so far of all files, of all texts (see LineReader::bytes_read).
  int64_t bytes_read() const;

 private:
  void open();
  [[noreturn]] void fail_unequal(size_t shorter);

  std::vector<std::vector<std::string>> texts_;
  std::map<std::string, std::string> copies_;
  std::vector<LineReader> readers_;  // of each text's present file
  size_t file_ = 0;
  int64_t number_ = 0;
  int64_t bytes_of_ended_ = 0;  // of the files before the present ones
};

// The lines of a text of several files, one after the other. Errors of a call: as SideBySide.
LineSource line_source(const std::vector<std::string>& files);

struct TextPair {
  std::string source, target;

  bool operator==(const TextPair&) const = default;
};

// Gives one pair after the other: sets `pair` to the next one and returns true; false at the end.
using PairSource = std::function<bool(TextPair& pair)>;

// Files of sentence pairs: lines of source, tab, target, or files that hold one side each.
struct PairFiles {
  std::vector<std::string> pairs;
  std::vector<std::string> sources, targets;

  std::vector<std::string> all() const;
};

// Reads them pair by pair. Either side of a pair may be empty. In files of one side a tab is ordinary white
// space.
class PairReader {
 public:
  // `copies`: see SideBySide, also for the errors.
  explicit PairReader(PairFiles files, std::map<std::string, std::string> copies = {});

  // Errors: InputError naming the file and line that has no tab or more than one; naming the files when they
  // hold no pair at all; as SideBySide.
  bool next(TextPair& pair);

  int64_t number() const { return lines_.number(); }
  int64_t bytes_read() const { return lines_.bytes_read(); }

 private:
  PairFiles files_;
  SideBySide lines_;
  std::vector<std::string> line_;
};

// All pairs of files whose lines are source, tab, target. Errors: as PairReader.
std::vector<TextPair> read_pairs(const std::vector<std::string>& files);

// All pairs of files that hold one side each. Errors: as PairReader.
std::vector<TextPair> read_parallel(const std::vector<std::string>& source_files,
                                    const std::vector<std::string>& target_files);

// The source or target sides, viewing into `pairs`: what train_tokenizer takes.
std::vector<std::string_view> sources_of(const std::vector<TextPair>& pairs);
std::vector<std::string_view> targets_of(const std::vector<TextPair>& pairs);

// A pair as ids, without start and end symbols.
struct Example {
  std::vector<int32_t> source, target;

  bool operator==(const Example&) const = default;
};

// Example i is pair i. Runs on all threads.
std::vector<Example> encode_pairs(const std::vector<TextPair>& pairs, const Tokenizer& source_tokenizer,
                                  const Tokenizer& target_tokenizer);

// How texts are cut at random for training, anew each epoch (see Tokenizer::sample).
struct SubwordSampling {
  double alpha = 0.0;  // above 0 to 1; 0: texts are cut the one best way
  uint64_t seed = 0;
};

// The same with texts cut at random: a pure function of the arguments, of which `part` tells parts of a
// corpus apart (below 2^30). Tokenizers that know one way only cut that way. Errors: InputError when neither
// knows more.
std::vector<Example> sample_pairs(const std::vector<TextPair>& pairs, const Tokenizer& source_tokenizer,
                                  const Tokenizer& target_tokenizer, const SubwordSampling& sampling,
                                  uint64_t epoch, uint64_t part = 0);

// How long the texts of a pair may be.
struct LengthLimit {
  int64_t tokens = 0;  // on either side, end symbols not counted; 0: no limit
  bool cut = false;    // longer ones are cut off there; else the pair is left out
};

// What became of pairs above the limit.
struct LengthReport {
  int64_t pairs = 0, over = 0;
  int64_t longest = 0;       // tokens of the longest text, as it was
  int64_t longest_pair = 0;  // its number, from 1

  // Takes in that of the pairs that follow.
  void append(const LengthReport& next);
};

// Applies a limit to examples; the order stays. With `pairs`, which belong to them, the pairs of those that
// are left out go too.
LengthReport limit_lengths(const LengthLimit& limit, std::vector<Example>& examples,
                           std::vector<TextPair>* pairs = nullptr);

}  // namespace transduce
