// The tile of a matrix product that is held in registers, and what is built of tiles without copying the
// factors: products of small matrices. Included anew for every instruction set, so the guard flips instead of
// staying set.

#if defined(TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#undef TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#else
#define TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>

#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// A left factor (M, K): element (i, k) lies at data[i * row + k * column], so a transposed one is as good.
struct LeftFactor {
  const float* data;
  int64_t row, column;
};

// Rows of a tile: as many as leave room in the registers for two vectors of sums each, two of b and one of a.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr int kTileRows = 6;  // of 16 registers
#else
constexpr int kTileRows = 12;  // of 32
#endif

// kRows rows and kVectors vectors of c, held in registers while k runs; `last` says how much of the last
// vector is there. c = base + a b: `base` is c itself to accumulate, one row again and again with a stride of
// 0, or null for zero.
template <int kRows, int kVectors, class Lanes>
HWY_INLINE void product_tile(int64_t K, LeftFactor a, Matrix<const float> b, Matrix<const float> base,
                             Matrix<float> c, Lanes last) {
  Float sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    if (base.data != nullptr) {  // read at the end, so that it is on its way meanwhile
      hwy::Prefetch(base.row(i));
      hwy::Prefetch(base.row(i) + kVectors * kLanes - 1);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(kFloat);
  }
  const float *left = a.data, *right = b.data;
#pragma GCC unroll 4
  for (int64_t k = 0; k < K; ++k, left += a.column, right += b.stride) {
    Float from[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors - 1; ++v) from[v] = hn::LoadU(kFloat, right + v * kLanes);
    from[kVectors - 1] = last.load(right + (kVectors - 1) * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const Float factor = set(left[i * a.row]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(factor, from[v], sums[i][v]);
    }
  }
  const auto finish = [&](int i, int v, auto lanes) HWY_ATTR {
    const int64_t at = v * kLanes;
    const Float sum = sums[i][v];
    lanes.store(base.data != nullptr ? hn::Add(lanes.load(base.row(i) + at), sum) : sum, c.row(i) + at);
  };
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors - 1; ++v) finish(i, v, AllLanes());
    finish(i, kVectors - 1, last);
  }
}

// The last M rows, fewer than kRows + 1.
template <int kRows, int kVectors, class Lanes>
HWY_INLINE void product_rest(int64_t M, int64_t K, LeftFactor a, Matrix<const float> b,
                             Matrix<const float> base, Matrix<float> c, Lanes last) {
  if (M == kRows) return product_tile<kRows, kVectors>(K, a, b, base, c, last);
  if constexpr (kRows > 1) product_rest<kRows - 1, kVectors>(M, K, a, b, base, c, last);
}

// All M rows of kVectors vectors of c. `next` elements lie between the beginnings of one tile of a and the
// next.
template <int kVectors, class Lanes>
HWY_INLINE void product_strip(int64_t M, int64_t K, LeftFactor a, int64_t next, Matrix<const float> b,
                              Matrix<const float> base, Matrix<float> c, Lanes last) {
  for (; M >= kTileRows; M -= kTileRows) {
    product_tile<kTileRows, kVectors>(K, a, b, base, c, last);
    a.data += next, c.data += kTileRows * c.stride;
    if (base.data != nullptr) base.data += kTileRows * base.stride;
  }
  if (M > 0) product_rest<kTileRows - 1, kVectors>(M, K, a, b, base, c, last);
}

// c (M, N) = base + a b: a (M, K), b (K, N); `base` as in product_tile.
inline void product(int64_t M, int64_t N, int64_t K, LeftFactor a, Matrix<const float> b,
                    Matrix<const float> base, Matrix<float> c) {
  const int64_t next = kTileRows * a.row;
  int64_t j = 0;
  const auto advance = [&](int64_t columns) HWY_ATTR {
    j += columns, b.data += columns, c.data += columns;
    if (base.data != nullptr) base.data += columns;
  };
  if (M == 1) {  // more vectors at a time, so that there are enough independent sums
    for (; j + 8 * kLanes <= N; advance(8 * kLanes)) product_tile<1, 8>(K, a, b, base, c, AllLanes());
    for (; j + 4 * kLanes <= N; advance(4 * kLanes)) product_tile<1, 4>(K, a, b, base, c, AllLanes());
  }
  for (; j + 2 * kLanes <= N; advance(2 * kLanes)) product_strip<2>(M, K, a, next, b, base, c, AllLanes());
  for (; j + kLanes <= N; advance(kLanes)) product_strip<1>(M, K, a, next, b, base, c, AllLanes());
  if (j < N) product_strip<1>(M, K, a, next, b, base, c, FirstLanes{static_cast<size_t>(N - j)});
}

#if HWY_TARGET != HWY_SCALAR
// Four rows from row s on, the first `rows` of which are there (the others count as zeros), become four
// columns. `D` is a multiple of 4.
template <bool kAll>
HWY_INLINE void transpose_rows(int64_t s, int64_t rows, int64_t D, Matrix<const float> from,
                               Matrix<float> to) {
  const hn::FixedTag<float, 4> four;
  for (int64_t d = 0; d < D; d += 4) {
    const auto row = [&](int64_t i) HWY_ATTR {
      return kAll || i < rows ? hn::LoadU(four, from.row(s + i) + d) : hn::Zero(four);
    };
    const auto row0 = row(0), row1 = row(1), row2 = row(2), row3 = row(3);
    const auto low02 = hn::InterleaveLower(four, row0, row2), high02 = hn::InterleaveUpper(four, row0, row2);
    const auto low13 = hn::InterleaveLower(four, row1, row3), high13 = hn::InterleaveUpper(four, row1, row3);
    hn::StoreU(hn::InterleaveLower(four, low02, low13), four, to.row(d) + s);
    hn::StoreU(hn::InterleaveUpper(four, low02, low13), four, to.row(d + 1) + s);
    hn::StoreU(hn::InterleaveLower(four, high02, high13), four, to.row(d + 2) + s);
    hn::StoreU(hn::InterleaveUpper(four, high02, high13), four, to.row(d + 3) + s);
  }
}
#endif

// to (D, stride) = the transpose of from (S, D), zeros in the columns past S; stride is round_up(S).
inline void transpose(int64_t S, int64_t D, Matrix<const float> from, Matrix<float> to) {
#if HWY_TARGET == HWY_SCALAR
  const int64_t whole = 0;
#else
  const int64_t whole = D / 4 * 4;
  int64_t row = 0;
  for (; row + 4 <= S; row += 4) transpose_rows<true>(row, 4, whole, from, to);
  for (; row < to.stride; row += 4) transpose_rows<false>(row, S - row, whole, from, to);
#endif
  for (int64_t d = whole; d < D; ++d) {
    for (int64_t s = 0; s < to.stride; ++s) to.row(d)[s] = s < S ? from.row(s)[d] : 0.0f;
  }
}

// to (M, N) = from, or to += from.
inline void copy(int64_t M, int64_t N, Matrix<const float> from, bool add, Matrix<float> to) {
  for (int64_t i = 0; i < M; ++i) {
    const float* const read = from.row(i);
    float* const write = to.row(i);
    each_vector(N, [&](auto lanes, int64_t j) HWY_ATTR {
      const Float value = lanes.load(read + j);
      lanes.store(add ? hn::Add(value, lanes.load(write + j)) : value, write + j);
    });
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
