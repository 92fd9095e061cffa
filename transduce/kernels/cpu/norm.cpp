// Residual sum and norm in one pass over each row while it is in the cache.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/norm.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include <cmath>

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_NORM_TYPES
#define TRANSDUCE_KERNELS_CPU_NORM_TYPES

struct NormForward {
  const float *x, *branch;   // (N, C); branch may be null
  const float *gain, *bias;  // (C); bias may be null
  float *sum, *y;            // (N, C); sum may be null, or y
  float *mean, *inverse;     // (N), or null
  int64_t C;
  NormSpec norm;
  Dropout dropout;
};

struct NormBackward {
  const float *dy, *sum;        // (N, C)
  const float* gain;            // (C)
  const float *mean, *inverse;  // (N); mean may be null for rms
  float *dx, *dbranch;          // (N, C), or null
  int64_t C;
  NormSpec norm;
  Dropout dropout;
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// sum = x + dropout(branch) over one row whose first element has index `first`.
HWY_INLINE void add_branch(const float* x, const float* branch, int64_t first, int64_t C,
                           DropoutFactors& dropout, float* sum) {
  for (int64_t from = 0; from < C; from += DropoutFactors::kChunk) {
    const int64_t count = HWY_MIN(DropoutFactors::kChunk, C - from);
    const float* factors = dropout.at(first + from, count);
    each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float added = hn::Mul(lanes.load(branch + from + i), lanes.load(factors + i));
      lanes.store(hn::Add(lanes.load(x + from + i), added), sum + from + i);
    });
  }
}

// Rows begin .. end - 1.
void Normalize(const NormForward& a, int64_t begin, int64_t end) {
  DropoutFactors dropout(a.dropout);
  const float width = static_cast<float>(a.C);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = a.x + row * a.C;
    float* y = a.y + row * a.C;
    if (a.branch != nullptr) {
      float* sum = a.sum != nullptr ? a.sum + row * a.C : y;
      add_branch(x, a.branch + row * a.C, row * a.C, a.C, dropout, sum);
      x = sum;
    }
    float mean = 0.0f;
    if (a.norm.kind == NormKind::layer) {
      mean = sum_over(a.C, [&](auto lanes, int64_t i) HWY_ATTR { return lanes.load(x + i); }) / width;
    }
    const float squares = sum_over(a.C, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float centred = hn::Sub(lanes.load(x + i), set(mean));
      return hn::Mul(centred, centred);
    });
    const float inverse = 1.0f / std::sqrt(squares / width + static_cast<float>(a.norm.epsilon));
    each_vector(a.C, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float normal = hn::Mul(hn::Sub(lanes.load(x + i), set(mean)), set(inverse));
      const Float bias = a.bias != nullptr ? lanes.load(a.bias + i) : hn::Zero(kFloat);
      lanes.store(hn::MulAdd(normal, lanes.load(a.gain + i), bias), y + i);
    });
    if (a.mean != nullptr) a.mean[row] = mean;
    if (a.inverse != nullptr) a.inverse[row] = inverse;
  }
}

// One row's gradient with g = dy * gain and n = (sum - mean) * inverse: inverse * (g - mean(g) - n mean(g
// n)), without mean(g) for rms. Written to `drow`; dgain and dbias (null: not wanted) are added to.
HWY_INLINE void normalize_row_backward(const NormBackward& a, int64_t row, float* drow, float* dgain,
                                       float* dbias) {
  const float *dy = a.dy + row * a.C, *sum = a.sum + row * a.C;
  const bool centred = a.norm.kind == NormKind::layer;
  const float inverse = a.inverse[row], mean = centred ? a.mean[row] : 0.0f;
  Float g_sum = hn::Zero(kFloat), gn_sum = hn::Zero(kFloat);
  each_vector(a.C, [&](auto lanes, int64_t i) HWY_ATTR {
    const Float dvalue = lanes.load(dy + i);
    const Float normal = hn::Mul(hn::Sub(lanes.load(sum + i), set(mean)), set(inverse));
    const Float g = hn::Mul(dvalue, lanes.load(a.gain + i));  // 0 in lanes past the end
    g_sum = hn::Add(g_sum, g);
    gn_sum = hn::MulAdd(g, normal, gn_sum);
    if (dgain != nullptr) lanes.store(hn::MulAdd(dvalue, normal, lanes.load(dgain + i)), dgain + i);
    if (dbias != nullptr) lanes.store(hn::Add(dvalue, lanes.load(dbias + i)), dbias + i);
  });
  const float width = static_cast<float>(a.C);
  const float g_mean = centred ? hn::GetLane(hn::SumOfLanes(kFloat, g_sum)) / width : 0.0f;
  const float gn_mean = hn::GetLane(hn::SumOfLanes(kFloat, gn_sum)) / width;
  each_vector(a.C, [&](auto lanes, int64_t i) HWY_ATTR {
    const Float normal = hn::Mul(hn::Sub(lanes.load(sum + i), set(mean)), set(inverse));
    const Float g = hn::MulSub(lanes.load(dy + i), lanes.load(a.gain + i), set(g_mean));
    lanes.store(hn::Mul(hn::NegMulAdd(normal, set(gn_mean), g), set(inverse)), drow + i);
  });
}

// Rows begin .. end - 1; `room`, `dgain` and `dbias` (C) belong to the caller's stretch of rows.
void NormalizeBackward(const NormBackward& a, float* room, float* dgain, float* dbias, int64_t begin,
                       int64_t end) {
  DropoutFactors dropout(a.dropout);
  for (int64_t row = begin; row < end; ++row) {
    normalize_row_backward(a, row, room, dgain, dbias);
    if (a.dx != nullptr) {
      float* dx = a.dx + row * a.C;
      each_vector(a.C, [&](auto lanes, int64_t i) HWY_ATTR {
        lanes.store(hn::Add(lanes.load(dx + i), lanes.load(room + i)), dx + i);
      });
    }
    if (a.dbranch != nullptr) {
      float* dbranch = a.dbranch + row * a.C;
      add_branch(dbranch, room, row * a.C, a.C, dropout, dbranch);
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

HWY_EXPORT(Normalize);
HWY_EXPORT(NormalizeBackward);

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 8192;

// Rows are cut into stretches by their number alone; each sums dgain and dbias into room of its own, and the
// partial sums are added in the order of the stretches: the result does not depend on the number of threads.
void normalize_backward(const NormBackward& arguments, int64_t N, float* dgain, float* dbias) {
  constexpr int64_t kRows = 64, kMostStretches = 64;
  const int64_t C = arguments.C, stretches = std::clamp<int64_t>(N / kRows, 1, kMostStretches);
  static thread_local Scratch scratch;
  float* const rooms = scratch.floats(stretches * 3 * C);  // (stretches, 3, C): a row, dgain, dbias
  parallel_for(stretches, kGrain * stretches / std::max<int64_t>(N * C, 1) + 1,
               [&](int64_t from, int64_t to) {
                 for (int64_t s = from; s < to; ++s) {
                   float* const room = rooms + s * 3 * C;
                   std::fill_n(room + C, 2 * C, 0.0f);
                   HWY_DYNAMIC_DISPATCH(NormalizeBackward)
                   (arguments, room, dgain != nullptr ? room + C : nullptr,
                    dbias != nullptr ? room + 2 * C : nullptr, N * s / stretches, N * (s + 1) / stretches);
                 }
               });
  if (dgain != nullptr) add_column_sums(stretches, C, Matrix<const float>(rooms + C, 3 * C), dgain);
  if (dbias != nullptr) add_column_sums(stretches, C, Matrix<const float>(rooms + 2 * C, 3 * C), dbias);
}

}  // namespace
}  // namespace cpu

void CpuBackend::residual_norm(const Tensor& x, const Tensor& branch, const Dropout& dropout,
                               const Tensor& gain, const Tensor& bias, const NormSpec& norm, Tensor sum,
                               Tensor y, Tensor mean, Tensor inverse_deviation) {
  const int64_t C = y.dim(1);
  const cpu::NormForward arguments{x.data<float>(),
                                   cpu::data_or_null(branch),
                                   gain.data<float>(),
                                   cpu::data_or_null(bias),
                                   cpu::data_or_null(sum),
                                   y.data<float>(),
                                   cpu::data_or_null(mean),
                                   cpu::data_or_null(inverse_deviation),
                                   C,
                                   norm,
                                   dropout};
  parallel_for(y.dim(0), cpu::kGrain / std::max<int64_t>(C, 1) + 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::Normalize)(arguments, begin, end);
  });
}

void CpuBackend::residual_norm_backward(const Tensor& dy, const Tensor& sum, const Tensor& gain,
                                        const Tensor& mean, const Tensor& inverse_deviation,
                                        const NormSpec& norm, const Dropout& dropout, Tensor dx,
                                        Tensor dbranch, Tensor dgain, Tensor dbias) {
  const cpu::NormBackward arguments{dy.data<float>(),
                                    sum.data<float>(),
                                    gain.data<float>(),
                                    cpu::data_or_null(mean),
                                    inverse_deviation.data<float>(),
                                    cpu::data_or_null(dx),
                                    cpu::data_or_null(dbranch),
                                    dy.dim(1),
                                    norm,
                                    dropout};
  cpu::normalize_backward(arguments, dy.dim(0), cpu::data_or_null(dgain), cpu::data_or_null(dbias));
}

}  // namespace transduce
#endif
