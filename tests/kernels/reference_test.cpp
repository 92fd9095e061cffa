// The scalar reference against numbers known from elsewhere, and at its edges.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/kernel_cases.h"
#include "tests/kernels/made_up.h"
#include "transduce/kernels/backend.h"

namespace transduce {
namespace {

using kernel_tests::dropout_of;
using kernel_tests::integers;
using kernel_tests::normal;

Backend& reference() { return reference_backend(); }

// What backend.h says of dropout, word by word, and the share that is dropped.
TEST(ReferenceDropout, DropsByTheRandomWord) {
  const Dropout dropout = dropout_of(0.3f, 11);
  const Tensor x = normal({100, 100}, DType::float64, 1);
  Tensor y({100, 100}, DType::float64);
  reference().dropout(x, dropout, y);
  int dropped = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const bool drop = random_word(dropout.key, static_cast<uint64_t>(i)) < 0.3f * 4294967296.0;
    EXPECT_EQ(y.data<double>()[i], drop ? 0.0 : x.data<double>()[i] * (1 / (1 - double{0.3f})));
    dropped += drop;
  }
  // The deviation of the binomial distribution is 46.
  EXPECT_NEAR(dropped, 3000, 5 * 46);
}

TEST(ReferenceLinearActivation, EqualsLinearThenActivation) {
  const Tensor x = normal({4, 5}, DType::float64, 1), weight = normal({6, 5}, DType::float64, 2);
  const Tensor bias = normal({6}, DType::float64, 3);
  const Dropout dropout = dropout_of(0.3f, 4);
  for (const Activation kind : kernel_tests::activations()) {
    const int64_t width = kind == Activation::swiglu ? 3 : 6;
    Tensor pre({4, 6}, DType::float64), y({4, width}, DType::float64), fused_pre = pre.clone(),
                                                                       fused = y.clone();
    reference().linear(x, weight, bias, pre);
    reference().activation(pre, kind, dropout, y);
    reference().linear_activation(x, weight, bias, kind, dropout, fused_pre, fused);
    EXPECT_EQ(fused_pre.to_vector<double>(), pre.to_vector<double>());
    EXPECT_EQ(fused.to_vector<double>(), y.to_vector<double>());
    if (kind == Activation::none || kind == Activation::swiglu) continue;
    fused.fill_zero();
    reference().linear_activation(x, weight, bias, kind, dropout, {}, fused);
    EXPECT_EQ(fused.to_vector<double>(), y.to_vector<double>());
  }
}

// Known values: the normal distribution's table, 1 / (1 + e^-1), and
// torch.nn.functional.gelu(approximate="tanh").
TEST(ReferenceActivation, KnownValues) {
  const Tensor one = Tensor::of<double>({1, 1}, {1.0}), minus = Tensor::of<double>({1, 1}, {-1.0});
  const auto at = [](const Tensor& x, Activation kind) {
    Tensor y({1, 1}, DType::float64);
    reference().activation(x, kind, {}, y);
    return y.data<double>()[0];
  };
  EXPECT_NEAR(at(one, Activation::gelu), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(at(minus, Activation::gelu), -0.15865525393145707, 1e-15);
  EXPECT_NEAR(at(one, Activation::gelu_tanh), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(at(one, Activation::swish), 0.7310585786300049, 1e-15);
  EXPECT_EQ(at(minus, Activation::relu), 0.0);
  EXPECT_EQ(at(one, Activation::relu), 1.0);
}

TEST(ReferenceNorm, KnownValues) {
  const Tensor x = Tensor::of<double>({1, 4}, {1, 2, 3, 6}), gain = Tensor::of<double>({4}, {1, 1, 1, 1});
  Tensor y({1, 4}, DType::float64), mean({1}, DType::float64), inverse({1}, DType::float64);
  reference().residual_norm(x, {}, {}, gain, {}, {NormKind::layer, 1e-12}, {}, y, mean, inverse);
  // Mean 3, biased variance 14 / 4.
  const double deviation = std::sqrt(3.5);
  const std::vector<double> expected = {-2 / deviation, -1 / deviation, 0, 3 / deviation};
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(y.data<double>()[c], expected[c], 1e-11);
  EXPECT_NEAR(y.data<double>()[0], -1.069, 5e-4);
  EXPECT_NEAR(y.data<double>()[1], -0.535, 5e-4);
  EXPECT_NEAR(y.data<double>()[3], 1.604, 5e-4);
  EXPECT_NEAR(mean.data<double>()[0], 3.0, 1e-15);

  reference().residual_norm(x, {}, {}, gain, {}, {NormKind::rms, 1e-12}, {}, y, mean, inverse);
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(y.data<double>()[c], x.data<double>()[c] / std::sqrt(12.5), 1e-11);
  EXPECT_EQ(mean.data<double>()[0], 0.0);
}

TEST(ReferenceNorm, SumMayBeTheResultItself) {
  const Tensor x = normal({3, 5}, DType::float64, 1), branch = normal({3, 5}, DType::float64, 2);
  const Tensor gain = normal({5}, DType::float64, 3);
  Tensor y({3, 5}, DType::float64), sum({3, 5}, DType::float64), shared({3, 5}, DType::float64);
  reference().residual_norm(x, branch, {}, gain, {}, {}, sum, y, {}, {});
  reference().residual_norm(x, branch, {}, gain, {}, {}, shared, shared, {}, {});
  EXPECT_EQ(shared.to_vector<double>(), y.to_vector<double>());
}

TEST(ReferenceAttention, WeightsSumToOneAndDoNotIncludeDropout) {
  AttentionSpec spec;
  spec.queries = Layout::packed({3, 1, 2});
  spec.keys = Layout::packed({4, 2, 5});
  spec.heads = 2;
  const Tensor q = normal({6, 4}, DType::float64, 1), k = normal({11, 4}, DType::float64, 2);
  const Tensor v = normal({11, 4}, DType::float64, 3);
  Tensor out({6, 4}, DType::float64), plain({2, spec.block_elements()}, DType::float64),
      dropped = plain.clone();
  reference().attention(q, k, v, spec, out, {}, plain);
  spec.dropout = dropout_of(0.5f, 1);
  reference().attention(q, k, v, spec, out, {}, dropped);
  EXPECT_EQ(plain.to_vector<double>(), dropped.to_vector<double>());
  const double* weight = plain.data<double>();
  for (int64_t h = 0; h < 2; ++h) {
    for (size_t b = 0; b < 3; ++b) {
      for (int32_t t = 0; t < spec.queries.length[b]; ++t) {
        double sum = 0;
        for (int32_t s = 0; s < spec.keys.length[b]; ++s) sum += *weight++;
        EXPECT_NEAR(sum, 1.0, 1e-14);
      }
    }
  }
}

// The last query sees all keys, the one before all but the last, whatever the lengths.
TEST(ReferenceAttention, CausalIsAlignedToTheLastKey) {
  AttentionSpec spec;
  spec.queries = Layout::packed({2, 3, 1});
  spec.keys = Layout::packed({4, 2, 3});
  spec.causal = true;
  const Tensor q = normal({6, 3}, DType::float64, 1), k = normal({9, 3}, DType::float64, 2);
  Tensor out({6, 3}, DType::float64), weights({1, spec.block_elements()}, DType::float64);
  reference().attention(q, k, k, spec, out, {}, weights);
  const std::vector<int> seen = {1, 1, 1, 0, 1, 1, 1, 1, /**/ 0, 0, 1, 0, 1, 1, /**/ 1, 1, 1};
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(weights.data<double>()[i] > 0, seen[i] == 1) << i;
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(out.row<double>(2)[c], 0.0) << "the first of 3 queries sees none of 2 keys";
}

TEST(ReferenceAttention, RowThatSeesNothing) {
  AttentionSpec spec;
  spec.queries = spec.keys = Layout::packed({2});
  spec.visible = Tensor::of<uint8_t>({4}, {0, 0, 1, 0});
  const Tensor x = normal({2, 3}, DType::float64, 1);
  Tensor out = normal({2, 3}, DType::float64, 2), log_sum_exp({1, 2}, DType::float64),
         weights({1, 4}, DType::float64);
  reference().attention(x, x, x, spec, out, log_sum_exp, weights);
  EXPECT_EQ(log_sum_exp.data<double>()[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(weights.to_vector<double>(), (std::vector<double>{0, 0, 1, 0}));
  const Tensor dq = Tensor::zeros({2, 3}, DType::float64), dk = dq.clone(), dv = dq.clone();
  reference().attention_backward(x, x, x, x, out, log_sum_exp, spec, dq, dk, dv);
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(out.row<double>(0)[c], 0.0);
    EXPECT_EQ(out.row<double>(1)[c], x.row<double>(0)[c]);
    EXPECT_EQ(dq.row<double>(0)[c], 0.0);
    EXPECT_EQ(dk.row<double>(1)[c], 0.0);
    EXPECT_EQ(dv.row<double>(1)[c], 0.0);
    EXPECT_EQ(dv.row<double>(0)[c], x.row<double>(1)[c]);
  }
}

// Several sequences may read the same keys (beams over one source); rows of no sequence are left alone.
TEST(ReferenceAttention, SharedKeysAndUntouchedRows) {
  AttentionSpec spec;
  spec.queries = Layout::placed({0, 3}, {1, 1}, 4);
  spec.keys = Layout::placed({1, 1}, {3, 3}, 5);
  const Tensor k = normal({5, 4}, DType::float64, 1), q = normal({4, 4}, DType::float64, 2);
  q.rows(3, 4).copy_from(q.rows(0, 1));
  Tensor out = normal({4, 4}, DType::float64, 3);
  const std::vector<double> before = out.rows(1, 3).to_vector<double>();
  reference().attention(q, k, k, spec, out, {}, {});
  EXPECT_EQ(out.rows(1, 3).to_vector<double>(), before);
  EXPECT_EQ(out.rows(0, 1).to_vector<double>(), out.rows(3, 4).to_vector<double>());
}

// With equal logits every word has the probability 1 / V, and smoothing changes nothing.
TEST(ReferenceCrossEntropy, EqualLogits) {
  const Tensor x = normal({3, 2}, DType::float64, 1), weight = Tensor::zeros({10, 2}, DType::float64);
  const Tensor targets = integers({3}, 10, 2);
  Tensor chunk({2, 10}, DType::float64), loss({3}, DType::float64), likelihood({3}, DType::float64);
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    reference().linear_cross_entropy(x, weight, {}, targets, smoothing, chunk, loss, likelihood, {}, {}, {},
                                     {});
    for (const double value : loss.to_vector<double>()) EXPECT_NEAR(value, std::log(10.0), 1e-14);
    for (const double value : likelihood.to_vector<double>()) EXPECT_NEAR(value, -std::log(10.0), 1e-14);
  }
}

TEST(ReferenceCrossEntropy, LargeLogitsAndArgmax) {
  const Tensor x = Tensor::of<double>({1, 1}, {1.0}),
               weight = Tensor::of<double>({3, 1}, {-2000, 2000, 1999});
  Tensor chunk({1, 3}, DType::float64), loss({1}, DType::float64), best({1}, DType::int32);
  reference().linear_cross_entropy(x, weight, {}, Tensor::of<int32_t>({1}, {1}), 0.0, chunk, loss, {}, best,
                                   {}, {}, {});
  EXPECT_NEAR(loss.data<double>()[0], std::log1p(std::exp(-1.0)), 1e-12);
  EXPECT_EQ(best.data<int32_t>()[0], 1);
}

// The recurrence of the pages of torch.optim.Adam and torch.optim.AdamW, one number at a time.
TEST(ReferenceAdam, FollowsTheRecurrence) {
  for (const bool decoupled : {false, true}) {
    const double rate = 0.1, beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, decay = 0.05, gradient_scale = 0.5;
    const std::vector<double> gradients = {0.3, -1.2, 0.7, 2.5};
    double theta = 1.5, m = 0, v = 0;
    Tensor parameter = Tensor::of<double>({1}, {theta}), first = Tensor::zeros({1}, DType::float64);
    Tensor second = first.clone();
    for (int t = 1; t <= 4; ++t) {
      AdamSpec spec{rate, beta1, beta2, epsilon, decay, decoupled, t, gradient_scale};
      reference().adam(spec, Tensor::of<double>({1}, {gradients[t - 1]}), parameter, first, second);
      double g = gradient_scale * gradients[t - 1];
      if (decoupled) theta = theta - rate * decay * theta;
      if (!decoupled) g = g + decay * theta;
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      theta =
          theta - rate * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + epsilon);
      EXPECT_NEAR(parameter.data<double>()[0], theta, 1e-14) << "step " << t;
      EXPECT_NEAR(first.data<double>()[0], m, 1e-15);
      EXPECT_NEAR(second.data<double>()[0], v, 1e-15);
    }
  }
}

// The first step goes by the learning rate against the sign of the gradient, whatever its size.
TEST(ReferenceAdam, FirstStepIsTheLearningRate) {
  Tensor parameter = Tensor::zeros({3}, DType::float64), first = parameter.clone(),
         second = parameter.clone();
  reference().adam({}, Tensor::of<double>({3}, {1e3, -1e-3, 0.0}), parameter, first, second);
  EXPECT_NEAR(parameter.data<double>()[0], -1e-3, 1e-13);
  EXPECT_NEAR(parameter.data<double>()[1], 1e-3, 1e-7);
  EXPECT_EQ(parameter.data<double>()[2], 0.0);
}

TEST(ReferenceFlat, AccumulateAndSumOfSquares) {
  const Tensor x = Tensor::of<float>({3}, {1, 2, 3}), y = Tensor::of<float>({3}, {10, 20, 30});
  reference().accumulate(-0.5, x, y);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{9.5, 19, 28.5}));
  EXPECT_EQ(reference().sum_of_squares(x), 14.0);
}

TEST(ReferenceComplex, HasNoBackward) {
  const Tensor x = Tensor::zeros({2, 2}, DType::complex128), flat = Tensor::zeros({2}, DType::complex128);
  EXPECT_THROW(reference().linear_backward(x, x, x, x, x, flat), std::logic_error);
  EXPECT_THROW(reference().adam({}, flat, flat, flat, flat), std::logic_error);
  EXPECT_THROW(reference().linear(x, x, {}, Tensor::zeros({2, 2}, DType::int32)), std::logic_error);
  EXPECT_THROW(reference().linear_cross_entropy(x, x, {}, integers({2}, 2, 1), 0.0, x.clone(), flat, {}, {},
                                                x, {}, {}),
               std::logic_error);
}

// The harness that compares the fast kernels with the reference, tried on the reference's own float32.
class ReferenceFloat32 : public ::testing::TestWithParam<kernel_tests::KernelFamily> {};

TEST_P(ReferenceFloat32, AgreesWithFloat64) {
  kernel_tests::compare_backends(reference(), reference(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kernels, ReferenceFloat32, ::testing::ValuesIn(kernel_tests::kernel_families()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace transduce
