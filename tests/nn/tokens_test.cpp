// Packing, the entrance for padded batches, the way back; the table of sinusoids.

#include "transduce/nn/tokens.h"

#include <gtest/gtest.h>

#include "tests/check.h"
#include "transduce/nn/embedding.h"

namespace transduce {
namespace {

using Ids = std::vector<int32_t>;

void expect_tokens(const Tokens& tokens, const Ids& ids, const Ids& positions, const Ids& lengths) {
  EXPECT_EQ(tokens.ids.to_vector<int32_t>(), ids);
  EXPECT_EQ(tokens.positions.to_vector<int32_t>(), positions);
  EXPECT_EQ(tokens.layout.length, lengths);
  EXPECT_EQ(tokens.layout.rows, static_cast<int64_t>(ids.size()));
}

TEST(TokensTest, PackLaysSequencesEndToEnd) {
  expect_tokens(pack({{5, 6, 7}, {}, {8}}), {5, 6, 7, 8}, {0, 1, 2, 0}, {3, 0, 1});
  expect_tokens(pack({}), {}, {}, {});
}

TEST(TokensTest, PackPaddedDropsThePadsWhateverTheWidth) {
  expect_tokens(pack_padded(Tensor::of<int32_t>({3, 4}, {5, 6, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0}), 0),
                {5, 6, 7, 8}, {0, 1, 2, 0}, {3, 1, 0});
  expect_tokens(pack_padded(Tensor::of<int32_t>({2, 3}, {5, 6, 7, 8, 9, 9}), 9), {5, 6, 7, 8}, {0, 1, 2, 0},
                {3, 1});
}

TEST(TokensTest, PadsInTheMiddleOrInFrontAreRefused) {
  const auto refused = [](const Tensor& ids) {
    try {
      pack_padded(ids, 0);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string middle = refused(Tensor::of<int32_t>({2, 4}, {5, 6, 7, 8, 5, 0, 7, 0}));
  EXPECT_NE(middle.find("sequence 1"), std::string::npos) << middle;
  EXPECT_NE(middle.find("place 1"), std::string::npos) << middle;
  EXPECT_NE(refused(Tensor::of<int32_t>({1, 3}, {0, 6, 7})).find("place 0"), std::string::npos);
  EXPECT_NE(refused(Tensor::of<int32_t>({3}, {0, 6, 7})).find("(B, T)"), std::string::npos);
  EXPECT_NE(refused(Tensor::of<float>({1, 3}, {1, 6, 7})).find("int32"), std::string::npos);
}

TEST(TokensTest, UnpackPutsZerosWherePaddingWas) {
  const Tensor rows = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor padded = unpack(rows, Layout::packed({1, 0, 3}));
  EXPECT_EQ(padded.shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(padded.to_vector<float>(),
            (std::vector<float>{1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8}));
  EXPECT_THROW(unpack(rows, Layout::packed({3})), InputError);
}

// ---- positions ----------------------------------------------------------------------------------------

// tensor2tensor's get_timing_signal_1d, which OpenNMT-tf and CTranslate2 use with positions from 1:
// sin and then cos of position * exp(-i ln(10000) / (C / 2 - 1)).
TEST(SinusoidTest, ConcatenatedWithTensor2tensorsTimescalesAndAnOffset) {
  constexpr int64_t width = 16, half = width / 2;
  const Tensor table =
      sinusoid_table(40, width, DType::float64, {SinusoidLayout::concatenated, Timescales::tensor2tensor, 1});
  for (int64_t p = 0; p < 40; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p + 1) * std::exp(-static_cast<double>(i) * std::log(10000.0) /
                                                                 static_cast<double>(half - 1));
      EXPECT_NEAR(table.row<double>(p)[i], std::sin(angle), 1e-13);
      EXPECT_NEAR(table.row<double>(p)[half + i], std::cos(angle), 1e-13);
    }
  }
}

// The two layouts hold the same numbers in other columns; an odd width keeps its lone sine.
TEST(SinusoidTest, LayoutsAreAPermutationOfColumns) {
  for (const int64_t width : {1, 6, 7}) {
    const int64_t pairs = (width + 1) / 2;
    const Tensor paper = sinusoid_table(9, width, DType::float64),
                 other = sinusoid_table(9, width, DType::float64, {SinusoidLayout::concatenated});
    for (int64_t p = 0; p < 9; ++p) {
      for (int64_t c = 0; c < width; ++c) {
        EXPECT_EQ(paper.row<double>(p)[c], other.row<double>(p)[c % 2 == 0 ? c / 2 : pairs + c / 2]);
      }
    }
  }
  EXPECT_THROW(
      sinusoid_table(9, 2, DType::float64, {SinusoidLayout::concatenated, Timescales::tensor2tensor}),
      InputError);
}

// The paper, 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same).
TEST(SinusoidTest, IsThePapersFormulaAtAnyWidth) {
  for (const int64_t width : {1, 2, 7, 15, 16, 512}) {
    const Tensor table = sinusoid_table(40, width, DType::float64);
    ASSERT_EQ(table.shape(), (Shape{40, width}));
    for (int64_t position = 0; position < 40; ++position) {
      for (int64_t i = 0; 2 * i < width; ++i) {
        const long double exponent = 2.0L * static_cast<long double>(i) / static_cast<long double>(width);
        const long double angle = static_cast<long double>(position) / std::pow(10000.0L, exponent);
        // The angle, up to 39, is rounded to float64.
        EXPECT_NEAR(table.row<double>(position)[2 * i], static_cast<double>(std::sin(angle)), 2e-14);
        if (2 * i + 1 < width) {
          EXPECT_NEAR(table.row<double>(position)[2 * i + 1], static_cast<double>(std::cos(angle)), 2e-14);
        }
      }
    }
  }
}

TEST(SinusoidTest, PositionsHaveNoEnd) {
  ParameterSet set;
  const Positions positions(Scope(set) / "positions", PositionKind::sinusoidal, 4, 6);
  EXPECT_EQ(set.count(), 0);
  const auto row = [&](int32_t place, DType dtype) {
    return checks::values_of(
        positions.table(Tensor::of<int32_t>({1}, {place}), dtype).value().rows(place, place + 1));
  };
  EXPECT_EQ(row(0, DType::float64), (checks::Values{0, 1, 0, 1, 0, 1}));
  EXPECT_NEAR(row(100000, DType::float64)[0], std::sin(100000.0), 1e-12);
  EXPECT_NEAR(row(100000, DType::float32)[0], std::sin(100000.0), 1e-7)
      << "computed in float64, then rounded";
  EXPECT_NEAR(row(3, DType::float64)[1], std::cos(3.0), 1e-15)
      << "a later, shorter sequence and another type";
}

TEST(LearnedPositionsTest, EndWhereTheTableEnds) {
  ParameterSet set;
  const Positions positions(Scope(set) / "positions", PositionKind::learned, 4, 6);
  set.allocate();
  EXPECT_EQ(set.count(), 24);
  const auto table = [&](int32_t last) {
    return positions.table(Tensor::of<int32_t>({1}, {last}), DType::float32);
  };
  EXPECT_EQ(table(3).shape(), (Shape{4, 6}));
  try {
    table(4);
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("5 tokens"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("4 learned"), std::string::npos) << error.what();
  }
}

// PyTorch 2.13, float64: view_as_complex(x.reshape(N, H, D / 2, 2)) * polar(1, position * 10000^(-2i / D)).
TEST(RotaryTest, EqualsPyTorchsComplexProduct) {
  const UseBackend use(reference_backend());
  ParameterSet set;
  const Rotary rotary(Scope(set), 4);
  const Var x(Tensor::of<double>(
      {3, 8}, {-1.25, -0.25, 0.75, -1.0, 0.0, 1.0,   -0.75, 0.25, 1.25, -0.5, 0.5,   -1.25,
               -0.25, 0.75,  -1.0, 0.0,  1.0, -0.75, 0.25,  1.25, -0.5, 0.5,  -1.25, -0.25}));
  const checks::Values expected{-1.25,
                                -0.25,
                                0.75,
                                -1,
                                0,
                                1,
                                -0.75,
                                0.25,  //
                                1.09611337473912,
                                0.781687578075801,
                                0.512474791876041,
                                -1.24493758385375,
                                -0.766178815072957,
                                0.194858983199131,
                                -0.999950000416665,
                                -0.00999983333416666,  //
                                1.2466422033824,
                                0.0915599079613106,
                                0.161959190891404,
                                1.26442446215098,
                                -0.705444426531047,
                                0.0484578278122578,
                                -1.22945303848222,
                                -0.336816309235236};
  const Var y = rotary(x, Tensor::of<int32_t>({3}, {0, 1, 7}));
  checks::expect_close(checks::values_of(y.value()), expected, 1e-14, "turned");
  EXPECT_EQ(set.count(), 0);
}

// What rotary positions are for: a query's product with a key depends on how far apart they stand.
TEST(RotaryTest, ProductsDependOnTheDistance) {
  const UseBackend use(reference_backend());
  ParameterSet set;
  const Rotary rotary(Scope(set), 6);
  const Tensor query = Tensor::of<double>({1, 6}, {0.3, -1.2, 0.7, 0.1, 2.0, -0.4});
  const Tensor key = Tensor::of<double>({1, 6}, {1.1, 0.2, -0.6, 0.9, -0.5, 0.8});
  const auto product = [&](int32_t at, int32_t other) {
    const auto q = checks::values_of(rotary(Var(query), Tensor::of<int32_t>({1}, {at})).value());
    const auto k = checks::values_of(rotary(Var(key), Tensor::of<int32_t>({1}, {other})).value());
    double sum = 0;
    for (size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
    return sum;
  };
  EXPECT_NEAR(product(3, 5), product(103, 105), 1e-12);
  EXPECT_GT(std::abs(product(3, 5) - product(3, 6)), 0.1);
}

TEST(TokenEmbeddingTest, ScalesTheTokenAndAddsThePlace) {
  const UseBackend use(reference_backend());
  ParameterSet set;
  const Scope scope(set);
  const TokenEmbedding embed(Embedding(scope / "token", 5, 4),
                             Positions(scope, PositionKind::sinusoidal, 8, 4), {2.0, 0.0f});
  set.allocate(DType::float64);
  set.initialize(1);
  const Tensor y = embed(pack({{3, 1}, {1}})).value();
  const Tensor table = set.find("token.weight")->variable.value(),
               places = sinusoid_table(2, 4, DType::float64);
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_DOUBLE_EQ(y.row<double>(0)[c], 2 * table.row<double>(3)[c] + places.row<double>(0)[c]);
    EXPECT_DOUBLE_EQ(y.row<double>(1)[c], 2 * table.row<double>(1)[c] + places.row<double>(1)[c]);
    EXPECT_DOUBLE_EQ(y.row<double>(2)[c], 2 * table.row<double>(1)[c] + places.row<double>(0)[c]);
  }
}

}  // namespace
}  // namespace transduce
