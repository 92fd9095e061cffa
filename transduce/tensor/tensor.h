#pragma once

// A tensor: a shape, a type of element and a handle to memory. No mathematics is here.
//
// Tensors are row-major. A matrix may be a range of columns of a wider one (see `columns`): then consecutive
// rows lie `row_stride()` elements apart. Copying a Tensor copies the handle, not the elements.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "transduce/base/error.h"
#include "transduce/tensor/arena.h"

namespace transduce {

enum class DType { float32, float64, complex128, int32, int8, uint8 };

// Bytes of one element.
size_t size_of(DType dtype);
// "float32", "float64", ...
const char* name_of(DType dtype);

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct dtype_of<std::complex<double>> {
  static constexpr DType value = DType::complex128;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct dtype_of<int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::uint8;
};

using Shape = std::vector<int64_t>;

// "(34, 256)"
std::string to_string(const Shape& shape);
// The product of the sizes. Errors: InputError on a negative size or when the product overflows 63 bits.
int64_t elements_of(const Shape& shape);

class Tensor {
 public:
  // No tensor: `empty()` is true. Stands for an absent optional argument (a bias, a mask).
  Tensor() = default;

  // New memory from the arena, contents undefined. Errors: InputError for a shape that no memory could hold.
  Tensor(Shape shape, DType dtype);

  static Tensor zeros(const Shape& shape, DType dtype = DType::float32);

  // A tensor with these elements; `values.size()` must be the shape's product.
  template <class T>
  static Tensor of(const Shape& shape, const std::vector<T>& values) {
    Tensor t(shape, dtype_of<T>::value);
    if (static_cast<int64_t>(values.size()) != t.size()) {
      fail_input("[tensor] shape {} needs {} values, got {}", to_string(shape), t.size(), values.size());
    }
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }

  bool empty() const { return storage_ == nullptr; }
  explicit operator bool() const { return !empty(); }

  const Shape& shape() const { return shape_; }
  int64_t dim(size_t axis) const { return shape_.at(axis); }
  size_t rank() const { return shape_.size(); }
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  // Elements between the starts of consecutive rows of a matrix.
  int64_t row_stride() const { return row_stride_; }
  // A single row or none has no gap to its next, whatever it was cut from.
  bool contiguous() const {
    return rank() < 2 || size_ == 0 || shape_[0] == 1 || row_stride_ == size_ / shape_[0];
  }

  // The first element. Errors: std::logic_error when T is not the tensor's type.
  template <class T>
  T* data() const {
    if (dtype_of<T>::value != dtype_) wrong_dtype(dtype_of<T>::value);
    return reinterpret_cast<T*>(storage_->data()) + offset_;
  }
  // A matrix's row.
  template <class T>
  T* row(int64_t i) const {
    return data<T>() + i * row_stride_;
  }

  // Views: they share the memory.
  Tensor reshape(Shape shape) const;                 // same number of elements; contiguous tensors only
  Tensor rows(int64_t begin, int64_t end) const;     // (N, ...) -> (end - begin, ...)
  Tensor columns(int64_t begin, int64_t end) const;  // (N, C) -> (N, end - begin), strided
  Tensor flat(int64_t begin, int64_t count) const;   // elements [begin, begin + count) as (count)

  void fill_zero() const;
  // Copies the elements of `other`: same shape and dtype.
  void copy_from(const Tensor& other) const;
  Tensor clone() const;
  // The same values in another floating type (float32, float64, complex128).
  Tensor to(DType dtype) const;

  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values;
    values.reserve(static_cast<size_t>(size_));
    const int64_t rows = rank() < 2 ? 1 : shape_[0], width = rows == 0 ? 0 : size_ / rows;
    for (int64_t i = 0; i < rows; ++i) {
      const T* from = rank() < 2 ? data<T>() : row<T>(i);
      values.insert(values.end(), from, from + width);
    }
    return values;
  }

 private:
  [[noreturn]] void wrong_dtype(DType asked) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  int64_t offset_ = 0;      // elements
  int64_t size_ = 0;        // elements
  int64_t row_stride_ = 0;  // elements
  DType dtype_ = DType::float32;
};

}  // namespace transduce
