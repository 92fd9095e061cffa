#pragma once

// Sentence pairs from files, and their ids. Files are read as LineReader does: plain or gzip, LF or CRLF.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/data/tokenizer.h"

namespace transduce {

struct TextPair {
  std::string source, target;

  bool operator==(const TextPair&) const = default;
};

// The pairs of files whose lines are source, tab, target. Either side may be empty. Errors: InputError naming
// the file and line that has no tab or more than one; naming the files when they hold no pair at all.
std::vector<TextPair> read_pairs(const std::vector<std::string>& files);

// The pairs of files that hold one side each: line i of a source file belongs to line i of its target file. A
// tab is ordinary white space there. Errors: InputError when the numbers of files, or the numbers of lines of
// two files that belong together, differ (with both counts); naming the files when they hold no pair at all.
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

}  // namespace transduce
