#pragma once

// What a validation measures beside the loss: what the model generates, compared with what is right.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/metric_options.h"
#include "transduce/data/corpus.h"
#include "transduce/train/run.h"

namespace transduce::cli {

class ValidationOptions {
 public:
  // `run` receives the values of the flags that the run itself needs.
  void add_to(CLI::App& app, RunOptions& run);

  // What `model` generates from the first validation pairs: its scores, and five pairs' outputs, evenly
  // spread over these; no function where nothing is to be generated. `model` must outlive it. `made_up`: the
  // pairs are a task's. `stop`: see TrainingRun. Errors: InputError for options that do not go together or
  // are out of range.
  std::function<Generated()> generated(const Seq2SeqModel& model, std::vector<TextPair> pairs, bool made_up,
                                       const StopQuestion& stop);

 private:
  int64_t decode_ = -1;
  int64_t beam_ = 1;
  MetricOptions metrics_;
  const RunOptions* run_ = nullptr;
};

}  // namespace transduce::cli
