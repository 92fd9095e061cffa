#pragma once

// The matrix product that everything else stands on, and the few helpers that kernels share.

#include <cstdint>
#include <memory>

#include "transduce/tensor/tensor.h"

namespace transduce::cpu {

// The elements of a matrix, row i at data + i * stride.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* at, int64_t row_stride) : data(at), stride(row_stride) {}
  explicit Matrix(const Tensor& t) : data(t.data<float>()), stride(t.row_stride()) {}
  T* row(int64_t i) const { return data + i * stride; }
  Matrix at(int64_t i, int64_t j) const { return {row(i) + j, stride}; }  // from there on
  operator Matrix<const T>() const { return {data, stride}; }
};

enum class Transpose { no, yes };

// c = base + op(a) op(b) with op(a) (M, K), op(b) (K, N), base and c (M, N). `base` is c itself to
// accumulate, one row again and again with a stride of 0 (a bias), or null for zero.
struct Product {
  Transpose transpose_a, transpose_b;
  int64_t M, N, K;
  Matrix<const float> a, b, base;
  Matrix<float> c;
  // b in the form that the product reads it in (see pack_right), where that was made beforehand.
  struct Packed {
    const float* data = nullptr;
    int64_t columns = 0;    // padded_columns of the whole b
    int64_t beginning = 0;  // the column of it that is column 0 here
  } packed = {};
};

// The product on the calling thread.
void multiply(const Product& product);

// N, rounded up to whole panels.
int64_t padded_columns(int64_t N);
// Writes op(b) (K, N) to `to` (padded_columns(N) * K) for Product::packed.
void pack_right(Transpose transpose_b, int64_t N, int64_t K, Matrix<const float> b, float* to);

// The product on all threads, or on one inside a parallel loop.
void matmul(const Product& product);

// y (N, O) = x weight^T + bias (null: none), with x (N, I) and weight (O, I).
void linear(int64_t N, int64_t I, int64_t O, Matrix<const float> x, Matrix<const float> weight,
            const float* bias, Matrix<float> y);

// The same for few rows: columns begin .. end - 1 of y, on the calling thread. A row's result does not depend
// on N.
struct FewRows {
  int64_t N, I;
  Matrix<const float> x, weight;
  const float* bias;
  Matrix<float> y;
};
void linear_few_rows(const FewRows& f, int64_t begin, int64_t end);

// sums (C) += the columns of x (N, C).
void add_column_sums(int64_t N, int64_t C, Matrix<const float> x, float* sums);

// Null for an absent argument.
inline float* data_or_null(const Tensor& t) { return t.empty() ? nullptr : t.data<float>(); }
inline int32_t* ids_or_null(const Tensor& t) { return t.empty() ? nullptr : t.data<int32_t>(); }

// Room for intermediate results: make it thread_local and it is taken from the system only when a call needs
// more than any before.
class Scratch {
 public:
  // At least `count` floats, 64-byte aligned, contents undefined; the pointers of earlier calls die.
  float* floats(int64_t count);

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  int64_t count_ = 0;
};

}  // namespace transduce::cpu
