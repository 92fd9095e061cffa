#pragma once

// One table of kernel calls to compare any backend with the reference: odd sizes, vector tails, lengths 0 and
// 1, ragged batches, column ranges of wider matrices, absent optional arguments.
//
// A case names its tensors. compare_backends runs it in float32 on the tested backend and, from the same
// numbers, in float64 on the oracle. Every output starts from random contents, the same for both: so it shows
// whether results are overwritten, gradients accumulated into, and elements beside a column range left alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/made_up.h"
#include "transduce/kernels/backend.h"

namespace transduce::kernel_tests {

inline const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = {Activation::none,      Activation::relu,  Activation::gelu,
                                              Activation::gelu_tanh, Activation::swish, Activation::swiglu};
  return all;
}

// Widths with every kind of remainder for vectors of 4, 8 and 16.
inline const std::vector<int64_t>& widths() {
  static const std::vector<int64_t> all = {1, 3, 15, 16, 17, 31, 32, 33, 64, 100, 128};
  return all;
}

// The tensors of a case by name; a name that is not there is an absent argument.
class NamedTensors {
 public:
  Tensor operator()(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? Tensor() : found->second;
  }
  // Columns of a wider matrix, absent if that is.
  Tensor columns(const std::string& name, int64_t begin, int64_t end) const {
    const Tensor t = (*this)(name);
    return t.empty() ? t : t.columns(begin, end);
  }
  void set(const std::string& name, const Tensor& t) { by_name_[name] = t; }
  const std::map<std::string, Tensor>& all() const { return by_name_; }

 private:
  std::map<std::string, Tensor> by_name_;
};

// How far a float32 result may lie from the exact one, in units of the float32 rounding error 2^-24:
//   factor * sqrt(terms) * (max(magnitude, root mean square of the tensor) + |element|)
// terms: how many roundings add up (the longest chain of sums); random errors grow with its root.
// magnitude: the typical size of what is summed up, so that a lucky cancellation to 0 is not held against it.
struct Tolerance {
  double terms = 1;
  double magnitude = 1;
};

// Errors seen with the plain float32 loops of the reference stay below 4 of these units.
inline constexpr double tolerance_factor = 8.0;

struct KernelCase {
  std::string name;
  NamedTensors tensors;  // float32, int32 or uint8: arguments and first contents of results
  std::map<std::string, Tolerance> checked;  // the results
  std::function<void(Backend&, const NamedTensors&)> run;
  std::vector<std::string> scratch;  // contents do not matter afterwards
  uint64_t seed = 1;

  KernelCase& input(const std::string& tensor, const Shape& shape, double deviation = 1.0,
                    double mean = 0.0) {
    tensors.set(tensor, normal(shape, DType::float32, seed++, deviation, mean));
    return *this;
  }
  KernelCase& input(const std::string& tensor, const Tensor& contents) {
    tensors.set(tensor, contents);
    return *this;
  }
  KernelCase& output(const std::string& tensor, const Shape& shape, Tolerance tolerance) {
    checked[tensor] = tolerance;
    return input(tensor, shape);
  }
};

inline void compare_values(const Tensor& got, const Tensor& expected, Tolerance tolerance,
                           const std::string& what) {
  if (got.dtype() == DType::int32) {
    EXPECT_EQ(got.to_vector<int32_t>(), expected.to_vector<int32_t>()) << what;
    return;
  }
  const std::vector<double> a = got.to(DType::float64).to_vector<double>(), b = expected.to_vector<double>();
  double squares = 0, count = 1e-30;
  for (const double value : b) {
    if (std::isfinite(value)) squares += value * value, count += 1;
  }
  const double typical = std::max(tolerance.magnitude, std::sqrt(squares / count));
  const double unit = 0x1p-24 * std::sqrt(tolerance.terms);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // among them equal infinities
    const double error = std::abs(a[i] - b[i]) / (unit * (typical + std::abs(b[i])));
    worst = std::max(worst, error);
    if (!(error <= tolerance_factor)) {
      ADD_FAILURE() << what << ": element " << i << " of " << to_string(got.shape()) << " is " << a[i]
                    << ", expected " << b[i] << ": " << error << " units apart, allowed " << tolerance_factor;
      return;
    }
  }
  // For choosing the tolerances: how much of them is used.
  if (std::getenv("TRANSDUCE_SHOW_ERRORS") != nullptr) fmt::print("{:8.3f} units  {}\n", worst, what);
}

// Equal bit by bit, NaN included.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.reshape({a.size()}).data<float>(), b.reshape({b.size()}).data<float>(),
                     static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

inline void compare_case(Backend& tested, Backend& oracle, const KernelCase& kernel) {
  NamedTensors got, again, expected;
  for (const auto& [name, tensor] : kernel.tensors.all()) {
    got.set(name, tensor.clone());
    again.set(name, tensor.clone());
    expected.set(name, tensor.dtype() == DType::float32 ? tensor.to(DType::float64) : tensor.clone());
  }
  kernel.run(tested, got);
  kernel.run(tested, again);
  kernel.run(oracle, expected);
  for (const auto& [name, tensor] : kernel.tensors.all()) {
    const std::string what = kernel.name + ": " + name;
    if (std::find(kernel.scratch.begin(), kernel.scratch.end(), name) != kernel.scratch.end()) continue;
    if (kernel.checked.count(name) != 0) {
      compare_values(got(name), expected(name), kernel.checked.at(name), what);
      if (tensor.dtype() == DType::float32) {
        EXPECT_TRUE(same_bits(got(name), again(name))) << what << " varies from call to call";
      }
    } else if (tensor.dtype() == DType::float32) {
      EXPECT_TRUE(same_bits(got(name), tensor)) << what << " is an argument, yet was written to";
    }
  }
}

// Kernel cases that belong together.
struct KernelFamily {
  std::string name;
  std::function<std::vector<KernelCase>()> cases;
};

// The table. Its rows are made in kernel_cases.cpp.
const std::vector<KernelFamily>& kernel_families();

inline void compare_backends(Backend& tested, Backend& oracle, const KernelFamily& family) {
  for (const KernelCase& kernel : family.cases()) compare_case(tested, oracle, kernel);
}

}  // namespace transduce::kernel_tests
