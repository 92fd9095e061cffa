#pragma once

// One update after another: forward with teacher forcing, backward, optimiser.

#include "transduce/data/batches.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/models/transformer.h"
#include "transduce/train/optimizer.h"
#include "transduce/train/schedule.h"

namespace transduce {

struct TrainerOptions {
  OptimizerOptions optimizer;
  Schedule schedule;
  double label_smoothing = 0.0;
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

class Trainer {
 public:
  // `model` must outlive the trainer. Errors: InputError on options out of range.
  Trainer(Transformer& model, const TrainerOptions& options);

  // One update from the gradients of a group of micro-batches, normalised by the target tokens of the whole
  // group. Each thread works through micro-batches of its own (data parallelism), with a buffer of its own
  // for the gradients, unless these would take too much memory: then the threads work on one together.
  // Errors: InputError on more than 2^20 micro-batches; RunError when max_bad_updates in a row were not
  // finite.
  UpdateReport update(const std::vector<Seq2SeqBatch>& group);

  int64_t updates() const { return updates_; }

 private:
  // Forward and backward with a micro-batch, the index-th of the update; returns its loss.
  double pass(const Seq2SeqBatch& batch, size_t index);
  // The same with micro-batches begin to end - 1, a multiple of `workers`, dealt out to as many threads.
  void passes(const std::vector<Seq2SeqBatch>& group, size_t begin, size_t end, size_t workers,
              std::vector<double>& losses);

  Transformer& model_;
  TrainerOptions options_;
  Optimizer optimizer_;
  int64_t updates_ = 0;
  int64_t bad_in_a_row_ = 0;
};

// The quality of the model's next-token predictions on examples, with teacher forcing; dropout is off.
struct Validation {
  double loss = 0.0;            // mean negative log-likelihood of the target tokens; never smoothed
  double perplexity = 0.0;      // exp(loss)
  double token_accuracy = 0.0;  // how often the likeliest token was the right one
  int64_t target_tokens = 0;
};

// Errors: InputError when there are no examples.
Validation validate(const Transformer& model, const std::vector<Example>& examples,
                    const BatchOptions& options);

}  // namespace transduce
