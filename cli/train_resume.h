#pragma once

// Going on with a training, and what may have changed since it was begun.

#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "transduce/train/run.h"

namespace transduce::cli {

// A training that was interrupted, and is this process's own from here on.
struct ResumedTraining {
  std::unique_ptr<TrainingDirectory> directory;
  ModelDescription description;
  Checkpoint checkpoint;
  std::string settings;  // train.toml

  // Errors: InputError when there is nothing to resume, or another process trains there.
  explicit ResumedTraining(const std::string& model_directory);

  // The model without its parameters, which the checkpoint has. Dropout is as in `options`, since it is the
  // training's.
  Seq2SeqModel model(const TransformerConfig& options) const;

  // Whether an option has the value that it had before.
  bool has_same(const Parser& parser, const std::string& name) const;

  // Compares the settings, the data of `run` and the number of threads with those of before; says what has
  // changed. Errors: InputError naming each change unless they are allowed, and always for one of the model
  // or of how text is cut.
  void check_changes(const Parser& parser, const TrainingRun& run, bool allowed) const;
};

// The flags that say what becomes of what is in the model's directory.
struct ResumeOptions {
  bool overwrite = false, resume = false, allow_changes = false;

  void add_to(CLI::App& app);

  // Once the flags are read. With --resume the training that is gone on with; where no --config was named,
  // the flags are then read once more, with the training's own settings for those that were not given.
  // Errors: InputError for flags that do not go together, when there is nothing to resume, and when a new
  // training would replace a model without --overwrite.
  std::optional<ResumedTraining> begin(Parser& parser, int argc, char** argv,
                                       const std::string& directory) const;
};

}  // namespace transduce::cli
