#include "transduce/train/trainer.h"

#include <cmath>
#include <limits>

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

UpdateReport Trainer::update(const std::vector<Seq2SeqBatch>& group) {
  UpdateReport report;
  report.update = ++updates_;
  double total = 0.0;
  for (size_t i = 0; i < group.size(); ++i) {
    const Seq2SeqBatch& batch = group[i];
    // Streams of 2^24 masks an update (see next_dropout), cut again among the batches of a group.
    const TrainingMode training(
        {options_.seed, static_cast<uint64_t>(updates_) << 12 | static_cast<uint64_t>(i)});
    Tape tape;
    const ops::CrossEntropy loss =
        model_.loss(model_.forward(batch.source, batch.target), batch.expected, options_.label_smoothing);
    tape.backward(loss.sum);
    total += loss.total;
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
