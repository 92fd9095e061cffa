// The parts of a model against the published totals, against the model itself, and against the memory that a
// training step was seen to keep.

#include "transduce/models/anatomy.h"

#include <gtest/gtest.h>

#include "tests/models/made_up_models.h"
#include "transduce/models/quantize.h"

namespace transduce {
namespace {

const PartGroup& group_named(const Anatomy& anatomy, const std::string& name) {
  for (const PartGroup& group : anatomy.groups) {
    if (group.name == name) return group;
  }
  throw std::runtime_error("no group " + name);
}

TransformerConfig base() {
  TransformerConfig config;  // the paper's base model
  config.source_vocabulary = config.target_vocabulary = 37000;
  config.tie = Tie::all;
  return config;
}

// The figures of the pages that this project grew from: attention 33.3 %, feed-forward 66.6 %, norms 0.1 %.
TEST(Anatomy, PublishedTotals) {
  const Anatomy a = anatomy(base(), {});
  const PartGroup& encoder = group_named(a, "encoder layer");
  ASSERT_EQ(encoder.parts.size(), 3U);
  EXPECT_EQ(encoder.parts[0].parameters, 1050624);
  EXPECT_EQ(encoder.parts[1].parameters, 2099712);
  EXPECT_EQ(encoder.parts[2].parameters, 2048);
  EXPECT_EQ(encoder.sum(&Part::parameters), 3152384);
  const PartGroup& decoder = group_named(a, "decoder layer");
  EXPECT_EQ(6 * encoder.sum(&Part::parameters) + 6 * decoder.sum(&Part::parameters), 44138496);
  EXPECT_EQ(a.total(&Part::parameters), 63082496);
}

TEST(Anatomy, NoParameterIsLeftOutOrCountedTwice) {
  for (const auto& variant : model_tests::variants()) {
    const TransformerConfig config = model_tests::config_of(variant);
    const Anatomy a = anatomy(config, {3, 5, 7});
    EXPECT_EQ(a.total(&Part::parameters), Transformer::count_parameters(config)) << variant.name;
    EXPECT_EQ(a.total(&Part::parameter_bytes), 4 * Transformer::count_parameters(config)) << variant.name;
  }
  const auto model = quantize(model_tests::made_model(model_tests::small_config(), 1));
  const int64_t parameters = model->parameters().count();
  int64_t bytes = 4 * parameters;
  for (const Int8Parameter& p : model->parameters().int8_parameters()) {
    bytes += 4 * p.matrix->scales.size() - 3 * p.matrix->values.size();
  }
  const Anatomy a = anatomy(model->config(), {});
  EXPECT_EQ(a.total(&Part::parameters), parameters);
  EXPECT_EQ(a.total(&Part::parameter_bytes), bytes);
}

// The memory kept at the end of a forward pass, by the arena's own account. Sizes are chosen so that the
// arena rounds none of the larger blocks up; the small ones (64 bytes at least, see Arena) are allowed for.
TEST(Anatomy, TrainingKeepsWhatIsSaid) {
  for (const auto& variant : model_tests::variants()) {
    TransformerConfig config = model_tests::config_of(variant);
    config.width = 64;
    config.heads = 4;
    config.feed_forward = 128;
    config.source_vocabulary = config.target_vocabulary = 64;
    Transformer model(config);
    model.parameters().initialize(1);
    const int64_t sentences = 4, length = 16;
    const auto sequences = model_tests::made_sequences(std::vector<int32_t>(sentences, length), 64, 2);
    const Tokens source = pack(sequences), target = pack(sequences);
    const Tensor expected = target.ids.clone();
    model.parameters().gradients();
    model.forward(source, target);  // the sinusoids are there from now on
    Arena::instance().trim();
    const size_t before = Arena::instance().statistics().in_use;
    const Tape tape;
    const ops::CrossEntropy loss = model.loss(model.forward(source, target), expected, 0.1);
    const auto kept = static_cast<double>(Arena::instance().statistics().in_use - before);
    const double said =
        static_cast<double>(anatomy(config, {sentences, length, length}).total(&Part::training_bytes));
    EXPECT_NEAR(kept / said, 1.0, 0.001)
        << variant.name << ": " << kept << " bytes kept, " << said << " said";
  }
}

TEST(Anatomy, ScalesWithTheLengths) {
  const Anatomy one = anatomy(base(), {1, 20, 30}), many = anatomy(base(), {8, 20, 30});
  EXPECT_EQ(8 * one.total(&Part::decoding_bytes), many.total(&Part::decoding_bytes));
  EXPECT_DOUBLE_EQ(8 * one.total(&Part::operations), many.total(&Part::operations));
  // Keys and values of six layers, 2 x 512 float32 a token.
  EXPECT_EQ(one.total(&Part::decoding_bytes), 6 * 2 * 512 * 4 * (20 + 30));
  EXPECT_THROW(anatomy(base(), {1000, 10001, 20}), InputError);
  EXPECT_THROW(anatomy(base(), {1, 20, 10000001}), InputError);
}

// What torch.utils.flop_counter.FlopCounterMode counts in torch.nn.Transformer of the same shape; there the
// decoder sees the whole square, here what causality leaves of it. Made by tools/count_operations.py.
TEST(Anatomy, OperationsAsPyTorchCountsThem) {
  const Anatomy a = anatomy(base(), {1, 20, 30});
  const PartGroup& encoder = group_named(a, "encoder layer");
  const PartGroup& decoder = group_named(a, "decoder layer");
  const double square = 4.0 * 512 * 30 * 30, seen = 4.0 * 512 * 30 * 31 / 2;
  EXPECT_DOUBLE_EQ(encoder.sum(&Part::operations), 126648320.0);
  EXPECT_DOUBLE_EQ(decoder.sum(&Part::operations) - seen + square, 244244480.0);
  EXPECT_DOUBLE_EQ(group_named(a, "output").sum(&Part::operations), 1136640000.0);
}

}  // namespace
}  // namespace transduce
