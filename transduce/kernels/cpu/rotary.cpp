// Rotary positions. A row costs a handful of operations a number, far below the products around it, so plain
// loops that the compiler turns into vectors will do.

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"

namespace transduce {
namespace {

// Calls turn(n, c, sine, cosine) for every pair of columns (c, c + 1) of row n.
template <class Turn>
void each_pair(int64_t width, const Tensor& positions, const Tensor& table, const Turn& turn) {
  const int64_t D = table.dim(1), grain = 4096 / std::max<int64_t>(width, 1) + 1;
  parallel_for(positions.size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* angle = table.row<float>(positions.data<int32_t>()[n]);
      for (int64_t head = 0; head < width; head += D) {
        for (int64_t i = 0; i < D; i += 2) turn(n, head + i, angle[i], angle[i + 1]);
      }
    }
  });
}

}  // namespace

void CpuBackend::rotary(const Tensor& x, const Tensor& positions, const Tensor& table, Tensor y) {
  each_pair(y.dim(1), positions, table, [&](int64_t n, int64_t c, float sine, float cosine) {
    const float *from = x.row<float>(n) + c, a = from[0], b = from[1];
    float* to = y.row<float>(n) + c;
    to[0] = cosine * a - sine * b;
    to[1] = sine * a + cosine * b;
  });
}

void CpuBackend::rotary_backward(const Tensor& dy, const Tensor& positions, const Tensor& table, Tensor dx) {
  each_pair(dx.dim(1), positions, table, [&](int64_t n, int64_t c, float sine, float cosine) {
    const float *from = dy.row<float>(n) + c, a = from[0], b = from[1];
    float* to = dx.row<float>(n) + c;
    to[0] += cosine * a + sine * b;
    to[1] += cosine * b - sine * a;
  });
}

}  // namespace transduce
