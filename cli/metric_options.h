#pragma once

// The flags that choose metrics, and what they make of them.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transduce/data/tokenizer.h"
#include "transduce/eval/bleu.h"
#include "transduce/eval/chrf.h"
#include "transduce/eval/error_rates.h"
#include "transduce/eval/ter.h"

namespace transduce::cli {

// A metric and the name it goes by in --metrics and in JSON.
struct ChosenMetric {
  std::string key;
  std::unique_ptr<Metric> metric;

  bool is_rate() const { return dynamic_cast<const Rate*>(metric.get()) != nullptr; }
};

class MetricOptions {
 public:
  void add_to(CLI::App& app);
  // For the validations of a training: --valid-metrics, and BLEU's tokens.
  void add_validation_to(CLI::App& app);

  // Whether the person has chosen metrics.
  bool chosen() const { return !names_.empty(); }
  // Whether there is a metric of this name, and the metric chosen beside the others.
  static bool known(const std::string& name);
  void also_choose(const std::string& name);

  // Whether the person has said what a token is.
  bool names_units() const { return tokenizer_.has_value(); }

  // What the four rates compare, where a person has not said it: `units`.
  TokenizerSpec units(TokenizerSpec units) const;

  // The metrics that were chosen, or the defaults: the four rates, after BLEU and chrF where the lines are
  // `sentences`. `one_by_one`: BLEU has effective order, for single lines. Errors: InputError for unknown or
  // repeated names and unfit values.
  std::vector<ChosenMetric> choose(const TokenizerSpec& units, bool sentences, bool one_by_one) const;

 private:
  std::vector<std::string> names_;
  std::optional<std::string> tokenizer_, normal_form_;
  std::string bleu_tokenizer_ = "13a", bleu_smoothing_ = "exp";
  bool lowercase_ = false;
  BleuOptions bleu_;
  ChrfOptions chrf_;
  TercomRules ter_;
};

}  // namespace transduce::cli
