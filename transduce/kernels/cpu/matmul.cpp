#include "transduce/kernels/cpu/matmul.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "transduce/base/error.h"
#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"

namespace transduce {
namespace cpu {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;
// The same for products, in multiplications.
constexpr int64_t kProductGrain = int64_t{1} << 18;
// Threads' shares of a product begin at multiples of this many rows or columns: whole tiles of oneDNN's
// kernels.
constexpr int64_t kTile = 48;

void sgemm(Transpose transpose_a, Transpose transpose_b, int64_t M, int64_t N, int64_t K, float alpha,
           Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c) {
  // The threads are ours (see matmul): oneDNN must not start its own beside them.
  thread_local const bool single_threaded = (omp_set_num_threads(1), true);
  static_cast<void>(single_threaded);
  // oneDNN insists on strides that a single row has no need of.
  const auto stride = [](int64_t given, int64_t width) { return std::max<int64_t>(given, width); };
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const dnnl_status_t status =
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', M, N, K, alpha, a.data, stride(a.stride, ta ? M : K), b.data,
                 stride(b.stride, tb ? K : N), beta, c.data, stride(c.stride, N));
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    fail_run("oneDNN's matrix product ({}, {}) x ({}, {}) failed with status {}", M, K, K, N,
             static_cast<int>(status));
  }
}

}  // namespace

void matmul(Transpose transpose_a, Transpose transpose_b, int64_t M, int64_t N, int64_t K, float alpha,
            Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c) {
  if (M == 0 || N == 0) return;
  if (K == 0) {
    for (int64_t i = 0; i < M && beta == 0.0f; ++i) std::fill_n(c.row(i), N, 0.0f);
    return;
  }
  // Each thread makes a range of rows, or of columns where there are more of those.
  const bool by_rows = M >= N;
  const int64_t tiles = ((by_rows ? M : N) + kTile - 1) / kTile;
  parallel_for(tiles, kProductGrain * tiles / (M * N * K) + 1, [&](int64_t from, int64_t to) {
    const int64_t begin = from * kTile, end = std::min(to * kTile, by_rows ? M : N);
    if (by_rows) {
      const float* rows = transpose_a == Transpose::yes ? a.data + begin : a.row(begin);
      sgemm(transpose_a, transpose_b, end - begin, N, K, alpha, {rows, a.stride}, b, beta,
            {c.row(begin), c.stride});
    } else {
      const float* columns = transpose_b == Transpose::yes ? b.row(begin) : b.data + begin;
      sgemm(transpose_a, transpose_b, M, end - begin, K, alpha, a, {columns, b.stride}, beta,
            {c.data + begin, c.stride});
    }
  });
}

void linear(int64_t N, int64_t I, int64_t O, Matrix<const float> x, Matrix<const float> weight,
            const float* bias, Matrix<float> y) {
  if (bias != nullptr) {
    parallel_for(N, kGrain / std::max<int64_t>(O, 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(bias, O, y.row(i));
    });
  }
  matmul(Transpose::no, Transpose::yes, N, O, I, 1.0f, x, weight, bias != nullptr ? 1.0f : 0.0f, y);
}

// Each thread owns a range of columns, so the order of every sum is that of the rows.
void add_column_sums(int64_t N, int64_t C, Matrix<const float> x, float* sums) {
  constexpr int64_t kStrip = 512, kRows = 256;  // a strip of partial sums stays in the first-level cache
  parallel_for(C, std::max<int64_t>(16, 4 * kGrain / std::max<int64_t>(N, 1)), [&](int64_t from, int64_t to) {
    float partial[kStrip];
    for (int64_t j = from; j < to; j += kStrip) {
      const int64_t width = std::min(kStrip, to - j);
      for (int64_t i = 0; i < N; i += kRows) {
        std::fill_n(partial, width, 0.0f);
        for (int64_t row = i; row < std::min(i + kRows, N); ++row) {
          const float* at = x.row(row) + j;
          for (int64_t c = 0; c < width; ++c) partial[c] += at[c];
        }
        for (int64_t c = 0; c < width; ++c) sums[j + c] += partial[c];
      }
    }
  });
}

void Scratch::Free::operator()(float* data) const { std::free(data); }

float* Scratch::floats(int64_t count) {
  if (count > count_) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 63) / 64 * 64;
    data_.reset();
    data_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    count_ = count;
  }
  return data_.get();
}

}  // namespace cpu

using cpu::Matrix;
using cpu::Transpose;

Backend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

void CpuBackend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) {
  cpu::linear(x.dim(0), x.dim(1), weight.dim(0), Matrix<const float>(x), Matrix<const float>(weight),
              cpu::data_or_null(bias), Matrix<float>(y));
}

void CpuBackend::linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor dx,
                                 Tensor dweight, Tensor dbias) {
  const int64_t N = dy.dim(0), O = dy.dim(1);
  const Matrix<const float> out(dy);
  if (dx) {
    cpu::matmul(Transpose::no, Transpose::no, N, dx.dim(1), O, 1.0f, out, Matrix<const float>(weight), 1.0f,
                Matrix<float>(dx));
  }
  if (dweight) {
    cpu::matmul(Transpose::yes, Transpose::no, O, x.dim(1), N, 1.0f, out, Matrix<const float>(x), 1.0f,
                Matrix<float>(dweight));
  }
  if (dbias) cpu::add_column_sums(N, O, out, dbias.data<float>());
}

void CpuBackend::linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                   const Dropout& dropout, Tensor pre, Tensor y) {
  const Tensor room = pre ? pre : y;
  linear(x, weight, bias, room);
  activation(room, kind, dropout, y);
}

}  // namespace transduce
