// Every gradient of a whole model against complex-step differentiation of its forward pass.

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/models/made_up_models.h"

namespace transduce {
namespace {

using checks::Complex;
using checks::Values;
using checks::values_of;
using model_tests::Variant;

class ModelGradient : public ::testing::TestWithParam<Variant> {
 protected:
  // Smaller yet: every parameter takes a forward pass.
  TransformerConfig config() const {
    TransformerConfig c = model_tests::small_config();
    c.source_vocabulary = 6;
    c.target_vocabulary = 5;
    c.width = 6;
    c.feed_forward = 5;
    c.encoder_layers = c.decoder_layers = 1;
    GetParam().apply(c);
    c.width = std::min<int64_t>(c.width, 9);
    c.max_positions = 5;
    return c;
  }

  void check(const TransformerConfig& c) {
    const UseBackend use(reference_backend());
    const Tokens source = pack(model_tests::made_sequences({3, 1}, c.source_vocabulary, 1));
    const Tokens target = pack(model_tests::made_sequences({2, 4}, c.target_vocabulary, 2));
    const Tensor expected = pack(model_tests::made_sequences({6}, c.target_vocabulary, 3)).ids;
    const auto loss_of = [&](const Transformer& model) {
      const TrainingMode training({5, 8});
      return model.loss(model.forward(source, target), expected, 0.1).sum;
    };
    const Transformer model = model_tests::made_model(c, 4, DType::float64);
    Tape tape;
    tape.backward(loss_of(model));

    const Transformer stepped = model_tests::made_model(c, 4, DType::complex128);
    const NoGradient inference;
    for (const Parameter& p : stepped.parameters().parameters()) {
      const Values by_step = checks::complex_step(p.variable.value(),
                                                  [&] { return checks::first_of(loss_of(stepped).value()); });
      // Some thousand roundings of float64, relative to the parameter's largest gradient or to 1e-3.
      checks::expect_close(values_of(model.parameters().find(p.name)->variable.gradient()), by_step, 1e-12,
                           p.name);
    }
  }
};

TEST_P(ModelGradient, EqualsComplexStep) { check(config()); }

TEST_P(ModelGradient, EqualsComplexStepWithDropout) {
  TransformerConfig c = config();
  c.dropout = 0.1;
  c.attention_dropout = 0.2;
  c.activation_dropout = 0.3;
  check(c);
}

INSTANTIATE_TEST_SUITE_P(Variants, ModelGradient, ::testing::ValuesIn(model_tests::variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace transduce
