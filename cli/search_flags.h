#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "transduce/decode/translator.h"

namespace transduce::cli {

// The flags that say how a model is searched, for all commands that translate.
class SearchFlags {
 public:
  void add_to(CLI::App& app);
  // The flags that say how outputs are ranked, alone.
  void add_ranking_to(CLI::App& app);

  // Once the flags are read. Errors: InputError on names that are not known and on values out of range.
  Translator::Options options() const;
  Ranking ranking() const;

 private:
  Translator::Options options_;
  std::string normalization_ = "gnmt";
  bool sample_ = false;
  Sampling sampling_;
};

// One or several models, loaded, and what refers to them.
class Models {
 public:
  // Errors: InputError as load_model, and on models that do not belong together.
  explicit Models(const std::vector<std::string>& directories);
  std::vector<const Seq2SeqModel*> all() const;
  const Seq2SeqModel& first() const { return models_[0]; }

 private:
  std::vector<Seq2SeqModel> models_;
};

}  // namespace transduce::cli
