#include "transduce/kernels/cpu/matmul.h"

#include <algorithm>
#include <cstdlib>
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
// Threads' shares of a product begin at multiples of this many rows or columns: whole tiles and
// panels of any instruction set (see gemm.cpp).
constexpr int64_t kTile = 32;

// Part `part` of `parts` of a product: a range of rows, or of columns where there are more of those.
void multiply_part(const Product& whole, int64_t part, int64_t parts) {
  // By columns each thread packs its own part of b; a is packed, by all, only where it is transposed.
  const bool by_rows = whole.transpose_a == Transpose::yes ? whole.M >= whole.N : whole.N < kTile * 4 * parts;
  const int64_t size = by_rows ? whole.M : whole.N, tiles = (size + kTile - 1) / kTile;
  const int64_t begin = std::min(tiles * part / parts * kTile, size);
  const int64_t end = std::min(tiles * (part + 1) / parts * kTile, size);
  if (begin == end) return;
  Product p = whole;
  if (by_rows) {
    p.M = end - begin;
    p.a = whole.transpose_a == Transpose::yes ? whole.a.at(0, begin) : whole.a.at(begin, 0);
    if (whole.base.data != nullptr) p.base = whole.base.at(begin, 0);
    p.c = whole.c.at(begin, 0);
  } else {
    p.N = end - begin;
    p.b = whole.transpose_b == Transpose::yes ? whole.b.at(begin, 0) : whole.b.at(0, begin);
    p.packed.beginning = whole.packed.beginning + begin;
    if (whole.base.data != nullptr) p.base = whole.base.at(0, begin);
    p.c = whole.c.at(0, begin);
  }
  multiply(p);
}

// Runs part(i, parts) for work of so many multiplications on as many threads as it is worth.
template <class Part>
void in_parts(int64_t multiplications, const Part& part) {
  const int64_t parts = std::clamp<int64_t>(multiplications / kProductGrain, 1, threads_here());
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

void matmul(const Product& product) {
  in_parts(product.M * product.N * product.K,
           [&](int64_t part, int64_t parts) { multiply_part(product, part, parts); });
}

void linear(int64_t N, int64_t I, int64_t O, Matrix<const float> x, Matrix<const float> weight,
            const float* bias, Matrix<float> y) {
  if (N <= Backend::few_rows) {
    return in_parts(N * I * O, [&](int64_t part, int64_t parts) {
      linear_few_rows({N, I, x, weight, bias, y}, O * part / parts, O * (part + 1) / parts);
    });
  }
  matmul({Transpose::no, Transpose::yes, N, O, I, x, weight, {bias, 0}, y});
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

Tensor CpuBackend::pack(const Tensor& weight) {
  const int64_t O = weight.dim(0), I = weight.dim(1);
  Tensor packed({I, cpu::padded_columns(O)}, DType::float32);
  cpu::pack_right(Transpose::yes, O, I, Matrix<const float>(weight), packed.data<float>());
  return packed;
}

void CpuBackend::linear_packed(const Tensor& x, const Tensor& packed, const Tensor& bias, Tensor y) {
  cpu::Product product{Transpose::no, Transpose::yes, x.dim(0), y.dim(1), x.dim(1), Matrix<const float>(x)};
  product.base = {cpu::data_or_null(bias), 0};
  product.c = Matrix<float>(y);
  product.packed = {packed.data<float>(), packed.dim(1)};
  cpu::matmul(product);
}

void CpuBackend::linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor dx,
                                 Tensor dweight, Tensor dbias) {
  const int64_t N = dy.dim(0), O = dy.dim(1), I = x.dim(1);
  const Matrix<const float> out(dy);
  // The three gradients in one go: threads part once and meet once.
  cpu::in_parts(N * O * I, [&](int64_t part, int64_t parts) {
    if (dx) {
      const Matrix<float> to(dx);
      cpu::multiply_part({Transpose::no, Transpose::no, N, I, O, out, Matrix<const float>(weight), to, to},
                         part, parts);
    }
    if (dweight) {
      const Matrix<float> to(dweight);
      cpu::multiply_part({Transpose::yes, Transpose::no, O, I, N, out, Matrix<const float>(x), to, to}, part,
                         parts);
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
