// Parameters: names, buffers, how they start.

#include "transduce/nn/module.h"

#include <gtest/gtest.h>

#include "tests/check.h"
#include "transduce/nn/attention.h"
#include "transduce/nn/embedding.h"
#include "transduce/nn/feed_forward.h"
#include "transduce/nn/norm.h"

namespace transduce {
namespace {

using checks::Values;
using checks::values_of;

// The n-th central moment about `center`.
double moment(const Values& values, double center, int n) {
  double sum = 0.0;
  for (const double value : values) sum += std::pow(value - center, n);
  return sum / static_cast<double>(values.size());
}

// Values drawn for one parameter of so many elements.
Values drawn(Init init, int64_t count, uint64_t seed = 1) {
  ParameterSet set;
  const Var p = set.declare("p", {count}, init);
  set.allocate();
  set.initialize(seed);
  return values_of(p.value());
}

double bound_of(const ParameterSet& set, const std::string& name) {
  const Parameter* parameter = set.find(name);
  EXPECT_NE(parameter, nullptr) << name;
  EXPECT_EQ(parameter->init.kind, Init::Kind::uniform) << name;
  return parameter->init.spread;
}

constexpr int64_t kMany = 200000;

// ---- distributions ------------------------------------------------------------------------------------
// An average of n draws of deviation s is off by more than 5 s / sqrt(n) once in two million tries.

TEST(InitTest, UniformFillsItsRangeEvenly) {
  constexpr double bound = 0.3;
  const Values values = drawn(Init::uniform(bound), kMany);
  const double off = 5.0 / std::sqrt(static_cast<double>(kMany));
  EXPECT_LE(checks::largest(values), bound);
  EXPECT_GE(checks::largest(values), 0.999 * bound);
  EXPECT_NEAR(moment(values, 0.0, 1), 0.0, off * bound / std::sqrt(3.0));
  EXPECT_NEAR(moment(values, 0.0, 2), bound * bound / 3, off * bound * bound * std::sqrt(4.0 / 45));
  for (int part = 0; part < 10; ++part) {  // a tenth of the values in each tenth of the range
    const double low = bound * (part / 5.0 - 1);
    const auto count = std::count_if(values.begin(), values.end(),
                                     [&](double v) { return v >= low && v < low + bound / 5; });
    EXPECT_NEAR(static_cast<double>(count) / kMany, 0.1, off * 0.3) << part;
  }
}

TEST(InitTest, NormalHasTheDeviationAndTheShape) {
  constexpr double deviation = 0.05;
  Values values = drawn(Init::normal(deviation), kMany);
  for (double& value : values) value /= deviation;
  const double off = 5.0 / std::sqrt(static_cast<double>(kMany));
  EXPECT_NEAR(moment(values, 0.0, 1), 0.0, off);
  EXPECT_NEAR(moment(values, 0.0, 2), 1.0, off * std::sqrt(2.0));
  EXPECT_NEAR(moment(values, 0.0, 3), 0.0, off * std::sqrt(15.0));
  EXPECT_NEAR(moment(values, 0.0, 4), 3.0, off * std::sqrt(96.0));
  const auto within = std::count_if(values.begin(), values.end(), [](double v) { return std::abs(v) < 1; });
  EXPECT_NEAR(static_cast<double>(within) / kMany, std::erf(std::sqrt(0.5)), off * 0.5);
}

TEST(InitTest, ZerosAndOnes) {
  EXPECT_EQ(drawn(Init::zeros(), 5), Values(5, 0.0));
  EXPECT_EQ(drawn(Init::ones(), 5), Values(5, 1.0));
}

TEST(InitTest, IsDeterministicBySeed) {
  const Init init = Init::normal(1.0);
  EXPECT_EQ(drawn(init, 100, 7), drawn(init, 100, 7));
  EXPECT_NE(drawn(init, 100, 7), drawn(init, 100, 8));
  // Parameters of one shape do not start alike.
  ParameterSet set;
  const Var a = set.declare("a", {50}, init), b = set.declare("b", {50}, init);
  set.allocate();
  set.initialize(7);
  EXPECT_NE(values_of(a.value()), values_of(b.value()));
}

TEST(InitTest, EveryTypeStartsFromTheSameNumbers) {
  const auto values_in = [](DType dtype) {
    ParameterSet set;
    const Var p = set.declare("p", {3, 5}, Init::normal(0.2));
    set.allocate(dtype);
    set.initialize(3);
    return p.value().to(DType::float32).to_vector<float>();
  };
  EXPECT_EQ(values_in(DType::float64), values_in(DType::float32));
  EXPECT_EQ(values_in(DType::complex128), values_in(DType::float32));
}

// ---- what PyTorch starts with -------------------------------------------------------------------------

TEST(InitTest, XavierBoundsOfEveryLayer) {
  constexpr int64_t c = 12, f = 20;
  ParameterSet set;
  const Scope scope(set);
  const AttentionOptions attention{c, 3, 0.0f};
  const SelfAttention self(scope / "self", attention);
  const CrossAttention cross(scope / "cross", attention);
  const FeedForward feed_forward(scope / "ff", {c, f, Activation::relu, 0.0f});
  // torch.nn.init.xavier_uniform_: sqrt(6 / (fan_in + fan_out)); in_proj_weight of nn.MultiheadAttention is
  // one (3C, C) matrix, whatever it is cut into.
  EXPECT_DOUBLE_EQ(bound_of(set, "self.query_key_value.weight"), std::sqrt(6.0 / (4 * c)));
  EXPECT_DOUBLE_EQ(bound_of(set, "cross.query.weight"), std::sqrt(6.0 / (4 * c)));
  EXPECT_DOUBLE_EQ(bound_of(set, "cross.key_value.weight"), std::sqrt(6.0 / (4 * c)));
  EXPECT_DOUBLE_EQ(bound_of(set, "self.output.weight"), std::sqrt(6.0 / (2 * c)));
  EXPECT_DOUBLE_EQ(bound_of(set, "ff.inner.weight"), std::sqrt(6.0 / (c + f)));
  EXPECT_DOUBLE_EQ(bound_of(set, "ff.outer.weight"), std::sqrt(6.0 / (c + f)));
  // nn.Linear's bias: 1 / sqrt(fan_in); nn.MultiheadAttention's: 0.
  EXPECT_DOUBLE_EQ(bound_of(set, "ff.inner.bias"), 1.0 / std::sqrt(12.0));
  EXPECT_DOUBLE_EQ(bound_of(set, "ff.outer.bias"), 1.0 / std::sqrt(20.0));
  for (const char* name : {"self.query_key_value.bias", "self.output.bias", "cross.query.bias"}) {
    EXPECT_EQ(set.find(name)->init.kind, Init::Kind::zeros) << name;
  }
}

TEST(InitTest, EmbeddingsAndNorms) {
  ParameterSet set;
  const Embedding embedding(Scope(set) / "embedding", 7, 16);
  const Norm norm(Scope(set) / "norm", 16, {}), rms(Scope(set) / "rms", 16, {NormKind::rms, 1e-6});
  EXPECT_EQ(set.find("embedding.weight")->init.kind, Init::Kind::normal);
  EXPECT_DOUBLE_EQ(set.find("embedding.weight")->init.spread, 0.25);
  EXPECT_EQ(set.find("norm.weight")->init.kind, Init::Kind::ones);
  EXPECT_EQ(set.find("norm.bias")->init.kind, Init::Kind::zeros);
  EXPECT_NE(set.find("rms.weight"), nullptr);
  EXPECT_EQ(set.find("rms.bias"), nullptr);
}

// ---- buffers ------------------------------------------------------------------------------------------

TEST(ParameterSetTest, LiesInOneBufferOfValuesAndOneOfGradients) {
  ParameterSet set;
  const Scope scope(set);
  const Var a = (scope / "a" / 3).declare("weight", {3, 5}, Init::normal(1.0));
  const Var b = scope.declare("b", {17}, Init::ones());
  set.allocate();
  set.initialize(1);
  EXPECT_EQ(set.count(), 32);
  ASSERT_NE(set.find("a.3.weight"), nullptr);
  EXPECT_EQ(set.find("a.weight"), nullptr);

  // Each begins on a cache line; what lies between is zero, so that norms over the buffer are right.
  a.gradient().data<float>()[3] = 7.0f;  // before all gradients were asked for: taken over
  EXPECT_EQ(set.gradients().data<float>()[3], 7.0f);
  for (const Var& p : {a, b}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.value().data<float>()) % 64, 0u);
    EXPECT_EQ(p.value().data<float>() - set.values().data<float>(),
              p.gradient().data<float>() - set.gradients().data<float>());
  }
  double squares = 0.0, expected = 0.0;
  for (const double value : values_of(set.values())) squares += value * value;
  for (const Var& p : {a, b}) {
    for (const double value : values_of(p.value())) expected += value * value;
  }
  EXPECT_DOUBLE_EQ(squares, expected);
  a.gradient().data<float>()[14] = 2.0f;
  EXPECT_EQ(set.gradients().data<float>()[14], 2.0f);
}

TEST(ParameterSetTest, RefusesANameTwice) {
  ParameterSet set;
  set.declare("a", {1}, Init::zeros());
  EXPECT_THROW(set.declare("a", {2}, Init::zeros()), InputError);
}

}  // namespace
}  // namespace transduce
