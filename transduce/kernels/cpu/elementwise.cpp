// Activations, residual sums and dropout. A driver hands ranges of elements to the threads; the loops over a
// range are vector code.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// An activation: its value, and its slope (the derivative) at x.
struct None {
  static HWY_INLINE Float value(Float x) { return x; }
  static HWY_INLINE Float slope(Float) { return set(1.0f); }
};

struct Relu {
  static HWY_INLINE Float value(Float x) { return hn::Max(hn::Zero(kFloat), x); }  // a NaN passes
  static HWY_INLINE Float slope(Float x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(kFloat)), set(1.0f));
  }
};

struct Gelu {
  static HWY_INLINE Float value(Float x) { return hn::Mul(x, normal(x).cumulative); }
  static HWY_INLINE Float slope(Float x) {
    const Normal at = normal(x);
    return hn::MulAdd(x, at.density, at.cumulative);
  }
};

struct Swish {
  static HWY_INLINE Float value(Float x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE Float slope(Float x) {
    const Float s = sigmoid(x);
    return hn::MulAdd(hn::Mul(x, s), hn::Sub(set(1.0f), s), s);
  }
};

// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3) is x sigmoid(2 u).
struct GeluTanh {
  static constexpr float kLinear = 1.59576912f, kCubic = 0.0713548163f;  // 2 u = kLinear x + kCubic x^3
  static HWY_INLINE Float gate(Float x, Float square) {
    return sigmoid(hn::Mul(x, hn::MulAdd(set(kCubic), square, set(kLinear))));
  }
  static HWY_INLINE Float value(Float x) { return hn::Mul(x, gate(x, hn::Mul(x, x))); }
  static HWY_INLINE Float slope(Float x) {
    const Float square = hn::Mul(x, x), s = gate(x, square);
    const Float inner = hn::Mul(x, hn::MulAdd(set(3.0f * kCubic), square, set(kLinear)));
    return hn::MulAdd(hn::Mul(inner, s), hn::Sub(set(1.0f), s), s);
  }
};

// Calls body(i, count, factors) for stretches of the elements begin .. end - 1.
template <class Body>
HWY_INLINE void each_stretch(int64_t begin, int64_t end, const Dropout& dropout, const Body& body) {
  DropoutFactors factors(dropout);
  for (int64_t i = begin; i < end; i += DropoutFactors::kChunk) {
    const int64_t count = HWY_MIN(DropoutFactors::kChunk, end - i);
    body(i, count, factors.at(i, count));
  }
}

template <class Function>
void apply(const float* pre, const Dropout& dropout, float* y, int64_t begin, int64_t end) {
  each_stretch(begin, end, dropout, [&](int64_t from, int64_t count, const float* factors) HWY_ATTR {
    each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float value = Function::value(lanes.load(pre + from + i));
      lanes.store(hn::Mul(value, lanes.load(factors + i)), y + from + i);
    });
  });
}

template <class Function>
void apply_backward(const float* dy, const float* pre, const Dropout& dropout, float* dpre, int64_t begin,
                    int64_t end) {
  each_stretch(begin, end, dropout, [&](int64_t from, int64_t count, const float* factors) HWY_ATTR {
    each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float dvalue = hn::Mul(lanes.load(dy + from + i), lanes.load(factors + i));
      const Float slope = Function::slope(lanes.load(pre + from + i));
      lanes.store(hn::MulAdd(dvalue, slope, lanes.load(dpre + from + i)), dpre + from + i);
    });
  });
}

// Elements begin .. end - 1 of y.
void Activate(const float* pre, Activation kind, const Dropout& dropout, float* y, int64_t begin,
              int64_t end) {
  switch (kind) {
    case Activation::none:
      return apply<None>(pre, dropout, y, begin, end);
    case Activation::relu:
      return apply<Relu>(pre, dropout, y, begin, end);
    case Activation::gelu:
      return apply<Gelu>(pre, dropout, y, begin, end);
    case Activation::gelu_tanh:
      return apply<GeluTanh>(pre, dropout, y, begin, end);
    case Activation::swish:
      return apply<Swish>(pre, dropout, y, begin, end);
    case Activation::swiglu:
      break;  // Swiglu below
  }
}

void ActivateBackward(const float* dy, const float* pre, Activation kind, const Dropout& dropout, float* dpre,
                      int64_t begin, int64_t end) {
  switch (kind) {
    case Activation::none:
      return apply_backward<None>(dy, pre, dropout, dpre, begin, end);
    case Activation::relu:
      return apply_backward<Relu>(dy, pre, dropout, dpre, begin, end);
    case Activation::gelu:
      return apply_backward<Gelu>(dy, pre, dropout, dpre, begin, end);
    case Activation::gelu_tanh:
      return apply_backward<GeluTanh>(dy, pre, dropout, dpre, begin, end);
    case Activation::swish:
      return apply_backward<Swish>(dy, pre, dropout, dpre, begin, end);
    case Activation::swiglu:
      break;
  }
}

// Rows begin .. end - 1 of y (N, F) from pre (N, 2F), the gate in its first half.
void Swiglu(const float* pre, const Dropout& dropout, float* y, int64_t F, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = pre + row * 2 * F - row * F, *linear = gate + F;  // indexed by the elements of y
    each_stretch(row * F, row * F + F, dropout,
                 [&](int64_t from, int64_t count, const float* factors) HWY_ATTR {
                   each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
                     const Float product =
                         hn::Mul(Swish::value(lanes.load(gate + from + i)), lanes.load(linear + from + i));
                     lanes.store(hn::Mul(product, lanes.load(factors + i)), y + from + i);
                   });
                 });
  }
}

void SwigluBackward(const float* dy, const float* pre, const Dropout& dropout, float* dpre, int64_t F,
                    int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = pre + row * 2 * F - row * F, *linear = gate + F;
    float *dgate = dpre + row * 2 * F - row * F, *dlinear = dgate + F;
    each_stretch(row * F, row * F + F, dropout,
                 [&](int64_t from, int64_t count, const float* factors) HWY_ATTR {
                   each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
                     const int64_t at = from + i;
                     const Float dvalue = hn::Mul(lanes.load(dy + at), lanes.load(factors + i));
                     const Float x = lanes.load(gate + at);
                     const Float to_gate = hn::Mul(hn::Mul(dvalue, lanes.load(linear + at)), Swish::slope(x));
                     lanes.store(hn::Add(lanes.load(dgate + at), to_gate), dgate + at);
                     lanes.store(hn::MulAdd(dvalue, Swish::value(x), lanes.load(dlinear + at)), dlinear + at);
                   });
                 });
  }
}

// y = x + dropout(branch); a null x is 0.
void AddDropped(const float* x, const float* branch, const Dropout& dropout, float* y, int64_t begin,
                int64_t end) {
  each_stretch(begin, end, dropout, [&](int64_t from, int64_t count, const float* factors) HWY_ATTR {
    each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Float before = x != nullptr ? lanes.load(x + from + i) : hn::Zero(kFloat);
      lanes.store(hn::MulAdd(lanes.load(branch + from + i), lanes.load(factors + i), before), y + from + i);
    });
  });
}

void AddScaled(float scale, const float* x, float* y, int64_t begin, int64_t end) {
  each_vector(end - begin, [&](auto lanes, int64_t i) HWY_ATTR {
    lanes.store(hn::MulAdd(set(scale), lanes.load(x + begin + i), lanes.load(y + begin + i)), y + begin + i);
  });
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;

HWY_EXPORT(Activate);
HWY_EXPORT(ActivateBackward);
HWY_EXPORT(Swiglu);
HWY_EXPORT(SwigluBackward);
HWY_EXPORT(AddDropped);
HWY_EXPORT(AddScaled);

// y = x + dropout(branch) over all elements.
void add_dropped(const float* x, const Tensor& branch, const Dropout& dropout, const Tensor& y) {
  parallel_for(y.size(), kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(AddDropped)(x, branch.data<float>(), dropout, y.data<float>(), begin, end);
  });
}

}  // namespace
}  // namespace cpu

using cpu::kGrain;

void CpuBackend::activation(const Tensor& pre, Activation kind, const Dropout& dropout, Tensor y) {
  const float* from = pre.data<float>();
  float* to = y.data<float>();
  if (kind == Activation::swiglu) {
    const int64_t F = y.dim(1);
    parallel_for(y.dim(0), kGrain / 2 / std::max<int64_t>(F, 1) + 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(cpu::Swiglu)(from, dropout, to, F, begin, end);
    });
    return;
  }
  parallel_for(y.size(), kGrain / 2, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::Activate)(from, kind, dropout, to, begin, end);
  });
}

void CpuBackend::activation_backward(const Tensor& dy, const Tensor& pre, Activation kind,
                                     const Dropout& dropout, Tensor dpre) {
  const float *from = dy.data<float>(), *at = pre.data<float>();
  float* to = dpre.data<float>();
  if (kind == Activation::swiglu) {
    const int64_t F = dy.dim(1);
    parallel_for(dy.dim(0), kGrain / 2 / std::max<int64_t>(F, 1) + 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(cpu::SwigluBackward)(from, at, dropout, to, F, begin, end);
    });
    return;
  }
  parallel_for(dy.size(), kGrain / 2, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::ActivateBackward)(from, at, kind, dropout, to, begin, end);
  });
}

void CpuBackend::residual(const Tensor& x, const Tensor& branch, const Dropout& dropout, Tensor y) {
  cpu::add_dropped(x.data<float>(), branch, dropout, y);
}

void CpuBackend::residual_backward(const Tensor& dy, const Dropout& dropout, Tensor dx, Tensor dbranch) {
  if (dx) accumulate(1.0, dy, dx);
  if (dbranch) cpu::add_dropped(dbranch.data<float>(), dy, dropout, dbranch);
}

void CpuBackend::dropout(const Tensor& x, const Dropout& dropout, Tensor y) {
  cpu::add_dropped(nullptr, x, dropout, y);
}

void CpuBackend::dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx) {
  if (dx) cpu::add_dropped(dx.data<float>(), dy, dropout, dx);
}

void CpuBackend::accumulate(double scale, const Tensor& x, Tensor y) {
  parallel_for(y.size(), kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::AddScaled)
    (static_cast<float>(scale), x.data<float>(), y.data<float>(), begin, end);
  });
}

}  // namespace transduce
#endif
