// Small matrix products, where a library's set-up costs more than the arithmetic. Included anew for every
// instruction set, so the guard flips instead of staying set.

#if defined(TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#undef TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#else
#define TRANSDUCE_KERNELS_CPU_PRODUCT_INL_H_
#endif

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

// kRows rows and kVectors vectors of c, held in registers while k runs; `last` says how much of the last
// vector is there.
template <int kRows, int kVectors, class Lanes>
HWY_INLINE void product_tile(int64_t K, LeftFactor a, Matrix<const float> b, bool add, Matrix<float> c,
                             Lanes last) {
  Float sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(kFloat);
  }
  const float *left = a.data, *right = b.data;
  for (int64_t k = 0; k < K; ++k, left += a.column, right += b.stride) {
    Float from[kVectors];
    for (int v = 0; v < kVectors - 1; ++v) from[v] = hn::LoadU(kFloat, right + v * kLanes);
    from[kVectors - 1] = last.load(right + (kVectors - 1) * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const Float factor = set(left[i * a.row]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(factor, from[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c.row(i) + v * kLanes;
      if (v < kVectors - 1) {
        hn::StoreU(add ? hn::Add(hn::LoadU(kFloat, to), sums[i][v]) : sums[i][v], kFloat, to);
      } else {
        last.store(add ? hn::Add(last.load(to), sums[i][v]) : sums[i][v], to);
      }
    }
  }
}

// All M rows of kVectors vectors of c.
template <int kVectors, class Lanes>
HWY_INLINE void product_strip(int64_t M, int64_t K, LeftFactor a, Matrix<const float> b, bool add,
                              Matrix<float> c, Lanes last) {
  int64_t i = 0;
  for (; i + 4 <= M; i += 4, a.data += 4 * a.row, c.data += 4 * c.stride) {
    product_tile<4, kVectors>(K, a, b, add, c, last);
  }
  switch (M - i) {
    case 3:
      return product_tile<3, kVectors>(K, a, b, add, c, last);
    case 2:
      return product_tile<2, kVectors>(K, a, b, add, c, last);
    case 1:
      return product_tile<1, kVectors>(K, a, b, add, c, last);
  }
}

// c (M, N) = a b, or c += a b: a (M, K), b (K, N).
inline void product(int64_t M, int64_t N, int64_t K, LeftFactor a, Matrix<const float> b, bool add,
                    Matrix<float> c) {
  int64_t j = 0;
  const auto advance = [&](int64_t columns) HWY_ATTR { j += columns, b.data += columns, c.data += columns; };
  if (M == 1) {  // more vectors at a time, so that there are enough independent sums
    for (; j + 8 * kLanes <= N; advance(8 * kLanes)) product_tile<1, 8>(K, a, b, add, c, AllLanes());
    for (; j + 4 * kLanes <= N; advance(4 * kLanes)) product_tile<1, 4>(K, a, b, add, c, AllLanes());
  }
  for (; j + 2 * kLanes <= N; advance(2 * kLanes)) product_strip<2>(M, K, a, b, add, c, AllLanes());
  for (; j + kLanes <= N; advance(kLanes)) product_strip<1>(M, K, a, b, add, c, AllLanes());
  if (j < N) product_strip<1>(M, K, a, b, add, c, FirstLanes{static_cast<size_t>(N - j)});
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
