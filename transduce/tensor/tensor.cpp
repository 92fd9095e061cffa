#include "transduce/tensor/tensor.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace transduce {
namespace {

int64_t contiguous_stride(const Shape& shape, int64_t size) {
  return shape.size() < 2 ? size : size / std::max<int64_t>(shape[0], 1);
}

// Calls f with a null pointer of the floating type that `dtype` names.
template <class F>
void with_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(static_cast<float*>(nullptr));
    case DType::float64:
      return f(static_cast<double*>(nullptr));
    case DType::complex128:
      return f(static_cast<std::complex<double>*>(nullptr));
    default:
      throw std::logic_error(std::string("not a floating type: ") + name_of(dtype));
  }
}

double real_part(std::complex<double> x) { return x.real(); }
double real_part(double x) { return x; }

}  // namespace

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 4;
    case DType::float64:
      return 8;
    case DType::complex128:
      return 16;
    case DType::int32:
      return 4;
    case DType::int8:
    case DType::uint8:
      return 1;
  }
  throw std::logic_error("unknown dtype");
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::complex128:
      return "complex128";
    case DType::int32:
      return "int32";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
  }
  throw std::logic_error("unknown dtype");
}

std::string to_string(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

int64_t elements_of(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size < 0) fail_input("[tensor] negative size in shape {}", to_string(shape));
    if (__builtin_mul_overflow(product, size, &product)) {
      fail_input("[tensor] shape {} has too many elements", to_string(shape));
    }
  }
  return product;
}

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  size_ = elements_of(shape_);
  // Their bytes must be countable too: a product that wraps around would give a small block.
  if (size_ > std::numeric_limits<int64_t>::max() / 64) {
    fail_input("[tensor] shape {} has too many elements", to_string(shape_));
  }
  row_stride_ = contiguous_stride(shape_, size_);
  storage_ = Arena::instance().allocate(static_cast<size_t>(size_) * size_of(dtype));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t(shape, dtype);
  t.fill_zero();
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  if (!contiguous()) throw std::logic_error("[reshape] needs a contiguous tensor");
  if (elements_of(shape) != size_) {
    fail_input("[reshape] {} does not have the elements of {}", to_string(shape), to_string(shape_));
  }
  Tensor t = *this;
  t.shape_ = std::move(shape);
  t.row_stride_ = contiguous_stride(t.shape_, size_);
  return t;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (begin < 0 || begin > end || end > dim(0)) {
    fail_input("[rows] {} to {} is outside of shape {}", begin, end, to_string(shape_));
  }
  Tensor t = *this;
  t.offset_ += begin * (rank() < 2 ? 1 : row_stride_);
  t.shape_[0] = end - begin;
  t.size_ = elements_of(t.shape_);
  if (rank() < 2) t.row_stride_ = t.size_;
  return t;
}

Tensor Tensor::columns(int64_t begin, int64_t end) const {
  if (rank() != 2 || begin < 0 || begin > end || end > dim(1)) {
    fail_input("[columns] {} to {} is outside of shape {}", begin, end, to_string(shape_));
  }
  Tensor t = *this;
  t.offset_ += begin;
  t.shape_[1] = end - begin;
  t.size_ = elements_of(t.shape_);
  return t;
}

Tensor Tensor::flat(int64_t begin, int64_t count) const {
  if (!contiguous()) throw std::logic_error("[flat] needs a contiguous tensor");
  return reshape({size_}).rows(begin, begin + count);
}

void Tensor::fill_zero() const {
  const int64_t rows = rank() < 2 ? 1 : shape_[0];
  if (rows == 0 || size_ == 0) return;
  const size_t item = size_of(dtype_), width = static_cast<size_t>(size_ / rows) * item;
  std::byte* at = storage_->data() + static_cast<size_t>(offset_) * item;
  if (contiguous()) {
    std::memset(at, 0, width * static_cast<size_t>(rows));
  } else {
    for (int64_t i = 0; i < rows; ++i, at += static_cast<size_t>(row_stride_) * item)
      std::memset(at, 0, width);
  }
}

void Tensor::copy_from(const Tensor& other) const {
  if (shape_ != other.shape_ || dtype_ != other.dtype_) {
    fail_input("[copy] expected {} {}, got {} {}", name_of(dtype_), to_string(shape_), name_of(other.dtype_),
               to_string(other.shape_));
  }
  const int64_t rows = rank() < 2 ? 1 : shape_[0];
  if (rows == 0 || size_ == 0) return;
  const size_t item = size_of(dtype_), width = static_cast<size_t>(size_ / rows) * item;
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(storage_->data() + static_cast<size_t>(offset_ + i * row_stride_) * item,
                other.storage_->data() + static_cast<size_t>(other.offset_ + i * other.row_stride_) * item,
                width);
  }
}

Tensor Tensor::clone() const {
  Tensor t(shape_, dtype_);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  Tensor t(shape_, dtype);
  const int64_t rows = rank() < 2 ? 1 : shape_[0], width = rows == 0 ? 0 : size_ / rows;
  with_floating(dtype_, [&](auto* from_type) {
    using From = std::remove_pointer_t<decltype(from_type)>;
    with_floating(dtype, [&](auto* to_type) {
      using To = std::remove_pointer_t<decltype(to_type)>;
      for (int64_t i = 0; i < rows; ++i) {
        const From* from = data<From>() + (rank() < 2 ? 0 : i * row_stride_);
        To* to = t.data<To>() + i * width;
        for (int64_t j = 0; j < width; ++j) {
          if constexpr (std::is_same_v<To, std::complex<double>>) {
            to[j] = To(from[j]);
          } else {
            to[j] = static_cast<To>(real_part(from[j]));
          }
        }
      }
    });
  });
  return t;
}

void Tensor::wrong_dtype(DType asked) const {
  throw std::logic_error(fmt::format("a {} tensor was read as {}", name_of(dtype_), name_of(asked)));
}

}  // namespace transduce
