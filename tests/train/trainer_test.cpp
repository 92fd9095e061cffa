// Updates of whole models: groups of batches, the loss and what is reported of it, the moving average.

#include "transduce/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/check.h"
#include "tests/models/made_up_models.h"
#include "transduce/base/parallel.h"

namespace transduce {
namespace {

using checks::relative_error;
using checks::Values;
using checks::values_of;
using model_tests::made_model;
using model_tests::small_config;

constexpr int32_t kFirst = 4;  // the first id that is no special symbol

// A pair with so many target tokens, the end symbol counted.
Example example_of(int32_t target_tokens, uint64_t seed) {
  const auto source = model_tests::made_sequences({target_tokens}, 11, seed, kFirst);
  const auto target = model_tests::made_sequences({target_tokens - 1}, 9, seed + 1, kFirst);
  return {source[0], target[0]};
}

Seq2SeqBatch batch_of(const std::vector<Example>& examples) {
  std::vector<int64_t> all(examples.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  return make_seq2seq_batch(examples, all);
}

TrainerOptions options_with(double label_smoothing) {
  TrainerOptions options;
  options.label_smoothing = label_smoothing;
  options.optimizer.clip_norm = 1.0;
  options.schedule.learning_rate = 1e-3;
  return options;
}

double largest_difference(const Values& a, const Values& b) {
  double most = a.size() == b.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Three updates with groups of one batch of 2 + 40 tokens, or of two batches: returns the parameters, and the
// loss of each.
std::pair<Values, Values> train_in(bool two_batches, DType dtype, TrainerOptions options) {
  Transformer model = made_model(small_config(), 5, dtype);
  Trainer trainer(model, options);
  Values losses;
  for (uint64_t i = 0; i < 3; ++i) {
    const Example a = example_of(2, 10 * i), b = example_of(40, 10 * i + 5);
    const UpdateReport report = trainer.update(two_batches ? std::vector{batch_of({a}), batch_of({b})}
                                                           : std::vector{batch_of({a, b})});
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(report.target_tokens, 42);
    losses.push_back(report.loss);
  }
  return {values_of(model.parameters().values()), losses};
}

// Normalised by batch, the two tokens would count as much as the forty.
TEST(Accumulation, TwoBatchesAreAsOneThatHoldsBoth) {
  for (const double smoothing : {0.0, 0.1}) {
    {
      const UseBackend use(reference_backend());
      const auto [one, one_loss] = train_in(false, DType::float64, options_with(smoothing));
      const auto [two, two_loss] = train_in(true, DType::float64, options_with(smoothing));
      EXPECT_LE(largest_difference(one, two), 1e-9);
      EXPECT_LE(relative_error(one_loss, two_loss), 1e-12);
    }
    // In float32 a gradient that is zero but for rounding (a key's bias) would be blown up by Adam to steps
    // of the size of the learning rate; a larger epsilon keeps it what it is.
    TrainerOptions options = options_with(smoothing);
    options.optimizer.epsilon = 1e-4;
    const auto [one, one_loss] = train_in(false, DType::float32, options);
    const auto [two, two_loss] = train_in(true, DType::float32, options);
    EXPECT_LE(largest_difference(one, two), 1e-6);
    EXPECT_LE(relative_error(one_loss, two_loss), 1e-6);
    EXPECT_NE(one, values_of(made_model(small_config(), 5).parameters().values()));
  }
}

// The loss and all gradients of a batch.
std::pair<double, Values> loss_and_gradients(const Tokens& source, const Tokens& target,
                                             const Tensor& expected, double smoothing) {
  Transformer model = made_model(small_config(), 8);
  model.parameters().gradients();
  Tape tape;
  const ops::CrossEntropy loss = model.loss(model.forward(source, target), expected, smoothing);
  tape.backward(loss.sum);
  return {loss.total, values_of(model.parameters().gradients())};
}

// HF#2759: the same sentences padded to 8 or to 64 have the same loss and gradients, to the bit.
TEST(Loss, DoesNotKnowHowFarABatchWasPadded) {
  const std::vector<std::vector<int32_t>> source{{5, 6, 7, 2}, {8, 2}}, target{{1, 4, 5}, {1, 6, 7, 8, 4, 5}},
      expected{{4, 5, 2}, {6, 7, 8, 4, 5, 2}};
  const auto padded_to = [](const std::vector<std::vector<int32_t>>& rows, int64_t length) {
    std::vector<int32_t> ids;
    for (const auto& row : rows) {
      ids.insert(ids.end(), row.begin(), row.end());
      ids.insert(ids.end(), static_cast<size_t>(length) - row.size(), 0);
    }
    return pack_padded(Tensor::of<int32_t>({static_cast<int64_t>(rows.size()), length}, ids), 0);
  };
  const auto at = [&](int64_t length) {
    return loss_and_gradients(padded_to(source, length), padded_to(target, length),
                              padded_to(expected, length).ids, 0.1);
  };
  EXPECT_EQ(at(8), at(64));
}

// PT#73205: with label smoothing, sentences that were padded to one length cost what each costs alone.
TEST(Loss, SmoothingChargesNoPosition) {
  const Example a = example_of(3, 1), b = example_of(17, 2);
  const auto cost = [&](const std::vector<Example>& examples) {
    const Seq2SeqBatch batch = batch_of(examples);
    return loss_and_gradients(batch.source, batch.target, batch.expected, 0.2);
  };
  const auto [together, together_gradients] = cost({a, b});
  const auto [first, first_gradients] = cost({a});
  const auto [second, second_gradients] = cost({b});
  EXPECT_NEAR(together, first + second, 1e-5 * together);
  Values sum = first_gradients;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += second_gradients[i];
  checks::expect_close(together_gradients, sum, 1e-5, "gradients");
}

// ONMT PR#464: what a validation reports is the model's own perplexity, however it is trained.
TEST(Validation, PerplexityIsNeverSmoothed) {
  Transformer model = made_model(small_config(), 3);
  Trainer trainer(model, options_with(0.4));
  const std::vector<Example> examples{example_of(4, 1), example_of(9, 2), example_of(2, 3)};
  const UpdateReport report = trainer.update({batch_of(examples)});
  const Validation validation = validate(model, examples, {2, 0, 0});

  const NoGradient inference;
  const Seq2SeqBatch batch = batch_of(examples);
  const Var decoded = model.forward(batch.source, batch.target);
  const Values likelihood = values_of(model.loss(decoded, batch.expected, 0.4).likelihood);
  double sum = 0.0;
  for (const double log_probability : likelihood) sum -= log_probability;
  EXPECT_NEAR(validation.loss, sum / 15.0, 1e-5);
  EXPECT_NEAR(validation.perplexity, std::exp(sum / 15.0), 1e-4);
  EXPECT_GT(std::abs(report.loss - validation.loss), 0.01);  // the smoothed loss is another one
}

// fairseq#1239: a loss that is no number is seen, is not applied, and ends the run when it stays.
TEST(Trainer, NeverAppliesWhatIsNotFinite) {
  Transformer model = made_model(small_config(), 3);
  TrainerOptions options = options_with(0.0);
  options.max_bad_updates = 3;
  options.average_decay = 0.9;
  Trainer trainer(model, options);
  const Seq2SeqBatch batch = batch_of({example_of(5, 1)});
  EXPECT_TRUE(trainer.update({batch}).applied);
  float& poisoned = model.parameters().values().data<float>()[24];  // of the source's end symbol, row 2
  const float kept = std::exchange(poisoned, NAN);
  const Values before = values_of(trainer.average());
  const UpdateReport bad = trainer.update({batch});
  EXPECT_FALSE(bad.applied);
  EXPECT_EQ(values_of(trainer.average()), before);
  EXPECT_EQ(trainer.counters(), (TrainerCounters{2, 1, 1}));
  trainer.update({batch});
  EXPECT_THROW(trainer.update({batch}), RunError);
  poisoned = kept;
  EXPECT_TRUE(trainer.update({batch}).applied);
  EXPECT_EQ(trainer.counters(), (TrainerCounters{5, 2, 0}));
}

// The other threads fail too, waiting for the one that did: its message is the one to see.
TEST(Trainer, SaysWhatFailedFirst) {
  const int before = threads();
  set_threads(2);
  for (const size_t bad : {0, 1, 2, 3}) {
    Transformer model = made_model(small_config(), 5);
    Trainer trainer(model, options_with(0.0));
    std::vector<Seq2SeqBatch> group;
    for (uint64_t i = 0; i < 4; ++i) {
      Example example = example_of(8, i);
      if (i == bad) example.target[3] = 12345;
      group.push_back(batch_of({example}));
    }
    try {
      trainer.update(group);
      ADD_FAILURE() << "the token 12345 was accepted";
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("12345"), std::string::npos) << error.what();
    }
  }
  set_threads(before);
}

TEST(MovingAverage, IsTheFormulaInTheHeader) {
  TransformerConfig config = small_config();
  config.dropout = 0.2;
  Transformer model = made_model(config, 4);
  TrainerOptions options = options_with(0.0);
  options.schedule.learning_rate = 0.05;
  options.average_decay = 0.4;
  Trainer trainer(model, options);
  Values expected = values_of(model.parameters().values());
  for (int step = 1; step <= 6; ++step) {
    trainer.update({batch_of({example_of(6, static_cast<uint64_t>(step))})});
    const double d = std::min(0.4, (1.0 + step) / (10.0 + step));  // the bound is 6/15 at step 5
    const Values now = values_of(model.parameters().values());
    for (size_t i = 0; i < now.size(); ++i) expected[i] = d * expected[i] + (1.0 - d) * now[i];
    checks::expect_close(values_of(trainer.average()), expected, 1e-6, "step " + std::to_string(step));
  }
}

TEST(ExchangedParameters, ComeBackToTheBit) {
  Transformer model = made_model(small_config(), 4);
  const Values before = values_of(model.parameters().values());
  const Tensor other = Tensor::zeros(model.parameters().values().shape());
  {
    const ExchangedParameters exchanged(model.parameters(), other);
    EXPECT_EQ(checks::largest(values_of(model.parameters().values())), 0.0);
    EXPECT_EQ(values_of(other), before);
  }
  EXPECT_EQ(values_of(model.parameters().values()), before);
  EXPECT_EQ(checks::largest(values_of(other)), 0.0);
  const ExchangedParameters none(model.parameters(), Tensor());
  EXPECT_EQ(values_of(model.parameters().values()), before);
}

// Given another trainer's tensors and counters, a trainer goes on as that one.
TEST(Trainer, GoesOnFromAnothersState) {
  TransformerConfig config = small_config();
  config.dropout = 0.2;
  TrainerOptions options = options_with(0.1);
  options.average_decay = 0.9;
  options.seed = 9;
  options.schedule.kind = ScheduleKind::inverse_sqrt;
  options.schedule.warmup = 3;
  Transformer first_model = made_model(config, 4), second_model = made_model(config, 77);
  Trainer first(first_model, options);
  const auto update = [](Trainer& trainer, uint64_t i) {
    return trainer.update({batch_of({example_of(5, i)}), batch_of({example_of(7, i + 100)})}).loss;
  };
  for (uint64_t i = 0; i < 4; ++i) update(first, i);
  Trainer second(second_model, options);
  const auto from = first.tensors(), to = second.tensors();
  for (size_t i = 0; i < from.size(); ++i) to[i].second.copy_from(from[i].second);
  second.set_counters(first.counters());
  for (uint64_t i = 4; i < 8; ++i) EXPECT_EQ(update(first, i), update(second, i));
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(values_of(to[i].second), values_of(from[i].second)) << to[i].first;
  }
}

}  // namespace
}  // namespace transduce
