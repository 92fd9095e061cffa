#pragma once

// Made-up tensors for kernel tests: each is a pure function of its seed.

#include <cstdint>
#include <vector>

#include "transduce/base/random.h"
#include "transduce/kernels/backend.h"
#include "transduce/tensor/tensor.h"

namespace transduce::kernel_tests {

// Normal with this mean and deviation. The values are exact in float32 whatever the dtype, so that float32
// and float64 runs start from the same numbers.
inline Tensor normal(const Shape& shape, DType dtype, uint64_t seed, double deviation = 1.0,
                     double mean = 0.0) {
  Random random({seed, 1});
  std::vector<float> values(static_cast<size_t>(elements_of(shape)));
  for (float& value : values) value = static_cast<float>(mean + deviation * random.normal());
  return Tensor::of(shape, values).to(dtype);
}

// Uniform in {0, ..., bound - 1}, int32.
inline Tensor integers(const Shape& shape, uint64_t bound, uint64_t seed) {
  Random random({seed, 2});
  std::vector<int32_t> values(static_cast<size_t>(elements_of(shape)));
  for (int32_t& value : values) value = static_cast<int32_t>(random.below(bound));
  return Tensor::of(shape, values);
}

// A mask of `count` elements, each visible with this probability.
inline Tensor visibility(int64_t count, double probability, uint64_t seed) {
  Random random({seed, 3});
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (uint8_t& value : values) value = random.uniform() < probability ? 1 : 0;
  return Tensor::of({count}, values);
}

// A row for linear_int8: whole numbers between two that are 255 apart and have zero between them, so that a
// step is 1 and nothing has to be rounded.
inline void made_of_steps(Random& random, int64_t count, float* row) {
  const auto size = static_cast<uint64_t>(count);
  const int low = count > 1 ? -static_cast<int>(random.below(256)) : 0;
  for (int64_t k = 0; k < count; ++k) row[k] = static_cast<float>(low + static_cast<int>(random.below(256)));
  const uint64_t at = random.below(size);
  row[at] = static_cast<float>(low);
  row[(at + 1) % size] = static_cast<float>(low + 255);
}

inline Dropout dropout_of(float p, uint64_t seed) { return {p, {seed, 4}}; }

}  // namespace transduce::kernel_tests
