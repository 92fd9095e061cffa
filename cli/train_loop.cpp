#include "cli/train_loop.h"

#include "transduce/base/error.h"

namespace transduce::cli {

void LoopOptions::add_optimizer_to(CLI::App& app) {
  OptimizerOptions& o = trainer.optimizer;
  const std::string group = "Optimiser";
  app.add_option("--optimizer", optimizer_, "adam or adamw (decoupled weight decay)")->group(group);
  app.add_option("--learning-rate", trainer.schedule.learning_rate, "the peak; for noam a factor")
      ->group(group);
  app.add_option("--schedule", schedule_, "constant, noam, inverse-sqrt, linear or cosine")->group(group);
  app.add_option("--warmup", trainer.schedule.warmup, "updates of linear rise to the peak")->group(group);
  app.add_option("--final-learning-rate", trainer.schedule.floor, "where linear and cosine end")
      ->group(group);
  app.add_option("--beta1", o.beta1, "Adam's decay of the first moment")->group(group);
  app.add_option("--beta2", o.beta2, "Adam's decay of the second moment")->group(group);
  app.add_option("--epsilon", o.epsilon, "Adam's epsilon")->group(group);
  app.add_option("--weight-decay", o.weight_decay, "weight decay")->group(group);
  app.add_option("--clip-norm", o.clip_norm, "scale gradients down to this global norm; 0: never")
      ->group(group);
  app.add_option("--label-smoothing", trainer.label_smoothing, "mass spread over all tokens")->group(group);
  app.add_option("--ema", trainer.average_decay,
                 "validate and save an exponential moving average of the parameters with this decay, e.g. "
                 "0.999; 0: the parameters themselves")
      ->group(group);
}

void LoopOptions::add_to(CLI::App& app) {
  add_optimizer_to(app);
  std::string group = "Loop";
  app.add_option("--steps", run.steps, "updates")->group(group);
  app.add_option("--epochs", run.epochs, "passes over the training data; with --steps, whichever ends first")
      ->group(group);
  app.add_option("--batch-size", batch_size_,
                 "at most so many pairs a batch; 0: no bound; default: 64, with --batch-tokens no bound")
      ->group(group);
  app.add_option("--batch-tokens", batches.batch_tokens,
                 "at most so many real tokens a side a batch; 0: no bound")
      ->group(group);
  app.add_option("--accumulate", run.accumulate,
                 "batches an update, which is as if they were one; the last of an epoch may be fewer")
      ->group(group);
  app.add_option("--seed", trainer.seed, "of parameters, order, dropout and made-up data")->group(group);
  app.add_option("--log-every", log_every, "updates between log lines where there is no terminal")
      ->group(group);
  validation.add_to(app, run);
  group = "Checkpoints";
  app.add_option("--save-every", run.save_every,
                 "updates between checkpoints, beside those of new bests; 0: as --valid-every")
      ->group(group);
  app.add_option("--keep", run.keep, "keep the model of so many last checkpoints, for averaging")
      ->group(group);
  app.add_option("--average-last", run.average_last,
                 "at the end, average the model of so many last checkpoints: it is kept if it is the best")
      ->group(group);
}

void LoopOptions::finish() {
  check_input(optimizer_ == "adam" || optimizer_ == "adamw", "unknown optimizer '{}': choose adam or adamw",
              optimizer_);
  trainer.optimizer.decoupled_weight_decay = optimizer_ == "adamw";
  trainer.schedule.kind = parse_schedule_kind(schedule_);
  constexpr uint64_t kLargestSeed = INT64_MAX;  // that train.toml can hold
  check_input(trainer.seed <= kLargestSeed, "seed {} is out of range: give 0 to {}", trainer.seed,
              kLargestSeed);
  batches.seed = trainer.seed;
  // Tokens bound a batch alone unless sentences are asked for too.
  batches.batch_size = batch_size_.value_or(batches.batch_tokens > 0 ? 0 : 64);
}

}  // namespace transduce::cli
