// What the optimiser does with the flat buffers of all parameters.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include <cmath>
#include <numeric>
#include <vector>

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/simd-inl.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_OPTIMIZER_TYPES
#define TRANSDUCE_KERNELS_CPU_OPTIMIZER_TYPES

// Adam's update with all that is constant over the elements folded, in float64, into a few factors.
struct AdamFactors {
  float gradient_scale;
  float coupled_decay;    // added to the gradient, times the parameter (Adam)
  float parameter_scale;  // 1 - learning rate * weight decay (AdamW)
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float root_scale;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float step_size;  // learning rate / (1 - beta1^step)
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

double SumOfSquares(const float* x, int64_t count) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr int64_t kHalf = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<double>()));
  auto a = hn::Zero(wide), b = a, c = a, d = a;
  const auto add_square = [&](auto sum, int64_t i) HWY_ATTR {
    const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, x + i));
    return hn::MulAdd(value, value, sum);
  };
  int64_t i = 0;
  for (; i + 4 * kHalf <= count; i += 4 * kHalf) {
    a = add_square(a, i);
    b = add_square(b, i + kHalf);
    c = add_square(c, i + 2 * kHalf);
    d = add_square(d, i + 3 * kHalf);
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(hn::Add(a, b), hn::Add(c, d))));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void Adam(const AdamFactors& a, const float* gradient, float* parameters, float* first, float* second,
          int64_t begin, int64_t end) {
  each_vector(end - begin, [&](auto lanes, int64_t at) HWY_ATTR {
    const int64_t i = begin + at;
    Float p = lanes.load(parameters + i);
    const Float decay = hn::Mul(set(a.coupled_decay), p);
    const Float g = hn::MulAdd(set(a.gradient_scale), lanes.load(gradient + i), decay);
    const Float m = hn::MulAdd(set(a.beta1), lanes.load(first + i), hn::Mul(set(a.one_minus_beta1), g));
    const Float v =
        hn::MulAdd(set(a.beta2), lanes.load(second + i), hn::Mul(hn::Mul(set(a.one_minus_beta2), g), g));
    const Float root = hn::MulAdd(hn::Sqrt(v), set(a.root_scale), set(a.epsilon));
    p = hn::NegMulAdd(set(a.step_size), hn::Div(m, root), hn::Mul(p, set(a.parameter_scale)));
    lanes.store(p, parameters + i);
    lanes.store(m, first + i);
    lanes.store(v, second + i);
  });
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

HWY_EXPORT(SumOfSquares);
HWY_EXPORT(Adam);

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;

}  // namespace
}  // namespace cpu

// Blocks of a fixed size are summed on their own and then in order, so that the number of threads does not
// matter.
double CpuBackend::sum_of_squares(const Tensor& x) {
  const int64_t count = x.size(), blocks = (count + cpu::kGrain - 1) / cpu::kGrain;
  std::vector<double> sums(static_cast<size_t>(blocks));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t from = b * cpu::kGrain;
      sums[static_cast<size_t>(b)] = HWY_DYNAMIC_DISPATCH(cpu::SumOfSquares)(
          x.data<float>() + from, std::min(cpu::kGrain, count - from));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void CpuBackend::adam(const AdamSpec& spec, const Tensor& gradient, Tensor parameters, Tensor first_moment,
                      Tensor second_moment) {
  const double step = static_cast<double>(spec.step);
  const auto narrow = [](double x) { return static_cast<float>(x); };
  const cpu::AdamFactors factors{
      .gradient_scale = narrow(spec.gradient_scale),
      .coupled_decay = narrow(spec.decoupled ? 0.0 : spec.weight_decay),
      .parameter_scale = narrow(spec.decoupled ? 1.0 - spec.learning_rate * spec.weight_decay : 1.0),
      .beta1 = narrow(spec.beta1),
      .one_minus_beta1 = narrow(1.0 - spec.beta1),
      .beta2 = narrow(spec.beta2),
      .one_minus_beta2 = narrow(1.0 - spec.beta2),
      .root_scale = narrow(1.0 / std::sqrt(1.0 - std::pow(spec.beta2, step))),
      .epsilon = narrow(spec.epsilon),
      .step_size = narrow(spec.learning_rate / (1.0 - std::pow(spec.beta1, step))),
  };
  parallel_for(parameters.size(), cpu::kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::Adam)
    (factors, gradient.data<float>(), parameters.data<float>(), first_moment.data<float>(),
     second_moment.data<float>(), begin, end);
  });
}

}  // namespace transduce
#endif
