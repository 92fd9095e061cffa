#pragma once

#include <span>
#include <string>
#include <vector>

#include "transduce/decode/search.h"
#include "transduce/io/model_directory.h"

namespace transduce {

struct Translation {
  std::string text;
  Hypothesis hypothesis;
};

// Text in, text out.
class Translator {
 public:
  struct Options {
    SearchOptions search;
    int64_t batch_size = 64;  // lines translated together; lines of like length share a batch
  };

  // `model` must outlive the translator. Errors: InputError on options out of range.
  Translator(const Seq2SeqModel& model, const Options& options);

  // The n-best translations of each line, best first, in the order of the lines. A line of white space alone
  // has one translation, the empty text.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines) const;

 private:
  const Seq2SeqModel& model_;
  Options options_;
};

}  // namespace transduce
