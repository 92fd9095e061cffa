// The tape: column views, what is recorded, shape errors of every op.

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/kernels/made_up.h"
#include "transduce/autograd/ops.h"

namespace transduce {
namespace {

using checks::expect_close;
using checks::expect_equal;
using checks::values_of;
using checks::weighted_sum;

Var made(const Shape& shape, uint64_t seed, DType dtype = DType::float32) {
  return Var(kernel_tests::normal(shape, dtype, seed), true);
}

// ---- column views -------------------------------------------------------------------------------------

TEST(ColumnViews, ShareValueAndGradient) {
  const Var x = made({3, 6}, 1);
  const Var view = x.columns(1, 5), nested = view.columns(2, 4);  // columns 3 and 4 of x
  EXPECT_FALSE(view.has_gradient());
  nested.gradient().row<float>(2)[1] = 7.0f;
  EXPECT_TRUE(x.has_gradient());
  EXPECT_EQ(x.gradient().row<float>(2)[4], 7.0f);
  EXPECT_EQ(view.gradient().row<float>(2)[3], 7.0f);
  EXPECT_EQ(nested.value().row<float>(2)[1], x.value().row<float>(2)[4]);
  EXPECT_THROW(x.columns(2, 7), InputError);
}

TEST(ColumnViews, AttentionOnThreeColumnRangesEqualsThreeMatrices) {
  constexpr int64_t rows = 7, width = 12;
  const Tensor weights = kernel_tests::normal({rows, width}, DType::float32, 9);
  AttentionSpec spec;
  spec.queries = spec.keys = Layout::packed({3, 4});
  spec.heads = 3;
  spec.causal = true;

  const Var together = made({rows, 3 * width}, 1);
  std::vector<Var> apart;
  for (int64_t i = 0; i < 3; ++i) {
    apart.emplace_back(together.value().columns(i * width, (i + 1) * width).clone(), true);
  }
  const auto run = [&](const Var& q, const Var& k, const Var& v) {
    Tape tape;
    const Var y = ops::attention(q, k, v, spec);
    tape.backward(weighted_sum(y, weights));
    return y.value();
  };
  const Tensor expected = run(apart[0], apart[1], apart[2]);
  const Tensor got = run(together.columns(0, width), together.columns(width, 2 * width),
                         together.columns(2 * width, 3 * width));
  expect_close(values_of(got), values_of(expected), 1e-6, "output");
  for (int64_t i = 0; i < 3; ++i) {
    expect_close(values_of(together.gradient().columns(i * width, (i + 1) * width)),
                 values_of(apart[static_cast<size_t>(i)].gradient()), 1e-6, "gradient of a column range");
  }
}

TEST(ColumnViews, LinearReadsAColumnRange) {
  const Var wide = made({5, 9}, 1), weight = made({4, 3}, 2);
  const Var narrow(wide.value().columns(2, 5).clone(), true), weight_too(weight.value(), true);
  const Tensor weights = kernel_tests::normal({5, 4}, DType::float32, 9);
  for (const auto& [x, w] : {std::pair(wide.columns(2, 5), weight), std::pair(narrow, weight_too)}) {
    Tape tape;
    tape.backward(weighted_sum(ops::linear(x, w, Var()), weights));
  }
  expect_close(values_of(wide.gradient().columns(2, 5)), values_of(narrow.gradient()), 1e-6, "dx");
  expect_close(values_of(weight.gradient()), values_of(weight_too.gradient()), 1e-6, "dweight");
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(wide.gradient().row<float>(i)[0], 0.0f);
}

// Kernels whose matrices may not be column ranges (backend.h) must never be handed one in silence.
TEST(ColumnViews, AreRefusedWhereAKernelCannotReadThem) {
  const Var wide = made({4, 12}, 1), view = wide.columns(2, 6), square = made({4, 4}, 2), gain = made({4}, 3);
  const Tensor targets = kernel_tests::integers({4}, 4, 4);
  EXPECT_THROW(ops::activation(view, Activation::relu), InputError);
  EXPECT_THROW(ops::linear_activation(view, square, Var(), Activation::relu), InputError);
  EXPECT_THROW(ops::residual(square, view), InputError);
  EXPECT_THROW(ops::residual(view, square), InputError);
  EXPECT_THROW(ops::dropout(view, 0.5f), InputError);
  EXPECT_THROW(ops::norm(view, {gain, Var(), {}}), InputError);
  EXPECT_THROW(ops::residual_norm(square, view, 0.0f, {gain, Var(), {}}), InputError);
  EXPECT_THROW(ops::linear_cross_entropy(view, square, Var(), targets, 0.0), InputError);
  EXPECT_THROW(ops::linear(square, view, Var()), InputError);
}

// ---- the tape -----------------------------------------------------------------------------------------

TEST(TapeTest, AVariableUsedTwiceGetsBothGradients) {
  const UseBackend use(reference_backend());
  const Var x = made({2, 3}, 1, DType::float64);
  const Tensor w = kernel_tests::normal({2, 3}, DType::float64, 2);
  Tape tape;
  tape.backward(weighted_sum(ops::residual(x, ops::residual(x, x)), w));
  checks::Values tripled = values_of(w);
  for (double& value : tripled) value *= 3;
  expect_close(values_of(x.gradient()), tripled, 1e-15, "gradient of x + x + x");
}

TEST(TapeTest, SeedScalesTheGradient) {
  const Var x = made({2, 3}, 1);
  const Tensor w = kernel_tests::normal({2, 3}, DType::float32, 2);
  Tape tape;
  tape.backward(weighted_sum(ops::dropout(x, 0.0f), w), 0.25);
  checks::Values quarter = values_of(w);
  for (double& value : quarter) value *= 0.25;
  expect_close(values_of(x.gradient()), quarter, 1e-7, "seeded gradient");
}

TEST(TapeTest, WhatTheLossDoesNotDependOnGetsNoGradient) {
  const Var x = made({2, 3}, 1), unused = made({2, 3}, 2);
  Tape tape;
  const Var aside = ops::residual(unused, unused);
  tape.backward(weighted_sum(ops::residual(x, x), kernel_tests::normal({2, 3}, DType::float32, 3)));
  EXPECT_FALSE(unused.has_gradient());
  EXPECT_FALSE(aside.has_gradient());
}

// The record of a residual keeps no value of its branch, but somebody else may.
TEST(TapeTest, AResidualKeepsOnlyTheGradientOfItsBranch) {
  const auto in_use = [] { return Arena::instance().statistics().in_use; };
  const Var x = made({64, 256}, 1);
  const Tensor w = kernel_tests::normal({64, 256}, DType::float32, 2);
  x.gradient();
  Tape tape;
  Var branch = ops::dropout(x, 0.0f);
  branch = ops::residual(branch, branch);
  const size_t before = in_use();
  const Var y = ops::residual(x, branch);
  EXPECT_EQ(branch.value().size(), 64 * 256);  // still to be read
  branch = Var();
  EXPECT_LE(in_use(), before);  // y took its place
  tape.backward(weighted_sum(y, w));
  checks::Values tripled = values_of(w);
  for (double& value : tripled) value *= 3;
  expect_close(values_of(x.gradient()), tripled, 1e-6, "gradient of x + x + x");
}

TEST(TapeTest, FreesActivationsOnTheWayBack) {
  const Var x = made({64, 256}, 1);
  const auto in_use = [] { return Arena::instance().statistics().in_use; };
  x.gradient();
  const size_t before = in_use();
  Tape tape;
  Var y = x;
  for (int i = 0; i < 10; ++i) y = ops::activation(y, Activation::gelu);
  Var loss = weighted_sum(y, kernel_tests::normal({64, 256}, DType::float32, 2));
  y = Var();
  EXPECT_GE(in_use() - before, size_t{10 * 64 * 256 * 4});
  Arena::instance().reset_peak();
  const size_t forward = in_use();
  tape.backward(loss);
  // Gradients take the place of the activations they come from: never all of both.
  EXPECT_LE(Arena::instance().statistics().peak - forward, size_t{4 * 64 * 256 * 4});
  loss = Var();
  EXPECT_EQ(in_use(), before);
}

TEST(TapeTest, LossesThatCannotBeDifferentiatedAreRefused) {
  const Var x = made({2, 3}, 1);
  Tape tape;
  EXPECT_THROW(tape.backward(ops::residual(x, x)), InputError);
  EXPECT_THROW(tape.backward(Var(Tensor::zeros({1}))), InputError);
}

TEST(TapeTest, NestsAndRestores) {
  EXPECT_EQ(Tape::current(), nullptr);
  Tape outer;
  {
    const NoGradient pause;
    EXPECT_EQ(Tape::current(), nullptr);
    const Tape inner;
    EXPECT_EQ(Tape::current(), &inner);
  }
  EXPECT_EQ(Tape::current(), &outer);
}

TEST(TrainingModeTest, TheSameKeyGivesTheSameMasksAndAnotherStepOthers) {
  const Var x(Tensor::of<float>({1, 64}, std::vector<float>(64, 1.0f)));
  const auto two_masks = [&](RandomKey key) {
    const TrainingMode training(key);
    std::vector<Tensor> masks;
    for (int i = 0; i < 2; ++i) masks.push_back(ops::dropout(x, 0.5f).value());
    return masks;
  };
  const std::vector<Tensor> first = two_masks({1, 1}), again = two_masks({1, 1}), next = two_masks({1, 2});
  for (size_t i = 0; i < 2; ++i) expect_equal(again[i], first[i], "mask");
  EXPECT_NE(first[0].to_vector<float>(), first[1].to_vector<float>());
  EXPECT_NE(first[0].to_vector<float>(), next[0].to_vector<float>());
  expect_equal(ops::dropout(x, 0.5f).value(), x.value(), "outside of training");
  EXPECT_THROW(next_dropout(1.0f), InputError);
  EXPECT_THROW(next_dropout(-0.1f), InputError);
}

// ---- errors -------------------------------------------------------------------------------------------

// The message names the op and the values that do not fit.
void expect_refused(const std::function<void()>& call, const std::vector<std::string>& said) {
  try {
    call();
    ADD_FAILURE() << "accepted: " << said.front();
  } catch (const InputError& error) {
    for (const std::string& part : said)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ShapeErrors, NameTheOpAndTheShapes) {
  const Var x = made({4, 6}, 1), w = made({5, 6}, 2), narrow = made({5, 3}, 3), vector = made({6}, 4);
  const Var longer = made({7}, 5), row = made({1, 6}, 6);
  const Tensor ids = kernel_tests::integers({4}, 5, 7);
  expect_refused([&] { ops::linear(x, narrow, Var()); }, {"[linear]", "(4, 6)", "3"});
  expect_refused([&] { ops::linear(x, w, longer); }, {"[linear]", "(7)", "5"});
  expect_refused([&] { ops::linear(vector, w, Var()); }, {"[linear]", "(6)"});
  expect_refused([&] { ops::linear(Var(), w, Var()); }, {"[linear]", "nothing"});
  expect_refused([&] { ops::linear(x, Var(), Var()); }, {"[linear]", "nothing"});
  expect_refused([&] { ops::activation(vector, Activation::relu); }, {"[activation]", "(6)"});
  expect_refused([&] { ops::activation(narrow, Activation::swiglu); }, {"[activation]", "even", "3"});
  expect_refused([&] { ops::linear_activation(x, narrow, Var(), Activation::relu); },
                 {"[linear_activation]", "(4, 6)"});
  expect_refused([&] { ops::linear_activation(x, w, Var(), Activation::swiglu); },
                 {"[linear_activation]", "5"});
  expect_refused([&] { ops::residual(x, w); }, {"[residual]", "(4, 6)", "(5, 6)"});
  expect_refused([&] { ops::residual(x, Var()); }, {"[residual]", "nothing"});
  expect_refused([&] { ops::dropout(vector, 0.1f); }, {"[dropout]", "(6)"});
  expect_refused([&] { ops::norm(x, {longer, Var(), {}}); }, {"[norm]", "(6)", "(7)"});
  expect_refused([&] { ops::norm(x, {vector, longer, {}}); }, {"[norm]", "(7)", "6"});
  expect_refused([&] { ops::norm(x, {row, Var(), {}}); }, {"[norm]", "(1, 6)"});
  expect_refused([&] { ops::norm(x, {Var(), Var(), {}}); }, {"[norm]", "gain"});
  expect_refused(
      [&] {
        ops::residual_norm(x, w, 0.0f, {vector, Var(), {}});
      },
      {"[norm]", "(4, 6)", "(5, 6)"});
  expect_refused([&] { ops::linear_cross_entropy(x, narrow, Var(), ids, 0.0); },
                 {"[linear_cross_entropy]", "(4, 6)"});
  expect_refused([&] { ops::linear_cross_entropy(w, w, Var(), ids, 0.0); },
                 {"[linear_cross_entropy]", "4 targets", "(5, 6)"});
  expect_refused([&] { ops::linear_cross_entropy(x, w, Var(), ids, 1.0); }, {"label smoothing", "1"});
  expect_refused([&] { ops::linear_cross_entropy(x, w, Var(), Tensor::zeros({4}), 0.0); },
                 {"[linear_cross_entropy]", "int32", "float32"});
}

TEST(ShapeErrors, IdsOutsideOfATable) {
  const Var table = made({5, 6}, 1), positions = made({3, 6}, 2), narrow = made({3, 4}, 3);
  const auto ids = [](std::vector<int32_t> values) {
    return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
  };
  expect_refused(
      [&] {
        ops::embedding({ids({0, 5}), Tensor(), table, Var()}, 1.0, 0.0f);
      },
      {"[embedding]", "5", "4"});
  expect_refused(
      [&] {
        ops::embedding({ids({-1}), Tensor(), table, Var()}, 1.0, 0.0f);
      },
      {"[embedding]", "-1"});
  expect_refused(
      [&] {
        ops::embedding({ids({0}), ids({3}), table, positions}, 1.0, 0.0f);
      },
      {"[embedding]", "position", "3"});
  expect_refused(
      [&] {
        ops::embedding({ids({0}), ids({0, 1}), table, positions}, 1.0, 0.0f);
      },
      {"[embedding]", "1", "2"});
  expect_refused(
      [&] {
        ops::embedding({ids({0}), ids({0}), table, narrow}, 1.0, 0.0f);
      },
      {"[embedding]", "(3, 4)"});
  expect_refused(
      [&] {
        ops::embedding({Tensor::zeros({2}), Tensor(), table, Var()}, 1.0, 0.0f);
      },
      {"[embedding]", "int32"});
  const Var x = made({2, 6}, 4);
  expect_refused(
      [&] {
        ops::linear_cross_entropy(x, table, Var(), ids({0, 5}), 0.0);
      },
      {"[linear_cross_entropy]", "5"});
}

TEST(ShapeErrors, AttentionThatDoesNotFit) {
  const Var q = made({4, 6}, 1), k = made({5, 6}, 2), narrow = made({5, 4}, 3);
  AttentionSpec good;
  good.queries = Layout::packed({4});
  good.keys = Layout::packed({5});
  good.heads = 2;
  EXPECT_NO_THROW(ops::attention(q, k, k, good));
  const auto with = [&](const std::function<void(AttentionSpec&)>& change) {
    AttentionSpec spec = good;
    change(spec);
    return spec;
  };
  const AttentionSpec four = with([](AttentionSpec& s) { s.heads = 4; });
  expect_refused([&] { ops::attention(q, k, k, four); }, {"[attention]", "6", "4 heads"});
  expect_refused([&] { ops::attention(q, k, k, with([](AttentionSpec& s) { s.heads = 0; })); },
                 {"[attention]", "0 heads"});
  expect_refused([&] { ops::attention(q, narrow, k, good); }, {"[attention]", "(5, 4)"});
  expect_refused([&] { ops::attention(q, k, q, good); }, {"[attention]", "5 keys", "4 values"});
  expect_refused(
      [&] { ops::attention(q, k, k, with([](AttentionSpec& s) { s.keys = Layout::packed({6}); })); },
      {"[attention]", "6", "(5, 6)"});
  const auto named = [&](const std::vector<int32_t>& rows) {
    return with([&](AttentionSpec& s) {
      s.key_rows = Tensor::of<int32_t>({static_cast<int64_t>(rows.size())}, rows);
    });
  };
  EXPECT_NO_THROW(ops::attention(q, k, k, named({4, 4, 0, 1, 2})));
  expect_refused([&] { ops::attention(q, k, k, named({4, 4, 0})); }, {"[attention]", "3 rows named"});
  expect_refused([&] { ops::attention(q, k, k, named({4, 4, 0, 1, 5})); }, {"[attention]", "5"});
  {
    Tape tape;
    const Var trained = Var(q.value(), true);
    expect_refused(
        [&] {
          ops::attention(trained, k, k, named({4, 4, 0, 1, 2}));
        },
        {"[attention]", "gradient"});
  }
  expect_refused(
      [&] {
        ops::attention(q, k, k, with([](AttentionSpec& s) { s.keys = Layout::packed({2, 3}); }));
      },
      {"[attention]", "1 query", "2 key"});
  expect_refused(
      [&] {
        ops::attention(k, q, q, with([](AttentionSpec& s) {
                         std::swap(s.queries, s.keys);
                         s.causal = true;
                       }));
      },
      {"[attention]", "causal", "4", "5"});
  expect_refused(
      [&] {
        ops::attention(q, k, k,
                       with([](AttentionSpec& s) { s.visible = Tensor::zeros({19}, DType::uint8); }));
      },
      {"[attention]", "20", "(19)"});
}

}  // namespace
}  // namespace transduce
