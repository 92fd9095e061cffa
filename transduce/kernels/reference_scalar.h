#pragma once

// What the scalar reference is written in: views of matrices and the few functions of a number that must also
// be right for std::complex<double>.
//
// Why complex numbers: for an analytic f, Im f(x + ih) / h is f'(x) with an error of h^2 and no cancellation,
// so h = 1e-30 gives derivatives to the last bit (Squire and Trapp, "Using complex variables to estimate
// derivatives of real functions", SIAM Review 1998). Running the forward templates on complex numbers
// therefore yields gradients that no backward template had a part in. For this to hold, comparisons look at
// the real part alone and every function is the analytic continuation of the real one.

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <span>
#include <type_traits>

#include "transduce/kernels/backend.h"

namespace transduce::reference {

// A matrix in memory: row i begins at data + i * stride. Absent (an optional argument) when data is null.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;

  Matrix() = default;
  Matrix(T* data_, int64_t rows_, int64_t columns_, int64_t stride_)
      : data(data_), rows(rows_), columns(columns_), stride(stride_) {}
  // A matrix one may write to can be read.
  template <class U>
  requires(std::is_same_v<const U, T>)
      Matrix(const Matrix<U>& other)  // NOLINT(google-explicit-constructor): like T* to const T*
      : data(other.data), rows(other.rows), columns(other.columns), stride(other.stride) {}

  T* operator[](int64_t i) const { return data + i * stride; }
  explicit operator bool() const { return data != nullptr; }
};

// Contiguous elements; absent when empty.
template <class T>
using Vector = std::span<T>;

inline float real_part(float x) { return x; }
inline double real_part(double x) { return x; }
inline double real_part(std::complex<double> x) { return x.real(); }

inline float erf(float x) { return std::erf(x); }
inline double erf(double x) { return std::erf(x); }
// To first order in the imaginary part, which is all a complex step needs: erf' (a) = 2 / sqrt(pi) exp(-a^2).
inline std::complex<double> erf(std::complex<double> x) {
  const double a = x.real();
  return {std::erf(a), x.imag() * 2.0 * std::numbers::inv_sqrtpi * std::exp(-a * a)};
}

// What dropout multiplies element i by: 0 or 1 / (1 - p).
template <class T>
T dropout_factor(const Dropout& dropout, int64_t i) {
  if (!dropout.active()) return T(1);
  const bool dropped = random_word(dropout.key, static_cast<uint64_t>(i)) < dropout.threshold();
  return dropped ? T(0) : T(dropout.scale());
}

}  // namespace transduce::reference
