// Models with 8-bit weights.

#include "transduce/models/quantize.h"

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/models/made_up_models.h"

namespace transduce {
namespace {

using model_tests::made_model;
using model_tests::made_sequences;
using model_tests::Variant;

class QuantizedModel : public ::testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(Variants, QuantizedModel, ::testing::ValuesIn(model_tests::variants()),
                         [](const auto& variant) { return variant.param.name; });

// Half a step of 1/127 of the row's largest element, in every weight, is what rounding loses.
TEST_P(QuantizedModel, WeightsAreWithinHalfAStep) {
  const Transformer model = made_model(model_tests::config_of(GetParam()), 1);
  const auto small = quantize(model);
  ASSERT_FALSE(small->parameters().int8_parameters().empty());
  for (const Int8Parameter& parameter : small->parameters().int8_parameters()) {
    const Parameter* from = model.parameters().find(parameter.name);
    if (from == nullptr) continue;  // a tied output layer
    const Tensor weight = from->variable.value();
    for (int64_t o = 0; o < weight.dim(0); ++o) {
      const float scale = parameter.matrix->scales.data<float>()[o];
      for (int64_t i = 0; i < weight.dim(1); ++i) {
        EXPECT_NEAR(scale * parameter.matrix->values.row<int8_t>(o)[i], weight.row<float>(o)[i],
                    0.5001f * scale);
      }
    }
  }
  EXPECT_THROW(quantize(*small), InputError);
}

TEST_P(QuantizedModel, SaysNearlyTheSame) {
  const Transformer model = made_model(model_tests::config_of(GetParam()), 1);
  const auto small = quantize(model);
  const NoGradient inference;
  const Tokens source = pack(made_sequences({5, 1, 8}, model.config().source_vocabulary, 2));
  const Tokens target = pack(made_sequences({4, 3, 6}, model.config().target_vocabulary, 3));
  const auto logits = [&](const Transformer& m) {
    return checks::values_of(m.logits(m.forward(source, target)).value());
  };
  const std::vector<double> whole = logits(model), rounded = logits(*small);
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < whole.size(); ++i) {
    difference += (whole[i] - rounded[i]) * (whole[i] - rounded[i]);
    size += whole[i] * whole[i];
  }
  EXPECT_GT(difference, 0.0);
  EXPECT_LT(std::sqrt(difference / size), 0.05) << "a wrong scale or a wrong weight is off by its own size";
}

// Every row is rounded by itself and sums are exact: not one bit depends on the neighbours.
TEST_P(QuantizedModel, NeighboursChangeNothing) {
  const auto small = quantize(made_model(model_tests::config_of(GetParam()), 1));
  const NoGradient inference;
  const auto sources = made_sequences({5, 1, 8, 3}, small->config().source_vocabulary, 2);
  const Tensor together = small->encode(pack(sources)).value();
  const Layout layout = pack(sources).layout;
  for (size_t b = 0; b < sources.size(); ++b) {
    const Tensor alone = small->encode(pack({sources[b]})).value();
    EXPECT_EQ(together.rows(layout.begin[b], layout.begin[b] + layout.length[b]).to_vector<float>(),
              alone.to_vector<float>());
  }
}

TEST_P(QuantizedModel, LikelihoodsAreThoseOfItsLogits) {
  const auto small = quantize(made_model(model_tests::config_of(GetParam()), 1));
  const NoGradient inference;
  const Tokens source = pack(made_sequences({5, 8}, small->config().source_vocabulary, 2));
  const Tokens target = pack(made_sequences({4, 6}, small->config().target_vocabulary, 3));
  const Var decoded = small->forward(source, target);
  const Tensor logits = small->logits(decoded).value();
  const auto loss = small->loss(decoded, target.ids, 0.0);
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    double sum = 0.0;
    for (int64_t v = 0; v < logits.dim(1); ++v) sum += std::exp(static_cast<double>(logits.row<float>(i)[v]));
    const double expected =
        static_cast<double>(logits.row<float>(i)[target.ids.data<int32_t>()[i]]) - std::log(sum);
    EXPECT_NEAR(loss.likelihood.data<float>()[i], expected, 1e-5);
  }
}

}  // namespace
}  // namespace transduce
