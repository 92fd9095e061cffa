#pragma once

// A whole training run: updates, validation, the log, and the best model kept on disk.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transduce/io/model_directory.h"
#include "transduce/train/batch_source.h"
#include "transduce/train/trainer.h"

namespace transduce {

// A figure found at a validation.
struct Score {
  std::string name;
  double value = 0.0;
  bool higher_is_better = false;
};

struct RunOptions {
  int64_t steps = 0;       // updates; 0: as many as `epochs` has
  int64_t epochs = 0;      // over a corpus; with both, whichever ends first
  int64_t accumulate = 1;  // batches an update
  int64_t valid_every =
      0;  // updates between validations; 0: after each epoch, or ten times in a run without epochs
  int64_t patience = 0;              // validations without a new best before the run stops; 0: never
  std::string best_metric = "loss";  // the score that decides which model is kept
};

// Told what happens, as it happens.
class RunObserver {
 public:
  struct Progress {
    UpdateReport report;
    double tokens_per_second = 0.0;  // target tokens, since the previous update
    double seconds = 0.0;            // since the run began, validations included
    double epoch = 0.0;
    int64_t steps = 0;  // of the whole run; with epochs that differ in batches, about
  };
  virtual ~RunObserver() = default;
  virtual void on_update(const Progress& progress) = 0;
  virtual void on_validation(const Progress& progress, const std::vector<Score>& scores, bool best) = 0;
  virtual void on_end(const Progress& progress) = 0;
};

// The number of updates that `options` ask for. Errors: InputError when neither steps nor epochs end the run.
int64_t planned_steps(const RunOptions& options, const BatchSource& batches);

// Trains `model` and saves it in `directory`. With validation examples the model is validated before the
// first update, at each interval and at the end, and the best so far by `best_metric` is kept on disk;
// without them it is saved at the same times unless it has come to give numbers that are not finite. Writes
// DIRECTORY/log.jsonl, one object an update and a validation. `more_scores`, where given, adds scores to each
// validation (of generated text, say). Errors: InputError for options out of range; RunError from
// Trainer::update, after which the best model so far stays on disk.
struct TrainingRun {
  std::string directory;
  std::string settings;  // saved beside the model as train.toml, unless empty
  Seq2SeqModel* model = nullptr;
  BatchSource* batches = nullptr;
  std::vector<Example> validation;  // may be empty
  BatchOptions validation_batches;
  TrainerOptions trainer;
  RunOptions options;
  std::function<std::vector<Score>()> more_scores;
};
void train(TrainingRun& run, RunObserver& observer);

}  // namespace transduce
