#include "transduce/nn/positions.h"

#include <cmath>
#include <mutex>

namespace transduce {

struct Positions::Cache {
  std::mutex mutex;
  Var table;
};

Tensor sinusoid_table(int64_t positions, int64_t width, DType dtype) {
  Tensor table({positions, width}, DType::float64);
  for (int64_t p = 0; p < positions; ++p) {
    double* row = table.row<double>(p);
    for (int64_t c = 0; c < width; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
      row[c] = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table.to(dtype);
}

Positions::Positions(const Scope& scope, PositionKind kind, int64_t max_positions, int64_t width)
    : kind_(kind), width_(width), sinusoids_(std::make_shared<Cache>()) {
  if (kind == PositionKind::learned) {
    learned_ = scope.declare("weight", {max_positions, width},
                             Init::normal(1.0 / std::sqrt(static_cast<double>(width))));
  }
}

Var Positions::table(const Tensor& positions, DType dtype) const {
  int64_t needed = 1;
  for (int64_t i = 0; i < positions.size(); ++i) {
    needed = std::max<int64_t>(needed, int64_t{positions.data<int32_t>()[i]} + 1);
  }
  if (kind_ == PositionKind::learned) {
    check_input(needed <= learned_.dim(0),
                "a sequence of {} tokens is longer than the model's {} learned positions: shorten it, or "
                "train with more "
                "--max-positions",
                needed, learned_.dim(0));
    return learned_;
  }
  const std::lock_guard<std::mutex> lock(sinusoids_->mutex);
  Var& table = sinusoids_->table;
  if (table.empty() || table.dim(0) < needed || table.dtype() != dtype) {
    int64_t rows = 256;
    while (rows < needed) rows *= 2;
    table = Var(sinusoid_table(rows, width_, dtype));
  }
  return table;
}

}  // namespace transduce
