#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "transduce/base/file.h"
#include "transduce/decode/translator.h"

namespace transduce::cli {

// Where results go: standard output, or a file that appears when it is complete.
class Output {
 public:
  // "-" is standard output. Errors of all members: as AtomicFile.
  explicit Output(const std::string& path);
  void line(std::string text);
  // Bytes as they are.
  void write(std::string_view bytes);
  // Lets a reader see what was written to standard output.
  void flush();
  void commit();

 private:
  std::optional<AtomicFile> file_;
};

// A text as a field of an output line: line feeds and tabs become blanks.
std::string as_field(std::string text);

// "LogProbability= -1.234567 Length= 5 ||| -0.987654": features and score of a Moses n-best line.
std::string moses_features(const Hypothesis& hypothesis);

// A hypothesis as a JSON object: its text, score, tokens and their log probabilities (the end symbol's last).
nlohmann::ordered_json as_json(const std::string& text, const Hypothesis& hypothesis,
                               const Vocabulary& vocabulary);

}  // namespace transduce::cli
