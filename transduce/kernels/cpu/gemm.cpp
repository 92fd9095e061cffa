// The matrix product of large factors on one thread, after Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008): c is made tile by tile in registers; the factors are cut
// into blocks, and a block of b is copied into panels that lie in memory as the tiles read them. A panel
// stays in the first-level cache while the rows of a pass by.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/gemm.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/product-inl.h"
#include "transduce/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kPanel = 2 * kLanes;  // columns of a panel of b
constexpr int64_t kDepth = 256;         // of k in a block: a panel then fills half of the first-level cache
constexpr int64_t kColumns = 1024;      // of b in a block
constexpr int64_t kRows = 16 * kTileRows;  // of a in a block

// to: panels (K, kPanel) one after another, zeros past the last column, of op(b) (K, N).
void pack_panels(int64_t N, int64_t K, Transpose transposed, Matrix<const float> b, float* to) {
  for (int64_t j = 0; j < N; j += kPanel, to += kPanel * K) {
    const int64_t columns = HWY_MIN(kPanel, N - j);
    if (transposed == Transpose::yes) {
      transpose(columns, K, {b.row(j), b.stride}, {to, kPanel});
    } else if (columns == kPanel) {
      for (int64_t k = 0; k < K; ++k) {
        hn::Store(hn::LoadU(kFloat, b.row(k) + j), kFloat, to + k * kPanel);
        hn::Store(hn::LoadU(kFloat, b.row(k) + j + kLanes), kFloat, to + k * kPanel + kLanes);
      }
    } else {
      for (int64_t k = 0; k < K; ++k) {
        for (int64_t i = 0; i < kPanel; ++i) to[k * kPanel + i] = i < columns ? b.row(k)[j + i] : 0.0f;
      }
    }
  }
}

// to: tiles (K, kTileRows) one after another of the transpose of `a` (K, M).
void pack_left(int64_t M, int64_t K, Matrix<const float> a, float* to) {
  for (int64_t i = 0; i < M; i += kTileRows, to += kTileRows * K) {
    if (i + kTileRows <= M) {
      for (int64_t k = 0; k < K; ++k)
        std::memcpy(to + k * kTileRows, a.row(k) + i, kTileRows * sizeof(float));
    } else {
      for (int64_t k = 0; k < K; ++k) std::memcpy(to + k * kTileRows, a.row(k) + i, (M - i) * sizeof(float));
    }
  }
}

// A strip of c: M rows, the columns of one panel.
HWY_INLINE void strip(int64_t M, int64_t columns, int64_t K, LeftFactor a, int64_t next, const float* panel,
                      Matrix<const float> base, Matrix<float> c) {
  const Matrix<const float> b(panel, kPanel);
  if (columns == kPanel) return product_strip<2>(M, K, a, next, b, base, c, AllLanes());
  const auto last = static_cast<size_t>(columns > kLanes ? columns - kLanes : columns);
  if (columns > kLanes) return product_strip<2>(M, K, a, next, b, base, c, FirstLanes{last});
  product_strip<1>(M, K, a, next, b, base, c, FirstLanes{last});
}

int64_t PaddedColumns(int64_t N) { return (N + kPanel - 1) / kPanel * kPanel; }

void PackRight(Transpose transpose_b, int64_t N, int64_t K, Matrix<const float> b, float* to) {
  for (int64_t k = 0; k < K; k += kDepth) {
    const int64_t depth = HWY_MIN(kDepth, K - k);
    pack_panels(N, depth, transpose_b, transpose_b == Transpose::yes ? b.at(0, k) : b.at(k, 0), to);
    to += PaddedColumns(N) * depth;
  }
}

void Multiply(const Product& p) {
  thread_local Scratch right_room, left_room;
  const bool transposed_a = p.transpose_a == Transpose::yes, transposed_b = p.transpose_b == Transpose::yes;
  for (int64_t k = 0; k == 0 || k < p.K; k += kDepth) {  // once for K = 0 too: c = base
    const int64_t depth = HWY_MIN(kDepth, p.K - k);
    const Matrix<const float> base = k == 0 ? p.base : p.c;
    for (int64_t j = 0; j < p.N; j += kColumns) {
      const int64_t columns = HWY_MIN(kColumns, p.N - j);
      const float* panels = p.packed.data + k * p.packed.columns + (p.packed.beginning + j) * depth;
      if (p.packed.data == nullptr) {
        float* const room = right_room.floats(PaddedColumns(columns) * depth);
        pack_panels(columns, depth, p.transpose_b, transposed_b ? p.b.at(j, k) : p.b.at(k, j), room);
        panels = room;
      }
      for (int64_t i = 0; i < p.M; i += kRows) {
        const int64_t rows = HWY_MIN(kRows, p.M - i);
        LeftFactor a{p.a.row(i) + k, p.a.stride, 1};
        int64_t next = kTileRows * p.a.stride;
        if (transposed_a) {
          float* const tiles = left_room.floats(kRows * kDepth);
          pack_left(rows, depth, p.a.at(k, i), tiles);
          a = {tiles, 1, kTileRows};
          next = kTileRows * depth;
        }
        for (int64_t jj = 0; jj < columns; jj += kPanel) {
          const Matrix<const float> from = base.data != nullptr ? base.at(i, j + jj) : base;
          strip(rows, HWY_MIN(kPanel, columns - jj), depth, a, next, panels + jj * depth, from,
                p.c.at(i, j + jj));
        }
      }
    }
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce::cpu {

HWY_EXPORT(Multiply);
HWY_EXPORT(PaddedColumns);
HWY_EXPORT(PackRight);

void multiply(const Product& product) { HWY_DYNAMIC_DISPATCH(Multiply)(product); }

int64_t padded_columns(int64_t N) { return HWY_DYNAMIC_DISPATCH(PaddedColumns)(N); }

void pack_right(Transpose transpose_b, int64_t N, int64_t K, Matrix<const float> b, float* to) {
  HWY_DYNAMIC_DISPATCH(PackRight)(transpose_b, N, K, b, to);
}

}  // namespace transduce::cpu
#endif
