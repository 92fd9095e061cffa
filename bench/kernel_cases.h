#pragma once

// What bench/kernels.cpp measures: one row a kernel of backend.h, at the sizes of real models.

#include <cstdint>
#include <functional>
#include <vector>

namespace transduce::bench {

// A model's training batch. The letters are those of docs/architecture.md.
struct Size {
  const char* name;
  int64_t C, H, F, V;  // width, heads, feed-forward, vocabulary
  int64_t T, N;        // tokens a sequence, rows of the batch
  int64_t parameters;
};

// One call of a kernel, prepared.
struct Work {
  std::function<void()> call;
  double operations = 0;  // multiplications and additions of its matrix products; 0 where it has none
  double bytes = 0;       // of its tensors, each read or written once; a gradient, added to, twice
};

struct Case {
  const char* kernel;
  std::function<Work(const Size&)> prepare;
};

const std::vector<Size>& sizes();
const std::vector<Case>& cases();

}  // namespace transduce::bench
