#pragma once

// One update after another: forward with teacher forcing, backward, optimiser.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transduce/data/batches.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/models/transformer.h"
#include "transduce/train/moving_average.h"
#include "transduce/train/optimizer.h"
#include "transduce/train/schedule.h"

namespace transduce {

struct TrainerOptions {
  OptimizerOptions optimizer;
  Schedule schedule;
  double label_smoothing = 0.0;  // this mass is shared by all V tokens, the right one among them
  double average_decay = 0.0;    // of the moving average of the parameters (MovingAverage); 0: none is kept
  uint64_t seed = 0;             // of the dropout masks
  int64_t max_bad_updates = 10;  // in a row, then the run stops

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

// What one update did.
struct UpdateReport {
  int64_t update = 0;         // counted from 1, skipped ones included
  double loss = 0.0;          // mean over the target tokens, with label smoothing
  int64_t source_tokens = 0;  // real ones, end symbols included
  int64_t target_tokens = 0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;
  bool applied = false;  // false: the loss or a gradient was not finite, and nothing was changed
};

// How far a trainer has come. Dropout masks and learning rate follow from it.
struct TrainerCounters {
  int64_t updates = 0;       // skipped ones included
  int64_t applied = 0;       // the others
  int64_t bad_in_a_row = 0;  // skipped ones since the last that was applied

  bool operator==(const TrainerCounters&) const = default;
};

class Trainer {
 public:
  // `model` must outlive the trainer. Errors: InputError on options out of range.
  Trainer(Transformer& model, const TrainerOptions& options);

  // One update from the gradients of a group of micro-batches, normalised by the target tokens of the whole
  // group: the same as with one batch that holds them all. Each thread works through micro-batches of its own
  // (data parallelism, see TakingTurns). Errors: InputError on more than 2^20 micro-batches; RunError when
  // max_bad_updates in a row were not finite.
  UpdateReport update(const std::vector<Seq2SeqBatch>& group);

  // Counters and tensors are all that a later update depends on, beside the options and the batches. A
  // trainer that is given another's goes on to the bit as that one would have. The tensors, (P) each, share
  // the trainer's memory and are filled in place.
  const TrainerCounters& counters() const { return counters_; }
  void set_counters(const TrainerCounters& counters);
  std::vector<std::pair<std::string, Tensor>> tensors() const;

  // The moving average of the parameters (P); empty where none is kept.
  Tensor average() const { return average_ ? average_->values() : Tensor(); }

 private:
  // Forward and backward with a micro-batch, the index-th of the update; returns its loss.
  double pass(const Seq2SeqBatch& batch, size_t index);
  // The same with micro-batches begin to end - 1, a multiple of `workers`, dealt out to as many threads.
  void passes(const std::vector<Seq2SeqBatch>& group, size_t begin, size_t end, size_t workers,
              std::vector<double>& losses);

  Transformer& model_;
  TrainerOptions options_;
  Optimizer optimizer_;
  std::optional<MovingAverage> average_;
  TrainerCounters counters_;
};

// The quality of the model's next-token predictions on examples, with teacher forcing; dropout is off.
struct Validation {
  double loss = 0.0;            // mean negative log-likelihood of the target tokens; never smoothed
  double perplexity = 0.0;      // exp(loss)
  double token_accuracy = 0.0;  // how often the likeliest token was the right one
  int64_t target_tokens = 0;
};

// Asked now and then in long work: true ends it early, with a result that is to be thrown away.
using StopQuestion = std::function<bool()>;

// Errors: InputError when there are no examples.
Validation validate(const Transformer& model, const std::vector<Example>& examples,
                    const BatchOptions& options, const StopQuestion& stop = nullptr);

}  // namespace transduce
