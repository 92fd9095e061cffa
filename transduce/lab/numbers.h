#pragma once

// The little arithmetic that experiments share: numbers out of tensors, and what is said of them.

#include <cmath>
#include <vector>

#include "transduce/base/random.h"
#include "transduce/tensor/tensor.h"

namespace transduce::lab {

using Numbers = std::vector<double>;

// The elements of a floating tensor, row by row.
inline Numbers numbers(const Tensor& t) { return t.to(DType::float64).to_vector<double>(); }

// A float32 tensor of standard normal numbers.
inline Tensor normal(const Shape& shape, uint64_t seed) {
  Random random({seed, 0});
  Tensor t(shape, DType::float32);
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = static_cast<float>(random.normal());
  return t;
}

inline double mean(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

// The mean square about the mean; `unbiased` divides by one less, as torch.std does unless told otherwise.
inline double variance(const Numbers& x, bool unbiased = false) {
  const double centre = mean(x);
  double sum = 0;
  for (const double value : x) sum += (value - centre) * (value - centre);
  return sum / (static_cast<double>(x.size()) - (unbiased ? 1.0 : 0.0));
}

inline double deviation(const Numbers& x, bool unbiased = false) { return std::sqrt(variance(x, unbiased)); }

inline double dot(const Numbers& x, const Numbers& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// The length of a vector.
inline double norm(const Numbers& x) { return std::sqrt(dot(x, x)); }

}  // namespace transduce::lab
