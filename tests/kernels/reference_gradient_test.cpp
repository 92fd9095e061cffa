// The scalar reference's backward passes against complex-step derivatives of its forward passes.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/kernels/kernel_cases.h"
#include "tests/kernels/made_up.h"
#include "transduce/kernels/backend.h"

namespace transduce {
namespace {

using kernel_tests::dropout_of;
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

TEST(ReferenceGradient, Rotary) {
  const Tensor positions = Tensor::of<int32_t>({3}, {2, 0, 5}), table = normal({6, 4}, DType::float64, 9);
  Differentiable op{"rotary", {normal({3, 8}, DType::float64, 1)}, {}, {}};
  op.forward = [=](const Tensors& in) {
    Tensor y({3, 8}, in[0].dtype());
    reference().rotary(in[0], positions, table.to(in[0].dtype()), y);
    return y;
  };
  op.backward = [=](const Tensor& dy, const Tensors&, const Tensors& d) {
    reference().rotary_backward(dy, positions, table, d[0]);
  };
  check_gradients(op);
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

}  // namespace
}  // namespace transduce
