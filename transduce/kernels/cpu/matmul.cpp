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
// Up to so many rows of x linear_few_rows is faster than the library.
constexpr int64_t kFewRows = 12;
// Threads' shares of a product begin at multiples of this many rows or columns: whole tiles of oneDNN's
// kernels.
constexpr int64_t kTile = 48;

void sgemm(Transpose transpose_a, Transpose transpose_b, int64_t M, int64_t N, int64_t K,
           Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c) {
  // The threads are ours (see matmul): oneDNN must not start its own beside them.
  thread_local const bool single_threaded = (omp_set_num_threads(1), true);
  static_cast<void>(single_threaded);
  // oneDNN insists on strides that a single row has no need of.
  const auto stride = [](int64_t given, int64_t width) { return std::max<int64_t>(given, width); };
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const dnnl_status_t status =
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', M, N, K, 1.0f, a.data, stride(a.stride, ta ? M : K), b.data,
                 stride(b.stride, tb ? K : N), beta, c.data, stride(c.stride, N));
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    fail_run("oneDNN's matrix product ({}, {}) x ({}, {}) failed with status {}", M, K, K, N,
             static_cast<int>(status));
  }
}

// c = op(a) op(b) + beta * c, cut into parts that threads make on their own: ranges of rows, or of columns
// where there are more of those.
struct Product {
  Transpose transpose_a, transpose_b;
  int64_t M, N, K;
  Matrix<const float> a, b;
  float beta;
  Matrix<float> c;

  bool by_rows() const { return M >= N; }
  int64_t tiles() const { return ((by_rows() ? M : N) + kTile - 1) / kTile; }

  // Part `part` of `parts`. `before(row, rows, column, columns)` is called with its range of c first.
  template <class Before>
  void make(int64_t part, int64_t parts, const Before& before) const {
    const int64_t most = by_rows() ? M : N, begin = std::min(tiles() * part / parts * kTile, most);
    const int64_t end = std::min(tiles() * (part + 1) / parts * kTile, most);
    if (begin == end || M == 0 || N == 0) return;
    if (by_rows()) {
      before(begin, end - begin, 0, N);
      const float* rows = transpose_a == Transpose::yes ? a.data + begin : a.row(begin);
      make_range(end - begin, N, {rows, a.stride}, b, {c.row(begin), c.stride});
    } else {
      before(0, M, begin, end - begin);
      const float* columns = transpose_b == Transpose::yes ? b.row(begin) : b.data + begin;
      make_range(M, end - begin, a, {columns, b.stride}, {c.data + begin, c.stride});
    }
  }
  void make(int64_t part, int64_t parts) const {
    make(part, parts, [](int64_t, int64_t, int64_t, int64_t) {});
  }

 private:
  void make_range(int64_t rows, int64_t columns, Matrix<const float> left, Matrix<const float> right,
                  Matrix<float> to) const {
    if (K > 0) return sgemm(transpose_a, transpose_b, rows, columns, K, left, right, beta, to);
    for (int64_t i = 0; i < rows && beta == 0.0f; ++i) std::fill_n(to.row(i), columns, 0.0f);
  }
};

// Runs part(i, parts) for work of so many multiplications on as many threads as it is worth.
template <class Part>
void in_parts(int64_t multiplications, const Part& part) {
  const int64_t parts = std::clamp<int64_t>(multiplications / kProductGrain, 1, threads());
  parallel_for(parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) part(i, parts);
  });
}

// Columns begin .. end - 1 of add_column_sums.
void add_sums_of(int64_t begin, int64_t end, int64_t N, Matrix<const float> x, float* sums) {
  constexpr int64_t kStrip = 512, kRows = 256;  // a strip of partial sums stays in the first-level cache
  float partial[kStrip];
  for (int64_t j = begin; j < end; j += kStrip) {
    const int64_t width = std::min(kStrip, end - j);
    for (int64_t i = 0; i < N; i += kRows) {
      std::fill_n(partial, width, 0.0f);
      for (int64_t row = i; row < std::min(i + kRows, N); ++row) {
        const float* at = x.row(row) + j;
        for (int64_t c = 0; c < width; ++c) partial[c] += at[c];
      }
      for (int64_t c = 0; c < width; ++c) sums[j + c] += partial[c];
    }
  }
}

}  // namespace

void matmul(Transpose transpose_a, Transpose transpose_b, int64_t M, int64_t N, int64_t K,
            Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c) {
  const Product product{transpose_a, transpose_b, M, N, K, a, b, beta, c};
  in_parts(M * N * K, [&](int64_t part, int64_t parts) { product.make(part, parts); });
}

void linear(int64_t N, int64_t I, int64_t O, Matrix<const float> x, Matrix<const float> weight,
            const float* bias, Matrix<float> y) {
  if (N <= kFewRows) {
    return in_parts(N * I * O, [&](int64_t part, int64_t parts) {
      linear_few_rows({N, I, x, weight, bias, y}, O * part / parts, O * (part + 1) / parts);
    });
  }
  const Product product{Transpose::no, Transpose::yes, N, O, I, x, weight, bias != nullptr ? 1.0f : 0.0f, y};
  in_parts(N * I * O, [&](int64_t part, int64_t parts) {
    product.make(part, parts, [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      for (int64_t i = row; i < row + rows && bias != nullptr; ++i) {
        std::copy_n(bias + column, columns, y.row(i) + column);
      }
    });
  });
}

void add_column_sums(int64_t N, int64_t C, Matrix<const float> x, float* sums) {
  parallel_for(C, std::max<int64_t>(16, 4 * kGrain / std::max<int64_t>(N, 1)),
               [&](int64_t from, int64_t to) { add_sums_of(from, to, N, x, sums); });
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
  const int64_t N = dy.dim(0), O = dy.dim(1), I = x.dim(1);
  const Matrix<const float> out(dy);
  // The three gradients in one go: threads part once and meet once.
  cpu::in_parts(N * O * I, [&](int64_t part, int64_t parts) {
    if (dx) {
      const cpu::Product product{Transpose::no, Transpose::no,    N, I, O, out, Matrix<const float>(weight),
                                 1.0f,          Matrix<float>(dx)};
      product.make(part, parts);
    }
    if (dweight) {
      const cpu::Product product{Transpose::yes, Transpose::no,         O, I, N, out, Matrix<const float>(x),
                                 1.0f,           Matrix<float>(dweight)};
      product.make(part, parts);
    }
    if (dbias) cpu::add_sums_of(O * part / parts, O * (part + 1) / parts, N, out, dbias.data<float>());
  });
}

void CpuBackend::linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                   const Dropout& dropout, Tensor pre, Tensor y) {
  const Tensor room = pre ? pre : y;
  linear(x, weight, bias, room);
  activation(room, kind, dropout, y);
}

}  // namespace transduce
