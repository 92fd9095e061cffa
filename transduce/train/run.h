#pragma once

// A whole training run: updates, validation, the log, checkpoints, and the best model kept on disk.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transduce/io/model_directory.h"
#include "transduce/train/batch_source.h"
#include "transduce/train/trainer.h"
#include "transduce/train/training_directory.h"
#include "transduce/train/training_history.h"

namespace transduce {

// A figure found at a validation.
struct Score {
  std::string name;
  double value = 0.0;
  bool higher_is_better = false;
  bool is_fraction = false;  // of 1: people see it in per cent
};

// What a model generates from validation pairs.
struct Generated {
  std::vector<Score> scores;
  std::vector<Sample> samples;  // a handful of pairs, the same each time
};

struct RunOptions {
  int64_t steps = 0;   // updates; 0: as many as `epochs` has
  int64_t epochs = 0;  // over a corpus; with both, whichever ends first
  // Batches an update. The last ones of an epoch are an update of their own, however few they are.
  int64_t accumulate = 1;
  int64_t valid_every =
      0;  // updates between validations; 0: after each epoch, or ten times in a run without epochs
  int64_t patience = 0;  // validations without a new best before the run stops; 0: never
  // The score that decides which model is kept, and when the run has lost its patience.
  std::string best_metric = "loss";
  int64_t save_every = 0;    // updates between checkpoints; 0: as often as validations would be
  int64_t keep = 5;          // the model at so many last checkpoints is kept; 0: only what resuming needs
  int64_t average_last = 0;  // at the end the mean of so many of those becomes the model; 0: none does

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

// Told what happens, as it happens.
class RunObserver {
 public:
  struct Progress {
    UpdateReport report;
    double tokens_per_second = 0.0;  // target tokens, since the previous update
    double seconds = 0.0;            // since the run began, validations included, pauses left out
    double epoch = 0.0;
    int64_t steps = 0;  // of the whole run; with epochs that differ in batches, about
  };
  struct ValidationReport : Generated {
    bool best = false;     // so far: this model was saved as the best
    int64_t averaged = 0;  // checkpoints whose mean was validated; 0: the model itself
  };
  virtual ~RunObserver() = default;
  virtual void on_update(const Progress& progress) = 0;
  virtual void on_validation(const Progress& progress, const ValidationReport& report) = 0;
  virtual void on_end(const Progress& progress) = 0;
  // Something went wrong that does not end the run.
  virtual void on_warning(const std::string& text) = 0;
};

// The number of updates that `options` ask for. Errors: InputError when neither steps nor epochs end the run.
int64_t planned_steps(const RunOptions& options, const BatchSource& batches);

struct TrainingRun {
  const TrainingDirectory* directory = nullptr;
  std::string settings;  // saved beside the model as train.toml, unless empty
  Seq2SeqModel* model = nullptr;
  BatchSource* batches = nullptr;
  std::vector<Example> validation;  // may be empty
  BatchOptions validation_batches;
  TrainerOptions trainer;
  RunOptions options;
  // At most about so many tokens a side; fewer where memory is short (see memory_plan.h). Dropout masks
  // depend on it.
  int64_t micro_batch_tokens = default_micro_batch_tokens;
  // Where given, adds scores of generated text, and samples of it, to each validation.
  std::function<Generated()> generate;
  // Where given, asked after each update and during validation: true ends the run after a checkpoint.
  StopQuestion stop;
  // The checkpoint that the run goes on from, with the model as TrainingDirectory's description has it.
  std::optional<Checkpoint> resume;
};

struct RunResult {
  enum class End { finished, out_of_patience, stopped } end = End::finished;
  int64_t updates = 0;   // of the whole run, those before it was resumed included
  int64_t saved = 0;     // the update of the last checkpoint
  int64_t averaged = 0;  // checkpoints whose mean the model on disk is; 0: it is that of one update
};

// Trains `model` and saves it in the directory, with all that resuming needs. With validation examples the
// model is validated before the first update, at each interval and at the end, and the best so far by
// `best_metric` is the model on disk; without them it is the one of the last checkpoint. A model that has
// come to give numbers that are not finite is never saved. With a moving average of the parameters, that is
// what is validated and saved. Writes log.jsonl, one object an update and a validation, and one at the end;
// and from it report.html, at each validation and at the end. A page that cannot be written is a warning,
// once.
//
// Stopped and resumed, a run does to the bit what it would have done otherwise, given the same settings, data
// and number of threads: of all that it writes only `seconds` and `tokens_per_second` of the log differ.
//
// Errors: InputError for options out of range and for a checkpoint that does not fit the model; RunError from
// Trainer::update and when writing fails, after which the last checkpoint and the best model stay on disk.
RunResult train(TrainingRun& run, RunObserver& observer);

}  // namespace transduce
