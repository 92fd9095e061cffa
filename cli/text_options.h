#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transduce/data/corpus.h"

namespace transduce::cli {

// The flags that say how a vocabulary is made.
class VocabularyFlags {
 public:
  // `side`: what they hold for, e.g. " a side".
  void add_to(CLI::App& app, const std::string& side);
  // Errors: InputError for unknown names.
  VocabularyOptions options() const;

 private:
  VocabularyOptions options_;
  std::string model_ = "unigram";
};

// The flags that say how a model's texts are cut into tokens.
class TextOptions {
 public:
  void add_to(CLI::App& app);

  // The tokenizers of the source and the target side, read from the files that were named or made from a side
  // of the training pairs, which `lines` gives from the beginning; one object where both sides share a
  // vocabulary. Errors: InputError for flags that do not go
  // together, and as read_tokenizer and train_tokenizer.
  struct Tokenizers {
    std::shared_ptr<const Tokenizer> source, target;
  };
  using LinesOfSide = std::function<LineSource(std::string TextPair::*side)>;
  Tokenizers tokenizers(const LinesOfSide& lines) const;

  bool joint_vocabulary() const { return joint_vocabulary_; }

  // Errors: InputError on values out of range.
  LengthLimit length_limit() const;
  // Texts are cut anew each epoch where alpha is above 0. Errors: InputError on values out of range.
  SubwordSampling sampling(uint64_t seed) const;

 private:
  TokenizerSpec source() const;
  TokenizerSpec target() const;

  std::string source_tokenizer_ = "char", target_tokenizer_ = "char";
  std::string source_normalize_ = "none", target_normalize_ = "none";
  std::string source_vocabulary_, target_vocabulary_, target_joiner_;
  bool joint_vocabulary_ = false;
  VocabularyFlags vocabulary_;
  int64_t max_length_ = 1024;
  std::string too_long_ = "drop";
  std::optional<double> sampling_;
};

// "left out 3 of 29,000 training pairs: ..."; empty where nothing was too long. `what`: "training".
std::string describe(const LengthReport& report, const LengthLimit& limit, const std::string& what);

}  // namespace transduce::cli
