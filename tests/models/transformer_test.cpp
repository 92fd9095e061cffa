// What must hold of a model whatever its parameters: who may see whom, independence of the batch, tying.

#include "transduce/models/transformer.h"

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/kernels/made_up.h"
#include "tests/models/made_up_models.h"
#include "transduce/train/optimizer.h"

namespace transduce {
namespace {

using checks::expect_close;
using checks::expect_equal;
using checks::Values;
using checks::values_of;
using model_tests::kRounding;
using model_tests::made_model;
using model_tests::made_sequences;
using model_tests::Sequences;
using model_tests::small_config;
using model_tests::Variant;

Tensor logits_of(const Transformer& model, const Sequences& sources, const Sequences& targets) {
  return model.logits(model.forward(pack(sources), pack(targets))).value();
}

class AnyTransformer : public ::testing::TestWithParam<Variant> {
 protected:
  TransformerConfig config() const { return model_tests::config_of(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Variants, AnyTransformer, ::testing::ValuesIn(model_tests::variants()),
                         [](const auto& variant) { return variant.param.name; });

// ---- who may see whom ---------------------------------------------------------------------------------

TEST_P(AnyTransformer, ALaterTargetTokenNeverChangesEarlierLogits) {
  const TransformerConfig c = config();
  const Transformer model = made_model(c, 1);
  const Sequences sources = made_sequences({5, 3}, c.source_vocabulary, 2);
  Sequences targets = made_sequences({6, 6}, c.target_vocabulary, 3);
  const Tensor before = logits_of(model, sources, targets);
  for (int64_t t = 0; t < 6; ++t) {
    Sequences changed = targets;
    int32_t& token = changed[0][static_cast<size_t>(t)];
    token = (token + 1) % static_cast<int32_t>(c.target_vocabulary);
    const Tensor after = logits_of(model, sources, changed);
    // Bit for bit: not even a weight of 1e-30 may leak back.
    expect_equal(after.rows(0, t), before.rows(0, t), fmt::format("logits before token {}", t));
    expect_equal(after.rows(6, 12), before.rows(6, 12), "logits of the other sentence");
    EXPECT_NE(after.rows(t, t + 1).to_vector<float>(), before.rows(t, t + 1).to_vector<float>());
  }
}

TEST_P(AnyTransformer, TheEncoderSeesItsWholeSentenceAndNoOther) {
  const TransformerConfig c = config();
  const Transformer model = made_model(c, 1);
  Sequences sources = made_sequences({5, 3}, c.source_vocabulary, 2);
  const Tensor before = model.encode(pack(sources)).value();
  sources[0][4] = (sources[0][4] + 1) % static_cast<int32_t>(c.source_vocabulary);
  const Tensor after = model.encode(pack(sources)).value();
  EXPECT_NE(after.rows(4, 5).to_vector<float>(), before.rows(4, 5).to_vector<float>());
  if (c.encoder_layers > 0) {
    EXPECT_NE(after.rows(0, 1).to_vector<float>(), before.rows(0, 1).to_vector<float>());
  }
  expect_equal(after.rows(5, 8), before.rows(5, 8), "the other sentence");
}

TEST_P(AnyTransformer, ASentenceDoesNotDependOnItsBatch) {
  const TransformerConfig c = config();
  const Transformer model = made_model(c, 1);
  std::vector<int32_t> source_lengths, target_lengths;
  for (int32_t b = 0; b < 20; ++b) {
    source_lengths.push_back(1 + b * 7 % 13);
    target_lengths.push_back(1 + b * 5 % 11);
  }
  const Sequences sources = made_sequences(source_lengths, c.source_vocabulary, 2);
  const Sequences targets = made_sequences(target_lengths, c.target_vocabulary, 3);
  std::vector<Values> alone;
  for (size_t b = 0; b < sources.size(); ++b)
    alone.push_back(values_of(logits_of(model, {sources[b]}, {targets[b]})));

  for (const size_t stride : {1u, 3u, 7u, 19u}) {  // coprime to 20: orders of all sentences
    Sequences some_sources, some_targets;
    for (size_t b = 0; b < 20; ++b) {
      some_sources.push_back(sources[b * stride % 20]);
      some_targets.push_back(targets[b * stride % 20]);
    }
    const Tensor together = logits_of(model, some_sources, some_targets);
    const Layout layout = pack(some_targets).layout;
    for (size_t b = 0; b < 20; ++b) {
      const Tensor rows = together.rows(layout.begin[b], layout.begin[b] + layout.length[b]);
      expect_close(values_of(rows), alone[b * stride % 20], kRounding,
                   fmt::format("sentence {}", b * stride % 20));
    }
  }
}

// ---- attention weights --------------------------------------------------------------------------------

TEST_P(AnyTransformer, WeightsAreProbabilitiesAndAskingChangesNothing) {
  TransformerConfig c = config();
  c.dropout = 0.1;
  c.attention_dropout = 0.5;
  const Transformer model = made_model(c, 1);
  const Tokens source = pack(made_sequences({5, 1, 8}, c.source_vocabulary, 2));
  const Tokens target = pack(made_sequences({4, 6, 1}, c.target_vocabulary, 3));
  const auto run = [&](AttentionWeights* weights) {
    const TrainingMode training({3, 4});
    return model.decode(target, model.encode(source, weights), source.layout, weights).value();
  };
  AttentionWeights weights;
  const Tensor with = run(&weights), without = run(nullptr);
  expect_equal(with, without, "the result with and without weights");
  EXPECT_EQ(weights.encoder.size(), static_cast<size_t>(c.encoder_layers));
  EXPECT_EQ(weights.decoder.size(), static_cast<size_t>(c.decoder_layers));
  EXPECT_EQ(weights.cross.size(), static_cast<size_t>(c.decoder_layers));

  const auto expect_rows = [&](const std::vector<Tensor>& layers, const Layout& queries, const Layout& keys,
                               bool causal) {
    for (const Tensor& layer : layers) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const float* at = layer.row<float>(h);
        for (size_t b = 0; b < queries.length.size(); ++b) {
          for (int32_t t = 0; t < queries.length[b]; ++t, at += keys.length[b]) {
            double sum = 0.0;
            for (int32_t s = 0; s < keys.length[b]; ++s) {
              EXPECT_GE(at[s], 0.0f);
              if (causal && s > t) {
                EXPECT_EQ(at[s], 0.0f);
              }
              sum += static_cast<double>(at[s]);
            }
            EXPECT_NEAR(sum, 1.0, 1e-6) << "before dropout, whatever its probability";
          }
        }
      }
    }
  };
  expect_rows(weights.encoder, source.layout, source.layout, false);
  expect_rows(weights.decoder, target.layout, target.layout, true);
  expect_rows(weights.cross, target.layout, source.layout, false);
}

// A row that may see nothing attends to nothing: zeros, and finite gradients everywhere.
TEST(FullyMaskedRows, GiveZerosAndFiniteGradients) {
  constexpr int64_t rows = 5, width = 12;
  ParameterSet parameters;
  const SelfAttention attention(Scope(parameters), {width, 3, 0.2f});
  parameters.allocate();
  model_tests::randomise(parameters, 1);
  // Rows that see nothing then give the output layer's bias alone, which is not 0.
  const Tensor bias = parameters.find("output.bias")->variable.value();
  const Var x(kernel_tests::normal({rows, width}, DType::float32, 2), true);
  AttentionContext context;
  context.queries = context.keys = Layout::packed({2, 3});
  // Blocks 2 x 2 and 3 x 3: rows 1 and 3 see nothing; no row sees x[4].
  context.visible = Tensor::of<uint8_t>({13}, {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0});
  Tensor plain;
  for (const bool asked : {false, true}) {
    std::vector<Tensor> weights;
    context.weights = asked ? &weights : nullptr;
    const TrainingMode training({1, 1});
    Tape tape;
    parameters.gradients().fill_zero();
    x.clear_gradient();
    const Var y = attention(x, context);
    for (const int64_t row : {1, 3})
      expect_equal(y.value().rows(row, row + 1).flat(0, width), bias, "a row that sees nothing");
    tape.backward(checks::weighted_sum(y, kernel_tests::normal({rows, width}, DType::float32, 3)));
    for (const double value : values_of(y.value())) EXPECT_TRUE(std::isfinite(value));
    for (const double value : values_of(x.gradient())) EXPECT_TRUE(std::isfinite(value));
    for (const double value : values_of(parameters.gradients())) EXPECT_TRUE(std::isfinite(value));
    if (!asked) {
      plain = y.value();
    } else {
      expect_equal(y.value(), plain, "with weights asked for");
      for (int64_t h = 0; h < 3; ++h) {
        const Values row = values_of(weights.at(0).rows(h, h + 1));
        for (const size_t place : {2u, 3u, 7u, 8u, 9u}) EXPECT_EQ(row[place], 0.0) << "head " << h;
        EXPECT_NEAR(row[0] + row[1], 1.0, 1e-6);
      }
    }
  }
}

// ---- tying --------------------------------------------------------------------------------------------

// With all embeddings tied, source, target and output are one matrix: before and after an update.
TEST(TiedEmbeddings, StayTiedAfterAnUpdate) {
  TransformerConfig c = small_config();
  c.tie = Tie::all;
  c.source_vocabulary = c.target_vocabulary;
  c.encoder_layers = 0;  // the encoder's output is the scaled embedding and the position
  Transformer model = made_model(c, 1);
  const Tokens source = pack(made_sequences({4}, c.source_vocabulary, 2)),
               target = pack(made_sequences({3}, 9, 3));
  const Tensor expected = pack(made_sequences({3}, c.target_vocabulary, 4)).ids;
  Optimizer optimizer(model.parameters(), {});
  const Tensor table = model.parameters().find("shared_embedding.weight")->variable.value();
  EXPECT_EQ(model.parameters().find("output.weight"), nullptr);
  EXPECT_EQ(model.parameters().find("source_embedding.weight"), nullptr);

  for (int update = 0; update < 2; ++update) {
    const Tensor encoded = model.encode(source).value();
    const Tensor positions = sinusoid_table(4, c.width, DType::float64);
    for (int64_t t = 0; t < 4; ++t) {
      for (int64_t k = 0; k < c.width; ++k) {
        const double weight = static_cast<double>(table.row<float>(source.ids.data<int32_t>()[t])[k]);
        const double sum = weight * std::sqrt(static_cast<double>(c.width)) + positions.row<double>(t)[k];
        EXPECT_NEAR(static_cast<double>(encoded.row<float>(t)[k]), sum, 1e-6);
      }
    }
    const Var decoded = model.decode(target, Var(encoded), source.layout);
    const Tensor logits = model.logits(decoded).value();
    for (int64_t v = 0; v < c.target_vocabulary; ++v) {
      double dot = 0.0;
      for (int64_t k = 0; k < c.width; ++k) {
        dot += static_cast<double>(decoded.value().row<float>(2)[k]) *
               static_cast<double>(table.row<float>(v)[k]);
      }
      EXPECT_NEAR(static_cast<double>(logits.row<float>(2)[v]), dot, 1e-5);
    }
    const std::vector<float> before = table.to_vector<float>();
    Tape tape;
    tape.backward(model.loss(model.forward(source, target), expected, 0.1).sum);
    EXPECT_TRUE(optimizer.step(1e-2, 1.0).applied);
    EXPECT_NE(table.to_vector<float>(), before);
  }
}

TEST(TransformerTest, GradientsOfAStepGiveTheirMemoryBack) {
  TransformerConfig c = small_config();
  c.dropout = 0.1;
  const Transformer model = made_model(c, 1);
  const Tokens source = pack(made_sequences({7, 3}, c.source_vocabulary, 2));
  const Tokens target = pack(made_sequences({5, 6}, c.target_vocabulary, 3));
  const Tensor expected = pack(made_sequences({11}, c.target_vocabulary, 4)).ids;
  const auto step = [&] {
    const TrainingMode training({1, 1});
    Tape tape;
    tape.backward(model.loss(model.forward(source, target), expected, 0.1).sum);
  };
  // The table of sinusoids stays, and it takes a few steps until every size has its block.
  for (int i = 0; i < 5; ++i) step();
  const size_t before = Arena::instance().statistics().in_use, held = Arena::instance().statistics().held;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(Arena::instance().statistics().in_use, before);
  EXPECT_EQ(Arena::instance().statistics().held, held);
}

TEST(TransformerTest, LearnedPositionsEndWithAMessage) {
  TransformerConfig c = small_config();
  c.positions = PositionKind::learned;
  c.max_positions = 4;
  const Transformer model = made_model(c, 1);
  EXPECT_NO_THROW(model.encode(pack(made_sequences({4}, c.source_vocabulary, 2))));
  EXPECT_THROW(model.encode(pack(made_sequences({5}, c.source_vocabulary, 2))), InputError);
}

TEST(TransformerTest, IdsOutsideOfTheVocabularyAreRefused) {
  const Transformer model = made_model(small_config(), 1);
  EXPECT_THROW(model.encode(pack({{0, 11}})), InputError);
  EXPECT_THROW(model.encode(pack({{-1}})), InputError);
}

TEST(TransformerTest, AnEmptyBatchIsNoTrouble) {
  const Transformer model = made_model(small_config(), 1);
  EXPECT_EQ(model.logits(model.forward(pack({}), pack({}))).shape(), (Shape{0, 9}));
  const Tensor alone = model.logits(model.forward(pack({{}, {1, 2}}), pack({{3}, {4}}))).value();
  for (const double value : values_of(alone)) EXPECT_TRUE(std::isfinite(value)) << "a source without tokens";
}

}  // namespace
}  // namespace transduce
