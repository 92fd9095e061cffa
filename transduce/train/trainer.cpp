#include "transduce/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>

#include "transduce/base/parallel.h"

namespace transduce {

void TrainerOptions::validate() const {
  optimizer.validate();
  schedule.validate();
  check_input(label_smoothing >= 0.0 && label_smoothing < 1.0,
              "label smoothing {} is out of range: give 0 to below 1", label_smoothing);
  check_input(average_decay >= 0.0 && average_decay < 1.0,
              "the decay {} of the moving average is out of range: give 0 (none) to below 1, e.g. 0.999",
              average_decay);
}

Trainer::Trainer(Transformer& model, const TrainerOptions& options)
    : model_(model), options_(options), optimizer_(model.parameters(), options.optimizer) {
  options_.validate();
  if (options_.average_decay > 0.0) average_.emplace(model.parameters(), options_.average_decay);
}

void Trainer::set_counters(const TrainerCounters& counters) {
  counters_ = counters;
  optimizer_.set_steps(counters.applied);
}

std::vector<std::pair<std::string, Tensor>> Trainer::tensors() const {
  std::vector<std::pair<std::string, Tensor>> all{{"parameters", model_.parameters().values()},
                                                  {"first_moment", optimizer_.first_moment()},
                                                  {"second_moment", optimizer_.second_moment()}};
  if (average_) all.emplace_back("average", average_->values());
  return all;
}

double Trainer::pass(const Seq2SeqBatch& batch, size_t index) {
  // Masks depend on the update and the micro-batch, not on the thread that makes it.
  const TrainingMode training({options_.seed, static_cast<uint64_t>(counters_.updates) << 20 | index});
  Tape tape;
  const ops::CrossEntropy loss =
      model_.loss(model_.forward(batch.source, batch.target), batch.expected, options_.label_smoothing);
  tape.backward(loss.sum);
  return loss.total;
}

void Trainer::passes(const std::vector<Seq2SeqBatch>& group, size_t begin, size_t end, size_t workers,
                     std::vector<double>& losses) {
  std::atomic<bool> failed{false};
  std::exception_ptr cause;  // of the worker that failed first: the others fail because of it
  Backend& backend = current_backend();
  const auto work = [&](int64_t worker) {
    const UseBackend use(backend);
    const auto first = static_cast<size_t>(worker);
    const TakingTurns turns(static_cast<uint32_t>(worker), static_cast<uint32_t>(workers), failed);
    try {
      for (size_t i = begin + first; i < end; i += workers) losses[i] = pass(group[i], i);
    } catch (...) {
      if (!failed.exchange(true)) cause = std::current_exception();
      throw;
    }
  };
  model_.parameters().reset_turns();
  try {
    if (workers > 1 && run_together(static_cast<int64_t>(workers), work)) return;
  } catch (...) {
    if (cause) std::rethrow_exception(cause);
    throw;
  }
  for (size_t i = begin; i < end; ++i) losses[i] = pass(group[i], i);
}

UpdateReport Trainer::update(const std::vector<Seq2SeqBatch>& group) {
  check_input(group.size() < size_t{1} << 20, "an update of {} micro-batches is too large: accumulate fewer",
              group.size());
  UpdateReport report;
  report.update = ++counters_.updates;
  // With too few micro-batches for the threads, these work on one together.
  const auto most = static_cast<size_t>(threads_here());
  const size_t count = group.size(), workers = 2 * count > most ? std::min(count, most) : 1;
  std::vector<double> losses(count);
  const size_t whole = count / workers * workers;
  passes(group, 0, whole, workers, losses);
  if (whole < count) passes(group, whole, count, count - whole, losses);
  const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
  for (const Seq2SeqBatch& batch : group) {
    report.source_tokens += batch.source.ids.size();
    report.target_tokens += batch.expected.size();
  }
  const auto tokens = static_cast<double>(report.target_tokens);
  report.loss = total / tokens;
  report.learning_rate = options_.schedule.at(counters_.applied + 1);
  const double scale = std::isfinite(report.loss) ? 1.0 / tokens : std::numeric_limits<double>::quiet_NaN();
  const Optimizer::Update update = optimizer_.step(report.learning_rate, scale);
  report.gradient_norm = update.gradient_norm;
  report.applied = update.applied;
  counters_.applied = optimizer_.steps();
  counters_.bad_in_a_row = update.applied ? 0 : counters_.bad_in_a_row + 1;
  if (update.applied && average_) average_->update(counters_.applied);
  if (counters_.bad_in_a_row >= options_.max_bad_updates) {
    fail_run(
        "the loss or its gradient was not a finite number in {} updates in a row, the last at update {}: "
        "lower the learning rate, lengthen the warm-up or clip the gradient norm",
        counters_.bad_in_a_row, counters_.updates);
  }
  return report;
}

Validation validate(const Transformer& model, const std::vector<Example>& examples,
                    const BatchOptions& options, const StopQuestion& stop) {
  check_input(!examples.empty(), "there is nothing to validate on: the validation data holds no pair");
  const NoGradient inference;
  Validation result;
  double total = 0.0;
  int64_t right = 0;
  for (const auto& indices : make_batches_in_order(examples, options)) {
    if (stop && stop()) break;
    const Seq2SeqBatch batch = make_seq2seq_batch(examples, indices, model.config().source_end);
    const ops::CrossEntropy loss = model.loss(model.forward(batch.source, batch.target), batch.expected, 0.0);
    total += loss.total;
    for (int64_t i = 0; i < batch.expected.size(); ++i) {
      right += loss.best.data<int32_t>()[i] == batch.expected.data<int32_t>()[i] ? 1 : 0;
    }
    result.target_tokens += batch.expected.size();
  }
  const auto tokens = static_cast<double>(result.target_tokens);
  result.loss = total / tokens;
  result.perplexity = std::exp(result.loss);
  result.token_accuracy = static_cast<double>(right) / tokens;
  return result;
}

}  // namespace transduce
