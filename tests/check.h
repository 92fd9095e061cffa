#pragma once

// What the tests of differentiable code share: comparing tensors, a loss for any result, complex-step
// derivatives.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "transduce/autograd/tape.h"

namespace transduce::checks {

using Complex = std::complex<double>;
using Values = std::vector<double>;

// The unit roundoff of float32: one operation is off by at most this times its result.
constexpr double roundoff32 = 0x1p-24;

// The elements of a tensor of any floating type, row by row; of complex ones the real part.
inline Values values_of(const Tensor& t) { return t.to(DType::float64).to_vector<double>(); }

// The first element of a tensor of any floating type.
inline Complex first_of(const Tensor& t) { return t.to(DType::complex128).to_vector<Complex>().at(0); }

inline double largest(const Values& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// The largest difference, relative to the largest magnitude of what is expected. Where that is below `floor`
// (a gradient that is zero but for rounding) the difference is taken relative to `floor` instead. NaN where
// the sizes differ or a number is not finite.
inline double relative_error(const Values& got, const Values& expected, double floor = 1e-3) {
  if (got.size() != expected.size()) return NAN;
  double most = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    if (!std::isfinite(difference)) return NAN;
    most = std::max(most, difference);
  }
  return most / std::max(largest(expected), floor);
}

inline void expect_close(const Values& got, const Values& expected, double tolerance,
                         const std::string& what) {
  EXPECT_EQ(got.size(), expected.size()) << what;
  EXPECT_LE(relative_error(got, expected), tolerance) << what;
}

// Bit for bit.
template <class T = float>
void expect_equal(const Tensor& got, const Tensor& expected, const std::string& what) {
  EXPECT_EQ(got.shape(), expected.shape()) << what;
  EXPECT_EQ(got.to_vector<T>(), expected.to_vector<T>()) << what;
}

// sum(y * weights): a loss whose gradient by y is `weights`. Recorded like an op.
inline Var weighted_sum(const Var& y, const Tensor& weights) {
  const std::vector<Complex> a = y.value().to(DType::complex128).to_vector<Complex>();
  const Values b = values_of(weights);
  Complex sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  Var loss(Tensor::of<Complex>({1}, {sum}).to(y.dtype()), y.needs_gradient());
  if (y.dtype() == DType::complex128) return Var(Tensor::of<Complex>({1}, {sum}));
  if (Tape::current() != nullptr && y.needs_gradient()) {
    Tape::current()->record([=] {
      const double scale = values_of(loss.gradient()).at(0);
      current_backend().accumulate(scale, weights.to(y.dtype()), y.gradient());
    });
  }
  return loss;
}

// The gradient of the real function `f` by the elements of `leaf` (complex128), which f reads: a step of
// 1e-30 along the imaginary axis gives it to the last bit (Squire and Trapp, SIAM Review 1998), and no
// backward pass has a part in it.
inline Values complex_step(const Tensor& leaf, const std::function<Complex()>& f) {
  constexpr double step = 1e-30;
  Values gradient;
  for (int64_t i = 0; i < leaf.size(); ++i) {
    Complex& element = leaf.data<Complex>()[i];
    element += Complex(0.0, step);
    gradient.push_back(f().imag() / step);
    element = element.real();
  }
  return gradient;
}

}  // namespace transduce::checks
