// Products with 8-bit weights. Neighbouring elements of a column form a group; a panel holds its columns'
// first groups side by side, then their second ones, and so on. A group of a row of x takes four bytes, so
// that one instruction multiplies it with a column's group in every 32-bit lane and adds up. Which
// instruction, how many elements are a group and how x is stored is all that differs between processors; the
// sums are exact, hence the same on all of them.

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

// How a target wants its operands.
struct Int8Format {
  int64_t group;    // elements of a group
  int64_t columns;  // of a panel
  int64_t element;  // bytes of an element of x
  int64_t lanes;    // a row of x is filled up to a multiple of so many elements

  int64_t groups(int64_t I) const { return (I + group - 1) / group; }
  int64_t panels(int64_t O) const { return (O + columns - 1) / columns; }
  // A panel is (groups, columns, group), and then the sum of every column.
  int64_t panel_bytes(int64_t I) const { return columns * (groups(I) * group + int64_t{sizeof(int32_t)}); }
  int64_t row_bytes(int64_t I) const { return (I + lanes - 1) / lanes * lanes * element; }
};

// Rows of x rounded to 256 steps, zero among them, and filled up with zeros.
struct RoundedRows {
  uint8_t* data;
  int64_t row_bytes;
  float* scales;    // what a step is worth
  int32_t* lowest;  // step of each row, at most 0

  uint8_t* row(int64_t i) const { return data + i * row_bytes; }
};

// The arguments of a product; see Backend::linear_int8.
struct Int8Product {
  int64_t N, O, I;
  RoundedRows x;
  const int8_t* panels;
  const float *scales, *bias;  // (O); bias may be null
  Matrix<float> y;
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

using IntTag = hn::RebindToSigned<FloatTag>;
constexpr IntTag kInt;
using Int = hn::Vec<IntTag>;
constexpr int kVectors = 2;  // of a panel: a column in each 32-bit lane
constexpr int64_t kColumns = kVectors * kLanes;

#if HWY_TARGET <= HWY_AVX3_DL

// VNNI multiplies unsigned bytes by signed ones: x is stored less its row's lowest step, and the sums are
// corrected for that.
using Element = uint8_t;
constexpr bool kFromLowest = true;
constexpr int kMostRows = 12;
constexpr int64_t kGroup = 4;
using Group = Int;
using Sum = Int;

HWY_INLINE Group load_columns(const int8_t* weight) {
  return hn::BitCast(kInt, hn::LoadU(hn::Repartition<int8_t, IntTag>(), weight));
}

HWY_INLINE Group group_everywhere(const uint8_t* x) {
  int32_t group;
  std::memcpy(&group, x, sizeof(group));
  return hn::Set(kInt, group);
}

HWY_INLINE Sum zero_sum() { return hn::Zero(kInt); }

// The instruction is written out because Highway's target lacks the compiler flag of its intrinsic.
HWY_INLINE void add_products(Group x, Group columns, Sum& sum) {
  auto total = sum.raw;
  asm("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(x.raw), "v"(columns.raw));
  sum = Sum{total};
}

HWY_INLINE Int whole(Sum sum) { return sum; }

#else

// Elsewhere groups are pairs of 16-bit numbers: nearly every processor multiplies those and adds neighbours
// up, and few do that exactly with bytes.
using Element = int16_t;
constexpr bool kFromLowest = false;
constexpr int kMostRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kGroup = 1;
using ShortTag = hn::Rebind<int16_t, IntTag>;
#else
constexpr int64_t kGroup = 2;
using ShortTag = hn::Repartition<int16_t, IntTag>;
#endif
constexpr ShortTag kShort;
using Group = hn::Vec<ShortTag>;
struct Sum {
  Int even, odd;  // or both in one, as the processor likes it
};

HWY_INLINE Group load_columns(const int8_t* weight) {
  return hn::PromoteTo(kShort, hn::LoadU(hn::Rebind<int8_t, ShortTag>(), weight));
}

HWY_INLINE Group group_everywhere(const uint8_t* x) {
#if HWY_TARGET == HWY_SCALAR
  int16_t element;
  std::memcpy(&element, x, sizeof(element));
  return hn::Set(kShort, element);
#else
  int32_t pair;
  std::memcpy(&pair, x, sizeof(pair));
  return hn::BitCast(kShort, hn::Set(kInt, pair));
#endif
}

HWY_INLINE Sum zero_sum() { return {hn::Zero(kInt), hn::Zero(kInt)}; }

HWY_INLINE void add_products(Group x, Group columns, Sum& sum) {
#if HWY_TARGET <= HWY_AVX2
  // The addition is written out because GCC puts it off otherwise, until the products fill all registers.
  const Int products = hn::ReorderWidenMulAccumulate(kInt, x, columns, hn::Zero(kInt), sum.odd);
  auto even = sum.even.raw;
  asm("vpaddd %1, %0, %0" : "+v"(even) : "v"(products.raw));
  sum.even = Int{even};
#else
  sum.even = hn::ReorderWidenMulAccumulate(kInt, x, columns, sum.even, sum.odd);
#endif
}

HWY_INLINE Int whole(Sum sum) { return hn::RearrangeToOddPlusEven(sum.even, sum.odd); }

#endif

Int8Format Format() {
  return {kGroup, kColumns, static_cast<int64_t>(sizeof(Element)), HWY_MAX(kLanes, kGroup)};
}

// Panel p of values (O, I).
void PackPanel(const Tensor& values, int64_t p, int8_t* panel) {
  const int64_t O = values.dim(0), I = values.dim(1);
  int32_t column_sums[kColumns] = {};
  for (int64_t c = 0; c < HWY_MIN(kColumns, O - p * kColumns); ++c) {
    const int8_t* row = values.row<int8_t>(p * kColumns + c);
    for (int64_t i = 0; i < I; ++i) {
      panel[(i / kGroup * kColumns + c) * kGroup + i % kGroup] = row[i];
      column_sums[c] += row[i];
    }
  }
  std::memcpy(panel + Format().groups(I) * kColumns * kGroup, column_sums, sizeof(column_sums));
}

// One row of x (I) to 8 bits.
void RoundRow(const float* x, int64_t I, RoundedRows rows, int64_t i) {
  Float low = hn::Zero(kFloat), high = low;
  each_vector(I, [&](auto lanes, int64_t k) HWY_ATTR {
    low = hn::Min(low, lanes.load(x + k));
    high = hn::Max(high, lanes.load(x + k));
  });
  low = hn::MinOfLanes(kFloat, low);
  const float range = hn::GetLane(hn::Sub(hn::MaxOfLanes(kFloat, high), low));
  rows.scales[i] = range / 255.0f;
  const Float inverse = set(range > 0.0f ? 255.0f / range : 0.0f);
  const Int lowest = hn::NearestInt(hn::Mul(low, inverse)), highest = hn::Add(lowest, hn::Set(kInt, 255));
  rows.lowest[i] = hn::GetLane(lowest);
  const Int start = kFromLowest ? lowest : hn::Zero(kInt);
  const hn::Rebind<Element, IntTag> narrow;
  Element* const to = reinterpret_cast<Element*>(rows.row(i));
  each_vector(I, [&](auto lanes, int64_t k) HWY_ATTR {
    const Int step = hn::Min(hn::NearestInt(hn::Mul(lanes.load(x + k), inverse)), highest);
    hn::StoreU(hn::DemoteTo(narrow, hn::Sub(step, start)), narrow, to + k);
  });
}

// sums (kRows, kColumns) of the products of a panel's columns and kRows rows of x.
template <int kRows>
void sum_products(const int8_t* panel, const uint8_t* x, int64_t row_bytes, int64_t groups, int32_t* sums) {
  constexpr int kSums = kRows * kVectors;
  Sum all[kSums];
  unrolled<kSums>([&](auto i) HWY_ATTR { all[i] = zero_sum(); });
  for (int64_t g = 0; g < groups; ++g, panel += kColumns * kGroup, x += kGroup * sizeof(Element)) {
    Group columns[kVectors];
    unrolled<kVectors>([&](auto v) HWY_ATTR { columns[v] = load_columns(panel + v * kLanes * kGroup); });
    unrolled<kRows>([&](auto r) HWY_ATTR {
      const Group group = group_everywhere(x + r * row_bytes);
      unrolled<kVectors>([&](auto v) HWY_ATTR { add_products(group, columns[v], all[r * kVectors + v]); });
    });
  }
  unrolled<kSums>([&](auto i) HWY_ATTR { hn::Store(whole(all[i]), kInt, sums + i * kLanes); });
}

// The same for `rows` rows, at most kRows.
template <int kRows>
void sum_products(const int8_t* panel, const uint8_t* x, int64_t row_bytes, int64_t groups, int32_t* sums,
                  int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return sum_products<kRows - 1>(panel, x, row_bytes, groups, sums, rows);
  }
  sum_products<kRows>(panel, x, row_bytes, groups, sums);
}

// Rows i to i + rows - 1 of y, the columns of panel p.
void Int8Tile(const Int8Product& product, int64_t i, int64_t rows, int64_t p) {
  const int64_t groups = Format().groups(product.I);
  const int8_t* const panel = product.panels + p * Format().panel_bytes(product.I);
  HWY_ALIGN int32_t sums[kMostRows * kColumns], column_sums[kColumns];
  sum_products<kMostRows>(panel, product.x.row(i), product.x.row_bytes, groups, sums, rows);
  std::memcpy(column_sums, panel + groups * kColumns * kGroup, sizeof(column_sums));
  each_vector(HWY_MIN(kColumns, product.O - p * kColumns), [&](auto lanes, int64_t c) HWY_ATTR {
    const int64_t at = p * kColumns + c;
    const Float scale = lanes.load(product.scales + at);
    const Float bias = product.bias != nullptr ? lanes.load(product.bias + at) : hn::Zero(kFloat);
    for (int64_t r = 0; r < rows; ++r) {
      Int sum = hn::Load(kInt, sums + r * kColumns + c);
      if constexpr (kFromLowest) {
        const Int lowest = hn::Set(kInt, product.x.lowest[i + r]);
        sum = hn::Add(sum, hn::Mul(lowest, hn::Load(kInt, column_sums + c)));
      }
      const Float factor = hn::Mul(set(product.x.scales[i + r]), scale);
      lanes.store(hn::MulAdd(hn::ConvertTo(kFloat, sum), factor, bias), product.y.row(i + r) + at);
    }
  });
}

// Panels `from` to `to` of y. The rows of x that are at work stay in the second cache meanwhile, a panel in
// the first.
void Int8Panels(const Int8Product& product, int64_t from, int64_t to) {
  constexpr int64_t kBytes = int64_t{1} << 17;
  const int64_t block = HWY_MAX(kBytes / HWY_MAX(product.x.row_bytes, 1) / kMostRows, 1) * kMostRows;
  for (int64_t begin = 0; begin < product.N; begin += block) {
    const int64_t rows = HWY_MIN(block, product.N - begin);
    const int64_t tiles = (rows + kMostRows - 1) / kMostRows;  // of nearly equal size
    for (int64_t p = from; p < to; ++p) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t first = rows * t / tiles, next = rows * (t + 1) / tiles;
        Int8Tile(product, begin + first, next - first, p);
      }
    }
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

HWY_EXPORT(Format);
HWY_EXPORT(PackPanel);
HWY_EXPORT(RoundRow);
HWY_EXPORT(Int8Panels);

// Multiplications worth a thread of their own.
constexpr int64_t kGrain = int64_t{1} << 18;

}  // namespace
}  // namespace cpu

void CpuBackend::pack(Int8Matrix& weight) {
  using namespace cpu;
  const int64_t O = weight.values.dim(0), I = weight.values.dim(1);
  check_input(I <= 65536, "[pack] rows of {} elements are too long for 8 bits: 65536 at most", I);
  const Int8Format format = HWY_DYNAMIC_DISPATCH(Format)();
  weight.packed = Tensor::zeros({format.panels(O), format.panel_bytes(I)}, DType::int8);
  parallel_for(format.panels(O), 16, [&](int64_t from, int64_t to) {
    for (int64_t p = from; p < to; ++p) {
      HWY_DYNAMIC_DISPATCH(PackPanel)(weight.values, p, weight.packed.row<int8_t>(p));
    }
  });
}

void CpuBackend::linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias, Tensor y) {
  using namespace cpu;
  const int64_t N = x.dim(0), O = weight.values.dim(0), I = weight.values.dim(1);
  const Int8Format format = HWY_DYNAMIC_DISPATCH(Format)();
  const int64_t row_bytes = format.row_bytes(I);
  static thread_local Scratch scratch;
  float* const scales = scratch.floats(2 * N + N * row_bytes / 4 + 1);
  int32_t* const lowest = reinterpret_cast<int32_t*>(scales + N);
  const RoundedRows rows{reinterpret_cast<uint8_t*>(lowest + N), row_bytes, scales, lowest};
  parallel_for(N, 16384 / std::max<int64_t>(I, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) HWY_DYNAMIC_DISPATCH(RoundRow)(x.row<float>(i), I, rows, i);
  });
  const Int8Product product{N,
                            O,
                            I,
                            rows,
                            weight.packed.data<int8_t>(),
                            weight.scales.data<float>(),
                            data_or_null(bias),
                            Matrix<float>(y)};
  parallel_for(format.panels(O), kGrain / std::max<int64_t>(N * I * format.columns, 1) + 1,
               [&](int64_t from, int64_t to) {
                 HWY_DYNAMIC_DISPATCH(Int8Panels)
                 (product, from, to);
               });
}

}  // namespace transduce
#endif
