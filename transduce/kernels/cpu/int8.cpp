// Products with 8-bit weights. The weight lies in panels of kColumns columns, four elements of each column
// side by side, so that one instruction (VNNI's) multiplies and adds four a lane. Where the processor has
// none, the elements become floats on the way, which saves memory but no arithmetic.

#define HWY_WANT_AVX3_DL  // AVX-512 with VNNI
#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/int8.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include <cmath>

#include "transduce/base/error.h"
#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_INT8_TYPES
#define TRANSDUCE_KERNELS_CPU_INT8_TYPES

constexpr int64_t kGroup = 4;     // elements of a column that lie together
constexpr int64_t kColumns = 32;  // columns of a panel

// A packed weight. Each panel holds its groups of rows (groups, kColumns, kGroup), then for every column 128
// times the sum of its elements: what the unsigned rows of x, which are 128 too large, add to each product.
struct Panels {
  const int8_t* data;
  int64_t groups;  // of 4 elements in a column

  static int64_t bytes(int64_t groups) { return kColumns * (groups * kGroup + 4); }
  const int8_t* panel(int64_t p) const { return data + p * bytes(groups); }
};

// Rows of x in 8 bits, 128 added to each element; `stride` is a multiple of 4, filled up with 128.
struct ByteRows {
  uint8_t* data;
  int64_t stride;
  float* scales;  // what an element is worth
};

// What a strip of y is made of.
struct Strip {
  Panels panels;
  ByteRows x;
  const float *scales, *bias;  // (O); bias may be null
  Matrix<float> y;
  int64_t rows, begin, end;  // all rows, columns begin to end; begin is a multiple of kColumns
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

using IntTag = hn::RebindToSigned<FloatTag>;
constexpr IntTag kInt;
using Int = hn::Vec<IntTag>;
constexpr int64_t kVectors = kColumns / kLanes;

// One row of x (I) to 8 bits.
void RoundRow(const float* x, int64_t I, ByteRows rows, int64_t i) {
  Float most = hn::Zero(kFloat);
  each_vector(I, [&](auto lanes, int64_t k) HWY_ATTR { most = hn::Max(most, hn::Abs(lanes.load(x + k))); });
  const float largest = hn::GetLane(hn::MaxOfLanes(kFloat, most));
  rows.scales[i] = largest / 127.0f;
  const Float inverse = set(largest > 0.0f ? 127.0f / largest : 0.0f);
  uint8_t* const to = rows.data + i * rows.stride;
  HWY_ALIGN int32_t rounded[kLanes];
  each_vector(I, [&](auto lanes, int64_t k) HWY_ATTR {
    hn::Store(hn::NearestInt(hn::Mul(lanes.load(x + k), inverse)), kInt, rounded);
    for (int64_t j = 0; j < HWY_MIN(kLanes, I - k); ++j) to[k + j] = static_cast<uint8_t>(rounded[j] + 128);
  });
  for (int64_t k = I; k < rows.stride; ++k) to[k] = 128;
}

#if HWY_TARGET == HWY_AVX3_DL

using Sum = Int;
using Columns = Int[kVectors];

HWY_INLINE void load_columns(const int8_t* weight, Columns& columns) {
  for (int64_t v = 0; v < kVectors; ++v) {
    columns[v] =
        hn::BitCast(kInt, hn::LoadU(hn::Repartition<int8_t, IntTag>(), weight + v * kLanes * kGroup));
  }
}

// sum + the products of four elements of x with those of each column. The instruction is written out because
// Highway's target lacks the compiler flag of its intrinsic.
HWY_INLINE Sum add_group(const uint8_t* x, Int columns, Sum sum) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  auto total = sum.raw;
  asm("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(hn::Set(kInt, four).raw), "v"(columns.raw));
  return Sum{total};
}

HWY_INLINE Float whole(Sum sum, const int8_t* corrections, int64_t v) {
  const auto correction = hn::LoadU(hn::Repartition<int8_t, IntTag>(), corrections + v * kLanes * 4);
  return hn::ConvertTo(kFloat, hn::Sub(sum, hn::BitCast(kInt, correction)));
}

#else

// In float32, of x without its 128: exact as long as the sum stays below 2^24, and rounded like any product
// beyond that.
using Sum = Float;
struct Columns {
  HWY_ALIGN float at[kGroup][kColumns];
  struct Vector {
    const float* at;  // the next element of the columns lies kColumns further
  };
  Vector operator[](int64_t v) const { return {at[0] + v * kLanes}; }
};

HWY_INLINE void load_columns(const int8_t* weight, Columns& columns) {
  for (int64_t c = 0; c < kColumns; ++c) {
    for (int64_t k = 0; k < kGroup; ++k) columns.at[k][c] = static_cast<float>(weight[c * kGroup + k]);
  }
}

HWY_INLINE Sum add_group(const uint8_t* x, Columns::Vector columns, Sum sum) {
  for (int64_t k = 0; k < kGroup; ++k) {
    const Float factor = set(static_cast<float>(static_cast<int>(x[k]) - 128));
    sum = hn::MulAdd(factor, hn::LoadU(kFloat, columns.at + k * kColumns), sum);
  }
  return sum;
}

HWY_INLINE Float whole(Sum sum, const int8_t*, int64_t) { return sum; }

#endif

// kRows rows of y from row i on, the columns of one panel.
template <int kRows>
HWY_INLINE void int8_tile(const Strip& s, int64_t i, int64_t column) {
  const int8_t* weight = s.panels.panel(column / kColumns);
  const uint8_t* x = s.x.data + i * s.x.stride;
  Sum sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(hn::DFromV<Sum>());
  }
  for (int64_t g = 0; g < s.panels.groups; ++g, weight += kColumns * kGroup, x += kGroup) {
    Columns columns;
    load_columns(weight, columns);
    for (int r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = add_group(x + r * s.x.stride, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const Float scale = set(s.x.scales[i + r]);
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t at = column + v * kLanes, left = s.end - at;
      if (left <= 0) break;
      const auto finish = [&](auto lanes) HWY_ATTR {
        const Float bias = s.bias != nullptr ? lanes.load(s.bias + at) : hn::Zero(kFloat);
        const Float factor = hn::Mul(scale, lanes.load(s.scales + at));
        lanes.store(hn::MulAdd(whole(sums[r][v], weight, v), factor, bias), s.y.row(i + r) + at);
      };
      if (left >= kLanes) {
        finish(AllLanes());
      } else {
        finish(FirstLanes{static_cast<size_t>(left)});
      }
    }
  }
}

// All rows of a strip of columns: panel by panel, so that a panel stays in the first cache.
void Int8Strip(const Strip& s) {
  constexpr int kMost = HWY_TARGET == HWY_AVX3_DL ? 12 : 4;
  for (int64_t column = s.begin; column < s.end; column += kColumns) {
    int64_t i = 0;
    for (; i + kMost <= s.rows; i += kMost) int8_tile<kMost>(s, i, column);
    for (; i + 4 <= s.rows; i += 4) int8_tile<4>(s, i, column);
    for (; i < s.rows; ++i) int8_tile<1>(s, i, column);
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

HWY_EXPORT(RoundRow);
HWY_EXPORT(Int8Strip);

// Multiplications worth a thread of their own.
constexpr int64_t kGrain = int64_t{1} << 18;

int64_t groups_of(int64_t I) { return (I + kGroup - 1) / kGroup; }
int64_t panels_of(int64_t O) { return (O + kColumns - 1) / kColumns; }

}  // namespace
}  // namespace cpu

void CpuBackend::pack(Int8Matrix& weight) {
  using namespace cpu;
  const int64_t O = weight.values.dim(0), I = weight.values.dim(1), groups = groups_of(I);
  check_input(I <= 65536, "[pack] rows of {} elements are too long for 8 bits: 65536 at most", I);
  weight.packed = Tensor::zeros({panels_of(O), Panels::bytes(groups)}, DType::int8);
  parallel_for(panels_of(O), 16, [&](int64_t from, int64_t to) {
    for (int64_t p = from; p < to; ++p) {
      int8_t* const panel = weight.packed.row<int8_t>(p);
      int32_t corrections[kColumns] = {};
      for (int64_t c = 0; c < std::min(kColumns, O - p * kColumns); ++c) {
        const int8_t* row = weight.values.row<int8_t>(p * kColumns + c);
        for (int64_t i = 0; i < I; ++i) {
          panel[(i / kGroup * kColumns + c) * kGroup + i % kGroup] = row[i];
          corrections[c] += 128 * row[i];
        }
      }
      std::memcpy(panel + groups * kColumns * kGroup, corrections, sizeof(corrections));
    }
  });
}

void CpuBackend::linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias, Tensor y) {
  using namespace cpu;
  const int64_t N = x.dim(0), O = weight.values.dim(0), I = weight.values.dim(1), groups = groups_of(I);
  static thread_local Scratch scratch;
  float* const scales = scratch.floats(N + N * groups);
  const ByteRows rows{reinterpret_cast<uint8_t*>(scales + N), groups * kGroup, scales};
  parallel_for(N, 16384 / std::max<int64_t>(I, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) HWY_DYNAMIC_DISPATCH(RoundRow)(x.row<float>(i), I, rows, i);
  });
  const int64_t panels = panels_of(O);
  parallel_for(panels, kGrain / std::max<int64_t>(N * I * kColumns, 1) + 1, [&](int64_t from, int64_t to) {
    const Strip strip{{weight.packed.data<int8_t>(), groups},
                      rows,
                      weight.scales.data<float>(),
                      data_or_null(bias),
                      Matrix<float>(y),
                      N,
                      from * kColumns,
                      std::min(O, to * kColumns)};
    HWY_DYNAMIC_DISPATCH(Int8Strip)(strip);
  });
}

}  // namespace transduce
#endif
