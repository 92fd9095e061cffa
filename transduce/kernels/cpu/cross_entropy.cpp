// The output layer and its loss, a chunk of rows at a time: logits, softmax, loss and gradient all happen in
// the chunk's room.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include <cmath>

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_CROSS_ENTROPY_TYPES
#define TRANSDUCE_KERNELS_CPU_CROSS_ENTROPY_TYPES

struct RowLoss {
  float loss, likelihood;
  int32_t best;
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// Sums run in float32 within a block and in float64 over the blocks: exact enough for any vocabulary.
constexpr int64_t kBlock = 1024;

struct Largest {
  float value;
  int64_t index;  // the first that has it
};
HWY_INLINE Largest largest(const float* x, int64_t count) {
  Largest found{-std::numeric_limits<float>::infinity(), 0};
  int64_t block = 0;
  for (int64_t from = 0; from < count; from += kBlock) {
    const float here = max_over(x + from, HWY_MIN(kBlock, count - from));
    if (here > found.value) found.value = here, block = from;
  }
  found.index = block;
  while (found.index + 1 < count && x[found.index] != found.value) ++found.index;
  return found;
}

// One row of logits (V). With `gradient` they become softmax - (1 - smoothing) [v = target] - smoothing / V,
// the gradient of the loss.
void SoftmaxLoss(float* logits, int64_t V, int32_t target, double smoothing, bool gradient, RowLoss& result) {
  const Largest top = largest(logits, V);
  const Float shift = set(top.value);
  const double target_logit = static_cast<double>(logits[target]) - static_cast<double>(top.value);
  double sum = 0.0, logit_sum = 0.0;  // of e^(logit - largest), of (logit - largest)
  for (int64_t from = 0; from < V; from += kBlock) {
    float* const block = logits + from;
    const int64_t count = HWY_MIN(kBlock, V - from);
    if (smoothing != 0.0) {
      logit_sum += static_cast<double>(sum_over(
          count, [&](auto lanes, int64_t i) HWY_ATTR { return hn::Sub(lanes.load(block + i), shift); }));
    }
    sum += static_cast<double>(sum_over(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float e = exp(hn::Sub(lanes.load(block + i), shift));
      lanes.store(e, block + i);
      return e;
    }));
  }
  const double log_sum = std::log(sum), share = smoothing / static_cast<double>(V);
  result.likelihood = static_cast<float>(target_logit - log_sum);
  result.loss = static_cast<float>(log_sum - (1.0 - smoothing) * target_logit - share * logit_sum);
  result.best = static_cast<int32_t>(top.index);
  if (!gradient) return;
  const Float inverse = set(static_cast<float>(1.0 / sum)), minus = set(static_cast<float>(-share));
  each_vector(V, [&](auto lanes, int64_t i) HWY_ATTR {
    lanes.store(hn::MulAdd(lanes.load(logits + i), inverse, minus), logits + i);
  });
  logits[target] -= static_cast<float>(1.0 - smoothing);
}

// One row of scores (V).
void RowLogSumExp(const float* x, int64_t V, float& result, float* block_max) {
  constexpr int64_t kStep = Backend::score_block;
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t from = 0; from < V; from += kStep) {
    const float here = max_over(x + from, HWY_MIN(kStep, V - from));
    block_max[from / kStep] = here;
    top = HWY_MAX(top, here);
  }
  const Float shift = set(top);
  double sum = 0.0;
  for (int64_t from = 0; from < V; from += kBlock) {
    sum += static_cast<double>(sum_over(HWY_MIN(kBlock, V - from), [&](auto lanes, int64_t i) HWY_ATTR {
      return exp(hn::Sub(lanes.load(x + from + i), shift));
    }));
  }
  result = static_cast<float>(static_cast<double>(top) + std::log(sum));
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

HWY_EXPORT(SoftmaxLoss);
HWY_EXPORT(RowLogSumExp);

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 8192;

}  // namespace
}  // namespace cpu

void CpuBackend::linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      const Tensor& targets, double smoothing, Tensor chunk, Tensor loss,
                                      Tensor likelihood, Tensor best, Tensor dx, Tensor dweight,
                                      Tensor dbias) {
  using cpu::Matrix, cpu::Transpose, cpu::matmul;
  const int64_t N = x.dim(0), C = x.dim(1), V = weight.dim(0), R = chunk.dim(0);
  const bool gradient = dx || dweight || dbias;
  const Matrix<const float> w(weight);
  const Matrix<float> logits(chunk.data<float>(), V);
  for (int64_t first = 0; first < N; first += R) {
    const int64_t rows = std::min(R, N - first);
    const Matrix<const float> in(x.data<float>() + first * C, C);
    cpu::linear(rows, C, V, in, w, cpu::data_or_null(bias), logits);
    parallel_for(rows, cpu::kGrain / V + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        cpu::RowLoss row;
        HWY_DYNAMIC_DISPATCH(cpu::SoftmaxLoss)
        (logits.row(i), V, targets.data<int32_t>()[first + i], smoothing, gradient, row);
        loss.data<float>()[first + i] = row.loss;
        if (likelihood) likelihood.data<float>()[first + i] = row.likelihood;
        if (best) best.data<int32_t>()[first + i] = row.best;
      }
    });
    if (dx) {
      const Matrix<float> to(dx.data<float>() + first * C, C);
      matmul({Transpose::no, Transpose::no, rows, C, V, logits, w, to, to});
    }
    if (dweight) {
      const Matrix<float> to(dweight);
      matmul({Transpose::yes, Transpose::no, V, C, rows, logits, in, to, to});
    }
    if (dbias) cpu::add_column_sums(rows, V, logits, dbias.data<float>());
  }
}

void CpuBackend::log_sum_exp(const Tensor& x, Tensor result, Tensor block_max) {
  const int64_t V = x.dim(1);
  parallel_for(x.dim(0), cpu::kGrain / std::max<int64_t>(V, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(cpu::RowLogSumExp)
      (x.row<float>(i), V, result.data<float>()[i], block_max.row<float>(i));
    }
  });
}

}  // namespace transduce
#endif
