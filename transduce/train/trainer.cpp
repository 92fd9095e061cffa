#include "transduce/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "transduce/base/parallel.h"

namespace transduce {

void TrainerOptions::validate() const {
  optimizer.validate();
  schedule.validate();
  check_input(label_smoothing >= 0.0 && label_smoothing < 1.0,
              "label smoothing {} is out of range: give 0 to below 1", label_smoothing);
}

Trainer::Trainer(Transformer& model, const TrainerOptions& options)
    : model_(model), options_(options), optimizer_(model.parameters(), options.optimizer) {
  options_.validate();
}

size_t Trainer::workers_for(size_t micro_batches) const {
  constexpr int64_t kMostFloats = int64_t{1} << 26;  // of all replicas' gradients: 256 MB
  const auto most =
      static_cast<size_t>(1 + kMostFloats / std::max<int64_t>(1, model_.parameters().values().size()));
  return std::min({static_cast<size_t>(threads_here()), micro_batches, most});
}

double Trainer::accumulate(const std::vector<Seq2SeqBatch>& group, size_t worker, size_t workers) {
  const Transformer& model = worker == 0 ? model_ : *replicas_[worker - 1];
  double total = 0.0;
  for (size_t i = worker; i < group.size(); i += workers) {
    const Seq2SeqBatch& batch = group[i];
    // Masks depend on the update and the micro-batch, not on the thread that makes it.
    const TrainingMode training({options_.seed, static_cast<uint64_t>(updates_) << 20 | i});
    Tape tape;
    const ops::CrossEntropy loss =
        model.loss(model.forward(batch.source, batch.target), batch.expected, options_.label_smoothing);
    tape.backward(loss.sum);
    total += loss.total;
  }
  return total;
}

UpdateReport Trainer::update(const std::vector<Seq2SeqBatch>& group) {
  check_input(group.size() < size_t{1} << 20, "an update of {} micro-batches is too large: accumulate fewer",
              group.size());
  UpdateReport report;
  report.update = ++updates_;
  const size_t workers = workers_for(group.size());
  while (replicas_.size() + 1 < workers) {
    replicas_.push_back(model_.replica());
    replicas_.back()->parameters().gradients();
  }
  std::vector<double> totals(workers);
  const auto work = [&](int64_t worker) {
    const auto w = static_cast<size_t>(worker);
    totals[w] = accumulate(group, w, workers);
  };
  if (workers == 1 || !run_together(static_cast<int64_t>(workers), work)) {
    for (size_t w = 0; w < workers; ++w) work(static_cast<int64_t>(w));
  }
  for (size_t w = 1; w < workers; ++w) {
    const Tensor& gradients = replicas_[w - 1]->parameters().gradients();
    current_backend().accumulate(1.0, gradients, model_.parameters().gradients());
    gradients.fill_zero();
  }
  const double total = std::accumulate(totals.begin(), totals.end(), 0.0);
  for (const Seq2SeqBatch& batch : group) {
    report.source_tokens += batch.source.ids.size();
    report.target_tokens += batch.expected.size();
  }
  const auto tokens = static_cast<double>(report.target_tokens);
  report.loss = total / tokens;
  report.learning_rate = options_.schedule.at(optimizer_.steps() + 1);
  const double scale = std::isfinite(report.loss) ? 1.0 / tokens : std::numeric_limits<double>::quiet_NaN();
  const Optimizer::Update update = optimizer_.step(report.learning_rate, scale);
  report.gradient_norm = update.gradient_norm;
  report.applied = update.applied;
  bad_in_a_row_ = update.applied ? 0 : bad_in_a_row_ + 1;
  if (bad_in_a_row_ >= options_.max_bad_updates) {
    fail_run(
        "the loss or its gradient was not a finite number in {} updates in a row, the last at update {}: "
        "lower the learning rate, lengthen the warm-up or clip the gradient norm",
        bad_in_a_row_, updates_);
  }
  return report;
}

Validation validate(const Transformer& model, const std::vector<Example>& examples,
                    const BatchOptions& options) {
  check_input(!examples.empty(), "there is nothing to validate on: the validation data holds no pair");
  const NoGradient inference;
  Validation result;
  double total = 0.0;
  int64_t right = 0;
  for (const auto& indices : make_batches_in_order(examples, options)) {
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
