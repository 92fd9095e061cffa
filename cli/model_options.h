#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "transduce/models/config.h"

namespace transduce::cli {

// The flags that say what a model is made of: a preset, and what departs from it.
class ModelOptions {
 public:
  void add_to(CLI::App& app);
  // Vocabulary sizes are left at 1 for make_model to set. Errors: InputError for unknown names and unfit
  // values.
  TransformerConfig config() const;

 private:
  std::string preset_ = "small";
  std::optional<int64_t> encoder_layers_, decoder_layers_, width_, heads_, feed_forward_, max_positions_;
  std::optional<std::string> activation_, norm_, norm_kind_, positions_, tie_;
  std::optional<double> dropout_, attention_dropout_, activation_dropout_;
  bool output_bias_ = false;
};

// The seed of made-up examples that a training with `seed` never sees.
uint64_t held_out_seed(uint64_t seed);

}  // namespace transduce::cli
