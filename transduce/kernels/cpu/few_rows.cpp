// Linear layers of few rows, as decoding has them one sentence at a time: reading the weight takes the time,
// so each of its rows is read once, from its beginning to its end, and meets several rows of x on the way.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/few_rows.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

constexpr int kMostRows = 6;  // with two sums each: what the registers of AVX2 hold

// sums[r] = the product of row r of x (kRows, I) and a row of the weight (I), whose order does not depend on
// kRows.
template <int kRows>
HWY_INLINE void dot_rows(int64_t I, Matrix<const float> x, const float* weight, float* sums) {
  Float even[kRows], odd[kRows];
  unrolled<kRows>([&](auto r) HWY_ATTR { even[r] = odd[r] = hn::Zero(kFloat); });
  int64_t k = 0;
  for (; k + 2 * kLanes <= I; k += 2 * kLanes) {
    const Float w0 = hn::LoadU(kFloat, weight + k), w1 = hn::LoadU(kFloat, weight + k + kLanes);
    unrolled<kRows>([&](auto r) HWY_ATTR {
      even[r] = hn::MulAdd(hn::LoadU(kFloat, x.row(r) + k), w0, even[r]);
      odd[r] = hn::MulAdd(hn::LoadU(kFloat, x.row(r) + k + kLanes), w1, odd[r]);
    });
  }
  each_vector(I - k, [&](auto lanes, int64_t i) HWY_ATTR {
    const Float w0 = lanes.load(weight + k + i);
    unrolled<kRows>([&](auto r)
                        HWY_ATTR { even[r] = hn::MulAdd(lanes.load(x.row(r) + k + i), w0, even[r]); });
  });
  unrolled<kRows>([&](auto r)
                      HWY_ATTR { sums[r] = hn::GetLane(hn::SumOfLanes(kFloat, hn::Add(even[r], odd[r]))); });
}

constexpr int64_t kPiece = 1024;  // elements of a row that are summed up together

// Columns `begin` to `end` of `rows` rows of y, at most kRows; elements `from` to `to` of their sums, piece
// by piece. `from` is the beginning of a piece.
template <int kRows>
void add_products(const FewRows& f, int64_t i, int64_t rows, int64_t begin, int64_t end, int64_t from,
                  int64_t to) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return add_products<kRows - 1>(f, i, rows, begin, end, from, to);
  }
  const Matrix<const float> x(f.x.row(i), f.x.stride);
  for (int64_t o = begin; o < end; ++o) {
    float totals[kRows], sums[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      totals[r] = from > 0 ? f.y.row(i + r)[o] : f.bias != nullptr ? f.bias[o] : 0.0f;
    }
    for (int64_t k = from; k < to; k += kPiece) {
      dot_rows<kRows>(HWY_MIN(kPiece, to - k), {x.data + k, x.stride}, f.weight.row(o) + k, sums);
      for (int64_t r = 0; r < kRows; ++r) totals[r] += sums[r];
    }
    for (int64_t r = 0; r < kRows; ++r) f.y.row(i + r)[o] = totals[r];
  }
}

// Columns `begin` to `end` of y. Rows of x that do not fit into the first cache as a whole take part piece by
// piece, with a block of the weight that does.
void LinearFewRows(const FewRows& f, int64_t begin, int64_t end) {
  constexpr int64_t kCache = 6144, kBlock = 4096;           // elements
  const int64_t tiles = (f.N + kMostRows - 1) / kMostRows;  // of nearly equal size
  const int64_t step = f.N * f.I <= kCache ? HWY_MAX(f.I, 1) : kPiece;
  const int64_t block = HWY_MAX(kBlock / HWY_MAX(HWY_MIN(f.I, step), 1), 1);
  for (int64_t o = begin; o < end; o += block) {
    for (int64_t from = 0; from == 0 || from < f.I; from += step) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t i = f.N * t / tiles, next = f.N * (t + 1) / tiles;
        add_products<kMostRows>(f, i, next - i, o, HWY_MIN(o + block, end), from, HWY_MIN(from + step, f.I));
      }
    }
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce::cpu {
namespace {
HWY_EXPORT(LinearFewRows);
}  // namespace

void linear_few_rows(const FewRows& f, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(LinearFewRows)(f, begin, end);
}

}  // namespace transduce::cpu
#endif
