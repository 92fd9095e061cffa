// The scalar reference against complex-step derivatives of itself, and against numbers known from elsewhere.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/kernels/kernel_cases.h"
#include "tests/kernels/made_up.h"
#include "transduce/kernels/backend.h"

namespace transduce {
namespace {

using kernel_tests::dropout_of;
using kernel_tests::integers;
using kernel_tests::normal;
using kernel_tests::visibility;
using Tensors = std::vector<Tensor>;

Backend& reference() { return reference_backend(); }

// An op as a function of the tensors that its result is differentiated by.
struct Differentiable {
  std::string name;
  Tensors inputs;  // float64
  // The result, in the dtype of the inputs it is given (float64 or complex128).
  std::function<Tensor(const Tensors& inputs)> forward;
  // Adds to the gradients of the inputs; an empty one is not wanted.
  std::function<void(const Tensor& dy, const Tensors& inputs, const Tensors& gradients)> backward;
  bool sums_result = false;  // the backward takes dy to be 1 everywhere
};

Tensors to_dtype(const Tensors& tensors, DType dtype) {
  Tensors result;
  for (const Tensor& t : tensors) result.push_back(t.to(dtype));
  return result;
}

// The gradient of sum(forward(inputs) * w) for input k, from the imaginary part of a step along the imaginary
// axis.
std::vector<double> complex_step(const Differentiable& op, size_t k, const std::vector<double>& w) {
  constexpr double step = 1e-30;
  const Tensors inputs = to_dtype(op.inputs, DType::complex128);
  std::vector<double> gradient;
  for (int64_t i = 0; i < inputs[k].size(); ++i) {
    std::complex<double>& element = inputs[k].data<std::complex<double>>()[i];
    element += std::complex<double>(0, step);
    const std::vector<std::complex<double>> y = op.forward(inputs).to_vector<std::complex<double>>();
    double sum = 0;
    for (size_t j = 0; j < y.size(); ++j) sum += w[j] * (y[j].imag() / step);
    gradient.push_back(sum);
    element = element.real();
  }
  return gradient;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  // Both sides are float64 sums of at most some hundred terms: 1e-12 is some thousand roundings.
  const double tolerance = 1e-12 * std::max(largest_of(expected), 1e-3);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance) << what << ", element " << i;
  }
}

void check_gradients(const Differentiable& op) {
  const Tensor y = op.forward(op.inputs);
  const Tensor dy =
      normal(y.shape(), DType::float64, 99, op.sums_result ? 0.0 : 1.0, op.sums_result ? 1.0 : 0.0);
  Tensors gradients;
  for (const Tensor& input : op.inputs) gradients.push_back(Tensor::zeros(input.shape(), DType::float64));
  op.backward(dy, op.inputs, gradients);
  std::vector<std::vector<double>> expected;
  for (size_t k = 0; k < gradients.size(); ++k) {
    expected.push_back(complex_step(op, k, dy.to_vector<double>()));
    expect_near(gradients[k].to_vector<double>(), expected[k], op.name + ", input " + std::to_string(k));
    // Wanted alone.
    Tensors alone(gradients.size());
    alone[k] = Tensor::zeros(op.inputs[k].shape(), DType::float64);
    op.backward(dy, op.inputs, alone);
    expect_near(alone[k].to_vector<double>(), expected[k], op.name + ", only input " + std::to_string(k));
  }
  // A second call adds the same once more.
  op.backward(dy, op.inputs, gradients);
  for (size_t k = 0; k < gradients.size(); ++k) {
    for (double& value : expected[k]) value *= 2;
    expect_near(gradients[k].to_vector<double>(), expected[k],
                op.name + ", twice, input " + std::to_string(k));
  }
}

Tensor or_none(const Tensors& tensors, size_t k) { return k < tensors.size() ? tensors[k] : Tensor(); }

TEST(ReferenceGradient, Embedding) {
  const Tensor ids = Tensor::of<int32_t>({5}, {2, 0, 2, 3, 2}),
               positions = Tensor::of<int32_t>({5}, {0, 1, 2, 0, 1});
  for (const bool with_positions : {false, true}) {
    for (const float p : {0.0f, 0.3f}) {
      Differentiable op{
          with_positions ? "with positions" : "plain", {normal({4, 3}, DType::float64, 1)}, {}, {}};
      if (with_positions) op.inputs.push_back(normal({3, 3}, DType::float64, 2));
      op.forward = [=](const Tensors& in) {
        Tensor y({5, 3}, in[0].dtype());
        reference().embedding(ids, in[0], positions, or_none(in, 1), std::sqrt(3.0), dropout_of(p, 5), y);
        return y;
      };
      op.backward = [=](const Tensor& dy, const Tensors&, const Tensors& d) {
        reference().embedding_backward(dy, ids, positions, std::sqrt(3.0), dropout_of(p, 5), d[0],
                                       or_none(d, 1));
      };
      check_gradients(op);
    }
  }
}

TEST(ReferenceGradient, Linear) {
  for (const bool with_bias : {false, true}) {
    // Column ranges of wider matrices: x is columns 2..8 of (5, 9), y columns 1..3 of (5, 6).
    Differentiable op{
        "linear", {normal({5, 9}, DType::float64, 1), normal({3, 7}, DType::float64, 2)}, {}, {}};
    if (with_bias) op.inputs.push_back(normal({3}, DType::float64, 3));
    op.forward = [](const Tensors& in) {
      Tensor y = Tensor::zeros({5, 6}, in[0].dtype());
      reference().linear(in[0].columns(2, 9), in[1], or_none(in, 2), y.columns(1, 4));
      return y;
    };
    op.backward = [](const Tensor& dy, const Tensors& in, const Tensors& d) {
      const Tensor dx = d[0].empty() ? Tensor() : d[0].columns(2, 9);
      reference().linear_backward(dy.columns(1, 4), in[0].columns(2, 9), in[1], dx, d[1], or_none(d, 2));
    };
    check_gradients(op);
  }
}

TEST(ReferenceGradient, Activation) {
  for (const Activation kind : kernel_tests::activations()) {
    for (const float p : {0.0f, 0.4f}) {
      const int64_t width = kind == Activation::swiglu ? 10 : 5;
      Differentiable op{"activation " + std::to_string(static_cast<int>(kind)),
                        {normal({3, width}, DType::float64, 1, 2.0)},
                        {},
                        {}};
      op.forward = [=](const Tensors& in) {
        Tensor y({3, 5}, in[0].dtype());
        reference().activation(in[0], kind, dropout_of(p, 6), y);
        return y;
      };
      op.backward = [=](const Tensor& dy, const Tensors& in, const Tensors& d) {
        reference().activation_backward(dy, in[0], kind, dropout_of(p, 6), d[0]);
      };
      check_gradients(op);
    }
  }
}

TEST(ReferenceGradient, ResidualAndDropout) {
  for (const float p : {0.0f, 0.4f}) {
    Differentiable op{
        "residual", {normal({3, 5}, DType::float64, 1), normal({3, 5}, DType::float64, 2)}, {}, {}};
    op.forward = [=](const Tensors& in) {
      Tensor y({3, 5}, in[0].dtype());
      reference().residual(in[0], in[1], dropout_of(p, 7), y);
      return y;
    };
    op.backward = [=](const Tensor& dy, const Tensors&, const Tensors& d) {
      reference().residual_backward(dy, dropout_of(p, 7), d[0], d[1]);
    };
    check_gradients(op);

    Differentiable alone{"dropout", {normal({3, 5}, DType::float64, 1)}, {}, {}};
    alone.forward = [=](const Tensors& in) {
      Tensor y({3, 5}, in[0].dtype());
      reference().dropout(in[0], dropout_of(p, 7), y);
      return y;
    };
    alone.backward = [=](const Tensor& dy, const Tensors&, const Tensors& d) {
      reference().dropout_backward(dy, dropout_of(p, 7), d[0]);
    };
    check_gradients(alone);
  }
}

// Inputs: x, gain, then the branch and the bias where there are such.
Differentiable residual_norm_op(const NormSpec& norm, bool with_branch, bool with_bias, float p) {
  Differentiable op{
      "norm", {normal({4, 5}, DType::float64, 1), normal({5}, DType::float64, 2, 0.5, 1.0)}, {}, {}};
  if (with_branch) op.inputs.push_back(normal({4, 5}, DType::float64, 3));
  if (with_bias) op.inputs.push_back(normal({5}, DType::float64, 4));
  const Dropout dropout = dropout_of(p, 8);
  const size_t branch_at = with_branch ? 2 : 9, bias_at = with_branch ? 3 : 2;
  op.forward = [=](const Tensors& in) {
    Tensor y({4, 5}, in[0].dtype());
    reference().residual_norm(in[0], or_none(in, branch_at), dropout, in[1], or_none(in, bias_at), norm, {},
                              y, {}, {});
    return y;
  };
  op.backward = [=](const Tensor& dy, const Tensors& in, const Tensors& d) {
    Tensor y({4, 5}, DType::float64), mean({4}, DType::float64), inverse({4}, DType::float64), sum;
    if (with_branch) sum = Tensor({4, 5}, DType::float64);
    reference().residual_norm(in[0], or_none(in, branch_at), dropout, in[1], or_none(in, bias_at), norm, sum,
                              y, mean, inverse);
    reference().residual_norm_backward(dy, with_branch ? sum : in[0], in[1], mean, inverse, norm, dropout,
                                       d[0], or_none(d, branch_at), d[1], or_none(d, bias_at));
  };
  return op;
}

TEST(ReferenceGradient, ResidualNorm) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const bool with_branch : {false, true}) {
      for (const bool with_bias : {false, true}) {
        check_gradients(residual_norm_op({kind, 1e-5}, with_branch, with_bias, with_branch ? 0.3f : 0.0f));
      }
    }
  }
}

// Inputs: q (N, C) and k, v side by side (M, 2C); for self-attention q, k, v side by side (N, 3C).
Differentiable attention_op(const std::string& name, const AttentionSpec& spec, int64_t width, bool self) {
  Differentiable op{name, {}, {}, {}};
  if (self) {
    op.inputs = {normal({spec.queries.rows, 3 * width}, DType::float64, 1)};
  } else {
    op.inputs = {normal({spec.queries.rows, width}, DType::float64, 1),
                 normal({spec.keys.rows, 2 * width}, DType::float64, 2)};
  }
  const auto q_of = [=](const Tensors& t) {
    if (t[0].empty()) return Tensor();
    return self ? t[0].columns(0, width) : t[0];
  };
  // part 0: k, part 1: v
  const auto kv_of = [=](const Tensors& t, int64_t part) {
    if (t.back().empty()) return Tensor();
    const int64_t begin = (part + (self ? 1 : 0)) * width;
    return t.back().columns(begin, begin + width);
  };
  op.forward = [=](const Tensors& in) {
    Tensor y = Tensor::zeros({spec.queries.rows, width}, in[0].dtype());
    reference().attention(q_of(in), kv_of(in, 0), kv_of(in, 1), spec, y, {}, {});
    return y;
  };
  op.backward = [=](const Tensor& dy, const Tensors& in, const Tensors& d) {
    Tensor y = Tensor::zeros({spec.queries.rows, width}, DType::float64);
    Tensor log_sum_exp = Tensor::zeros({spec.heads, spec.queries.rows}, DType::float64);
    reference().attention(q_of(in), kv_of(in, 0), kv_of(in, 1), spec, y, log_sum_exp, {});
    reference().attention_backward(dy, q_of(in), kv_of(in, 0), kv_of(in, 1), y, log_sum_exp, spec, q_of(d),
                                   kv_of(d, 0), kv_of(d, 1));
  };
  return op;
}

TEST(ReferenceGradient, SelfAttention) {
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      for (const float p : {0.0f, 0.3f}) {
        AttentionSpec spec;
        spec.queries = spec.keys = Layout::packed({3, 1, 0, 4});
        spec.heads = 2;
        spec.causal = causal;
        spec.dropout = dropout_of(p, 9);
        if (masked) spec.visible = visibility(spec.block_elements(), 0.5, 3);
        check_gradients(attention_op("self-attention", spec, 6, true));
      }
    }
  }
}

TEST(ReferenceGradient, CrossAttention) {
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      AttentionSpec spec;
      spec.queries = Layout::packed({3, 1, 2, 2, 0});
      spec.keys = Layout::packed({2, 1, 5, 0, 3});
      spec.heads = 3;
      spec.causal = causal;
      spec.dropout = dropout_of(0.2f, 9);
      if (masked) spec.visible = visibility(spec.block_elements(), 0.6, 4);
      check_gradients(attention_op("cross-attention", spec, 3, false));
    }
  }
}

TEST(ReferenceGradient, AttentionInGivenPlaces) {
  AttentionSpec spec;
  spec.queries = Layout::placed({4, 0}, {2, 3}, 7);
  spec.keys = Layout::placed({5, 1}, {3, 4}, 9);
  spec.heads = 2;
  spec.causal = true;
  check_gradients(attention_op("placed", spec, 4, false));
}

TEST(ReferenceGradient, LinearCrossEntropy) {
  const Tensor targets = Tensor::of<int32_t>({5}, {3, 0, 6, 3, 1});
  for (const double smoothing : {0.0, 0.1}) {
    for (const bool with_bias : {false, true}) {
      for (const int64_t chunk_rows : {1, 2, 5, 8}) {
        Differentiable op{
            "cross entropy", {normal({5, 4}, DType::float64, 1), normal({7, 4}, DType::float64, 2)}, {}, {}};
        if (with_bias) op.inputs.push_back(normal({7}, DType::float64, 3));
        op.sums_result = true;
        op.forward = [=](const Tensors& in) {
          Tensor loss({5}, in[0].dtype()), chunk({chunk_rows, 7}, in[0].dtype());
          reference().linear_cross_entropy(in[0], in[1], or_none(in, 2), targets, smoothing, chunk, loss, {},
                                           {}, {}, {}, {});
          return loss;
        };
        op.backward = [=](const Tensor&, const Tensors& in, const Tensors& d) {
          Tensor loss({5}, DType::float64), chunk({chunk_rows, 7}, DType::float64);
          reference().linear_cross_entropy(in[0], in[1], or_none(in, 2), targets, smoothing, chunk, loss, {},
                                           {}, d[0], d[1], or_none(d, 2));
        };
        check_gradients(op);
      }
    }
  }
}

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
