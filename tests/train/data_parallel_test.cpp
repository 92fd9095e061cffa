// One update: the gradients of micro-batches that threads work on at the same time.

#include "transduce/train/trainer.h"

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/models/made_up_models.h"
#include "transduce/base/parallel.h"

namespace transduce {
namespace {

using checks::expect_close;
using checks::Values;
using checks::values_of;
using model_tests::made_model;
using model_tests::small_config;

std::vector<Example> made_examples(const TransformerConfig& config, size_t count) {
  std::vector<Example> examples(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t t = 0; t < 5 + i % 7; ++t) {
      examples[i].source.push_back(4 +
                                   static_cast<int32_t>((i * 7 + t * 3) % (config.source_vocabulary - 4)));
      examples[i].target.push_back(4 +
                                   static_cast<int32_t>((i * 5 + t * 2) % (config.target_vocabulary - 4)));
    }
  }
  return examples;
}

struct Outcome {
  Values parameters;
  double loss = 0, gradient_norm = 0;
};

// The parameters after updates on `threads` threads from the same start.
Outcome trained(int threads, const std::vector<std::vector<Seq2SeqBatch>>& groups, double dropout) {
  set_threads(threads);
  TransformerConfig config = small_config();
  config.dropout = config.attention_dropout = config.activation_dropout = dropout;
  Transformer model = made_model(config, 1);
  TrainerOptions options;
  options.optimizer.epsilon = 1e-3;  // so that rounding is not blown up where a gradient is next to nothing
  Trainer trainer(model, options);
  Outcome outcome;
  for (const auto& group : groups) {
    const UpdateReport report = trainer.update(group);
    outcome.loss = report.loss, outcome.gradient_norm = report.gradient_norm;
  }
  outcome.parameters = values_of(model.parameters().values());
  set_threads(0);
  return outcome;
}

std::vector<std::vector<Seq2SeqBatch>> groups(int64_t count) {
  const TransformerConfig config = small_config();
  std::vector<std::vector<Seq2SeqBatch>> groups(3);
  for (auto& group : groups) {
    for (int64_t i = 0; i < count; ++i) {
      group.push_back(make_seq2seq_batch(made_examples(config, 6), {i % 6, (i + 1) % 6, (i + 3) % 6}));
    }
  }
  return groups;
}

// Masks belong to the micro-batch, so that only the order of sums may tell how many threads there were.
TEST(DataParallel, TheNumberOfThreadsChangesNothingButRounding) {
  for (const int64_t count : {1, 2, 5, 8}) {
    const auto data = groups(count);
    const Outcome one = trained(1, data, 0.3);
    for (const int threads : {2, 3, 4}) {
      const Outcome many = trained(threads, data, 0.3);
      EXPECT_NEAR(many.loss, one.loss, 1e-6) << count << " on " << threads;
      EXPECT_NEAR(many.gradient_norm, one.gradient_norm, 1e-5) << count << " on " << threads;
      expect_close(many.parameters, one.parameters, 1e-5, "parameters");
    }
  }
}

TEST(DataParallel, RepeatsToTheBitOnAsManyThreads) {
  const auto data = groups(7);
  const Outcome first = trained(3, data, 0.3);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(trained(3, data, 0.3).parameters, first.parameters);
}

// How a batch is cut up does not matter without dropout.
TEST(DataParallel, MicroBatchesTogetherAreTheBatch) {
  const std::vector<Example> examples = made_examples(small_config(), 60);
  std::vector<int64_t> all(examples.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const Outcome whole = trained(2, {{make_seq2seq_batch(examples, all)}}, 0.0);
  const Outcome parts = trained(2, {make_micro_batches(examples)}, 0.0);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6);
  expect_close(parts.parameters, whole.parameters, 1e-5, "parameters");
}

}  // namespace
}  // namespace transduce
