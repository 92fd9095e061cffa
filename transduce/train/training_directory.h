#pragma once

// What a training needs to be resumed lies in training/ within the model directory:
//   state.safetensors     the last checkpoint, one file: parameters, moments, moving average, RunState
//   step-N.safetensors    the model's parameters after update N, as in model.safetensors, of the last few
//                         checkpoints
//   best.safetensors      the best model, while the mean of several has taken its place as model.safetensors
//   corpus.index          the training data (data/corpus_index.h), which can be made again
//   lock                  held by the process that trains
// Each file is written beside and renamed. A checkpoint is the one file state.safetensors, so parameters and
// optimiser are always from the same update.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transduce/base/file_lock.h"
#include "transduce/train/batch_source.h"
#include "transduce/train/trainer.h"

namespace transduce {

// Where a run stands between two updates: all that decides what comes next, beside the settings, the data and
// the trainer's tensors.
struct RunState {
  TrainerCounters trainer;
  BatchPosition position;
  int64_t validated = -1;      // the update after which the last validation was; -1: none yet
  std::optional<double> best;  // the best score so far
  std::string best_metric;     // and which it is
  int64_t without_best = 0;    // validations since then
  int64_t log_bytes = 0;       // of log.jsonl
  double seconds = 0.0;        // trained so far
  // What the bits depend on and the settings do not say.
  int threads = 0;
  int64_t micro_batch_tokens = default_micro_batch_tokens;  // fewer where memory was short
  std::string data, validation_data;                        // fingerprints

  bool operator==(const RunState&) const = default;
};

// As JSON, and back. Errors: InputError naming the field that is missing or does not fit, after `file`.
std::string to_json(const RunState& state);
RunState run_state_from_json(const std::string& text, const std::string& file);

// A RunState and the trainer's tensors, (P) each.
struct Checkpoint {
  RunState state;
  std::map<std::string, Tensor> tensors;
};

// Parameters of an earlier update.
struct StepFile {
  int64_t step = 0;
  std::string path;
};

// Those in a model directory, the earliest first; none where nothing was trained.
std::vector<StepFile> step_files(const std::string& model_directory);

// Whether the model directory has a training that can be resumed.
bool has_checkpoint(const std::string& model_directory);

// The training/ of a model directory, for the one process that trains there.
class TrainingDirectory {
 public:
  // Makes it, locks it until this object ends, and removes temporary files that killed runs have left.
  // Errors: InputError when another process trains there, or when it cannot be made.
  explicit TrainingDirectory(const std::string& model_directory);
  // Removes the directory if it is new and nothing was saved there.
  ~TrainingDirectory();
  TrainingDirectory(const TrainingDirectory&) = delete;
  TrainingDirectory& operator=(const TrainingDirectory&) = delete;

  const std::string& model_directory() const { return model_directory_; }
  std::string step_file(int64_t step) const;
  // The folder itself, and where the index of the training data lies in it.
  const std::string& folder() const { return folder_; }
  std::string index_file() const;

  // The last checkpoint. Errors: InputError when there is none or when it is damaged, naming what is wrong.
  Checkpoint load() const;
  // Replaces it. Errors: those of AtomicFile; the former one then remains.
  void save(const RunState& state, const std::vector<std::pair<std::string, Tensor>>& tensors) const;
  // Removes all of an earlier training, so that it is not taken for this one's.
  void clear() const;

  // Removes the parameters of all but the last `count` steps.
  void keep_last(int64_t count) const;
  // After a checkpoint of update `step` was loaded: removes what was written after it, and puts the best
  // model back in its place.
  void go_back_to(int64_t step) const;
  // Keeps model.safetensors as the best model, before another takes its place. Errors: those of AtomicFile.
  void set_best_aside() const;

 private:
  std::string path(const std::string& name) const;

  std::string model_directory_, folder_;
  bool is_new_;  // nothing was there before
  std::optional<FileLock> lock_;
};

}  // namespace transduce
