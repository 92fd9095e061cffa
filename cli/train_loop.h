#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/train_validation.h"
#include "transduce/train/run.h"

namespace transduce::cli {

// The flags of `train` that say how it goes: optimiser, loop, validation, checkpoints.
struct LoopOptions {
  TrainerOptions trainer;
  RunOptions run;
  BatchOptions batches;
  ValidationOptions validation;
  int64_t log_every = 100;

  void add_to(CLI::App& app);

  // Once the flags are read. Errors: InputError for names that are not known.
  void finish();

 private:
  void add_optimizer_to(CLI::App& app);

  std::string optimizer_ = "adamw", schedule_ = "constant";
  std::optional<int64_t> batch_size_;
};

}  // namespace transduce::cli
