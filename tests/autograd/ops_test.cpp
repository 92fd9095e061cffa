// Every op of the table (op_cases.h): its gradient against complex-step derivatives, its result and gradient
// against plain loops on both backends, fused ops against what they are made of.

#include <gtest/gtest.h>

#include "tests/autograd/op_cases.h"
#include "tests/kernels/made_up.h"

namespace transduce::op_tests {
namespace {

using checks::expect_close;
using checks::roundoff32;
using checks::Values;
using checks::values_of;
using checks::weighted_sum;
using Vars = std::vector<Var>;
using Op = std::function<Var(const Vars&)>;

constexpr RandomKey kKey{2017, 6};  // of every dropout mask

struct Outcome {
  Values y;
  std::vector<Values> gradients;  // one a leaf; empty for an absent one
};

Vars leaves_of(const OpCase& c, DType dtype) {
  Vars leaves;
  for (const Tensor& t : c.leaves) leaves.push_back(t.empty() ? Var() : Var(t.to(dtype), true));
  return leaves;
}

// The gradient that flows into a result.
Tensor upstream(const Shape& shape) { return kernel_tests::normal(shape, DType::float64, 99); }

// One forward and backward pass; gradients are added to those of the leaves.
Values pass(const Op& op, const Vars& leaves) {
  const TrainingMode training(kKey);
  Tape tape;
  const Var y = op(leaves);
  tape.backward(weighted_sum(y, upstream(y.shape())));
  return values_of(y.value());
}

Outcome run(const Op& op, const OpCase& c, DType dtype) {
  const Vars leaves = leaves_of(c, dtype);
  Outcome outcome;
  outcome.y = pass(op, leaves);
  for (const Var& leaf : leaves) outcome.gradients.push_back(leaf ? values_of(leaf.gradient()) : Values());
  return outcome;
}

Grid grid_of(const Tensor& t) {
  if (t.empty()) return {};
  Grid grid = t.rank() == 1 ? Grid(1, t.dim(0)) : Grid(t.dim(0), t.dim(1));
  grid.values = t.to_vector<Complex>();
  return grid;
}

// The outcome of the plain loops; their gradient by complex steps.
Outcome run_plain(const OpCase& c) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : c.leaves) inputs.push_back(t.empty() ? Tensor() : t.to(DType::complex128));
  const auto forward = [&] {
    const TrainingMode training(kKey);
    std::vector<Grid> grids;
    for (const Tensor& t : inputs) grids.push_back(grid_of(t));
    return c.plain(grids).values;
  };
  Outcome outcome;
  const std::vector<Complex> y = forward();
  for (const Complex& value : y) outcome.y.push_back(value.real());
  const UseBackend use(reference_backend());
  const bool is_loss = c.op(leaves_of(c, DType::float64)).value().rank() == 1;
  const auto size = static_cast<int64_t>(y.size());
  const Values w = values_of(upstream(is_loss ? Shape{1} : Shape{1, size}));
  for (const Tensor& input : inputs) {
    outcome.gradients.push_back(input.empty() ? Values() : checks::complex_step(input, [&] {
      Complex sum = 0.0;
      const std::vector<Complex> stepped = forward();
      for (size_t i = 0; i < stepped.size(); ++i) sum += stepped[i] * w[i];
      return sum;
    }));
  }
  return outcome;
}

// The longest sum in a case: an axis of a leaf.
double terms_of(const OpCase& c) {
  int64_t longest = 1;
  for (const Tensor& t : c.leaves) {
    for (const int64_t size : t.shape()) longest = std::max(longest, size);
  }
  return static_cast<double>(longest);
}

// float64: some thousand roundings. float32: n independent roundings make about sqrt(n) u; there and back,
// twice the longest sum and twenty for the rest; 4 for the largest of many; errors relative to the largest
// element or to 1, the size of the inputs.
double tolerance_of(const OpCase& c, DType dtype) {
  const double exact = dtype == DType::float64 ? 1e-12 : 4 * roundoff32 * std::sqrt(2 * terms_of(c) + 20);
  return exact * c.condition;
}

void expect_same(const Outcome& got, const Outcome& expected, double tolerance, const std::string& what) {
  EXPECT_LE(checks::relative_error(got.y, expected.y, 1.0), tolerance) << what;
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_LE(checks::relative_error(got.gradients[i], expected.gradients[i], 1.0), tolerance)
        << what << ", gradient of input " << i;
  }
}

class OpTable : public ::testing::TestWithParam<OpRow> {};

TEST_P(OpTable, GradientEqualsComplexStepThroughTheSameOp) {
  const UseBackend use(reference_backend());
  for (const OpCase& c : GetParam().cases()) {
    const Outcome got = run(c.op, c, DType::float64);
    const Vars stepped = leaves_of(c, DType::complex128);
    for (size_t i = 0; i < stepped.size(); ++i) {
      if (!stepped[i]) continue;
      const Values expected = checks::complex_step(stepped[i].value(), [&] {
        const TrainingMode training(kKey);
        const Var y = c.op(stepped);
        return checks::first_of(weighted_sum(y, upstream(y.shape())).value());
      });
      EXPECT_LE(checks::relative_error(got.gradients[i], expected, 1.0), 1e-12 * c.condition)
          << c.name << ", gradient of input " << i;
    }
  }
}

TEST_P(OpTable, EqualsPlainLoops) {
  for (const OpCase& c : GetParam().cases()) {
    const Outcome expected = run_plain(c);
    {
      const UseBackend use(reference_backend());
      expect_same(run(c.op, c, DType::float64), expected, tolerance_of(c, DType::float64),
                  c.name + " float64");
    }
    expect_same(run(c.op, c, DType::float32), expected, tolerance_of(c, DType::float32), c.name + " float32");
  }
}

TEST_P(OpTable, FusedEqualsComposed) {
  for (const OpCase& c : GetParam().cases()) {
    if (!c.composed) continue;
    {
      const UseBackend use(reference_backend());
      expect_same(run(c.op, c, DType::float64), run(c.composed, c, DType::float64),
                  tolerance_of(c, DType::float64), c.name + " float64");
    }
    expect_same(run(c.op, c, DType::float32), run(c.composed, c, DType::float32),
                tolerance_of(c, DType::float32), c.name + " float32");
  }
}

TEST_P(OpTable, BackwardAccumulates) {
  for (const OpCase& c : GetParam().cases()) {
    const Outcome once = run(c.op, c, DType::float32);
    const Vars leaves = leaves_of(c, DType::float32);
    pass(c.op, leaves);
    pass(c.op, leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
      Values doubled = once.gradients[i];
      for (double& value : doubled) value *= 2;
      if (leaves[i]) {
        EXPECT_LE(checks::relative_error(values_of(leaves[i].gradient()), doubled, 1.0),
                  tolerance_of(c, DType::float32))
            << c.name;
      }
    }
  }
}

// A gradient is left out where it is not wanted, and the others do not change for it.
TEST_P(OpTable, OneGradientAloneEqualsAllTogether) {
  for (const OpCase& c : GetParam().cases()) {
    const Outcome all = run(c.op, c, DType::float32);
    for (size_t wanted = 0; wanted < c.leaves.size(); ++wanted) {
      if (c.leaves[wanted].empty()) continue;
      Vars leaves = leaves_of(c, DType::float32);
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (leaves[i] && i != wanted) leaves[i] = Var(leaves[i].value());
      }
      pass(c.op, leaves);
      EXPECT_LE(checks::relative_error(values_of(leaves[wanted].gradient()), all.gradients[wanted], 1.0),
                tolerance_of(c, DType::float32))
          << c.name << ", input " << wanted;
      for (size_t i = 0; i < leaves.size(); ++i) EXPECT_EQ(leaves[i].has_gradient(), i == wanted) << c.name;
    }
  }
}

TEST_P(OpTable, RecordsNothingWithoutGradients) {
  for (const OpCase& c : GetParam().cases()) {
    const Vars leaves = leaves_of(c, DType::float32);
    const Values expected = values_of([&] {
      const TrainingMode training(kKey);
      Tape tape;
      return c.op(leaves).value();
    }());
    const auto expect_unrecorded = [&](const char* how) {
      const TrainingMode training(kKey);
      const Var y = c.op(leaves);
      EXPECT_FALSE(y.needs_gradient()) << c.name << ' ' << how;
      EXPECT_LE(checks::relative_error(values_of(y.value()), expected, 1.0), tolerance_of(c, DType::float32))
          << c.name << ' ' << how;
    };
    expect_unrecorded("without a tape");
    Tape tape;
    const NoGradient pause;
    expect_unrecorded("under NoGradient");
  }
}

TEST_P(OpTable, GivesItsMemoryBack) {
  for (const OpCase& c : GetParam().cases()) {
    const Vars leaves = leaves_of(c, DType::float32);
    pass(c.op, leaves);  // from now on the leaves have their gradients
    const size_t before = Arena::instance().statistics().in_use;
    pass(c.op, leaves);
    EXPECT_EQ(Arena::instance().statistics().in_use, before) << c.name << " after a backward pass";
    {
      Tape tape;  // recorded, but never run backward
      c.op(leaves);
    }
    EXPECT_EQ(Arena::instance().statistics().in_use, before) << c.name << " after a tape without backward";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, ::testing::ValuesIn(op_table()),
                         [](const auto& row) { return row.param.name; });

// ---- the loss, more closely ---------------------------------------------------------------------------

// The vocabulary is so large that the rows are done in several chunks.
TEST(LinearCrossEntropy, ChunksEqualTheWhole) {
  constexpr int64_t rows = 700, width = 3, vocabulary = 20001;  // in several chunks, the last one short
  const Tensor targets = kernel_tests::integers({rows}, vocabulary, 3);
  const Tensor x64 = kernel_tests::normal({rows, width}, DType::float64, 1);
  const Tensor weight64 = kernel_tests::normal({vocabulary, width}, DType::float64, 2);

  // d loss / d logits = softmax - the target's distribution, summed up in float64.
  Values dx(rows * width), dweight(vocabulary * width);
  double loss = 0.0;
  Values likelihood;
  std::vector<int32_t> best;
  for (int64_t i = 0; i < rows; ++i) {
    Values logit(vocabulary);
    double total = 0.0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      for (int64_t c = 0; c < width; ++c)
        logit[static_cast<size_t>(v)] += x64.row<double>(i)[c] * weight64.row<double>(v)[c];
      total += std::exp(logit[static_cast<size_t>(v)]);
    }
    const auto target = static_cast<size_t>(targets.data<int32_t>()[i]);
    likelihood.push_back(logit[target] - std::log(total));
    best.push_back(static_cast<int32_t>(std::max_element(logit.begin(), logit.end()) - logit.begin()));
    loss -= likelihood.back();
    for (int64_t v = 0; v < vocabulary; ++v) {
      const auto k = static_cast<size_t>(v);
      const double dlogit = std::exp(logit[k]) / total - (k == target ? 1.0 : 0.0);
      for (int64_t c = 0; c < width; ++c) {
        dx[static_cast<size_t>(i * width + c)] += dlogit * weight64.row<double>(v)[c];
        dweight[static_cast<size_t>(v * width + c)] += dlogit * x64.row<double>(i)[c];
      }
    }
  }

  const Var x(x64.to(DType::float32), true), weight(weight64.to(DType::float32), true);
  Tape tape;
  const size_t before = Arena::instance().statistics().in_use;
  Arena::instance().reset_peak();
  const ops::CrossEntropy got = ops::linear_cross_entropy(x, weight, Var(), targets, 0.0);
  EXPECT_LT(Arena::instance().statistics().peak - before, size_t{rows * vocabulary * 4})
      << "(N, V) was in memory";
  tape.backward(got.sum);
  const double tolerance = 4 * roundoff32 * std::sqrt(2.0 * vocabulary);
  EXPECT_NEAR(got.total, loss, tolerance * loss);
  expect_close(values_of(got.likelihood), likelihood, tolerance, "likelihood");
  EXPECT_EQ(got.best.to_vector<int32_t>(), best);
  expect_close(values_of(x.gradient()), dx, tolerance, "dx");
  expect_close(values_of(weight.gradient()), dweight, tolerance, "dweight");
}

TEST(LinearCrossEntropy, LikelihoodIsNeverSmoothed) {
  const Tensor targets = kernel_tests::integers({5}, 7, 3);
  const Var x(kernel_tests::normal({5, 4}, DType::float32, 1)),
      weight(kernel_tests::normal({7, 4}, DType::float32, 2));
  const auto plain = ops::linear_cross_entropy(x, weight, Var(), targets, 0.0);
  const auto smooth = ops::linear_cross_entropy(x, weight, Var(), targets, 0.3);
  checks::expect_equal(smooth.likelihood, plain.likelihood, "likelihood");
  checks::expect_equal<int32_t>(smooth.best, plain.best, "best");
  double sum = 0.0;
  for (const double value : values_of(plain.likelihood)) sum -= value;
  EXPECT_NEAR(plain.total, sum, 1e-5);
}

}  // namespace
}  // namespace transduce::op_tests
