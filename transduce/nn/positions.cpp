#include "transduce/nn/positions.h"

#include <cmath>
#include <mutex>
#include <stdexcept>

namespace transduce {

struct Positions::Cache {
  std::mutex mutex;
  Var table;
};

namespace {

// What a position is divided by in column pair `pair` of `pairs`.
double timescale(Timescales kind, int64_t pair, int64_t pairs, int64_t width) {
  const auto i = static_cast<double>(pair);
  switch (kind) {
    case Timescales::paper:
      return std::pow(10000.0, 2.0 * i / static_cast<double>(width));
    case Timescales::tensor2tensor:
      return std::pow(10000.0, i / static_cast<double>(pairs - 1));
  }
  throw std::logic_error("[positions] unknown timescales");
}

}  // namespace

Tensor sinusoid_table(int64_t positions, int64_t width, DType dtype, const Sinusoids& sinusoids) {
  const int64_t pairs = (width + 1) / 2;
  check_input(sinusoids.timescales != Timescales::tensor2tensor || pairs > 1,
              "tensor2tensor's timescales need a width of 3 or more, got {}", width);
  const bool interleaved = sinusoids.layout == SinusoidLayout::interleaved;
  Tensor table({positions, width}, DType::float64);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double divisor = timescale(sinusoids.timescales, pair, pairs, width);
    const int64_t sine = interleaved ? 2 * pair : pair, cosine = interleaved ? sine + 1 : pairs + pair;
    for (int64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(sinusoids.offset + p) / divisor;
      table.row<double>(p)[sine] = std::sin(angle);
      if (cosine < width) table.row<double>(p)[cosine] = std::cos(angle);
    }
  }
  return table.to(dtype);
}

Positions::Positions(const Scope& scope, PositionKind kind, int64_t max_positions, int64_t width,
                     const Sinusoids& sinusoids)
    : kind_(kind), width_(width), sinusoids_(sinusoids), computed_(std::make_shared<Cache>()) {
  if (kind == PositionKind::learned) {
    learned_ = scope.declare("weight", {max_positions, width},
                             Init::normal(1.0 / std::sqrt(static_cast<double>(width))));
  }
}

Var Positions::table(const Tensor& positions, DType dtype) const {
  if (kind_ == PositionKind::rotary) return Var();
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
  const std::lock_guard<std::mutex> lock(computed_->mutex);
  Var& table = computed_->table;
  if (table.empty() || table.dim(0) < needed || table.dtype() != dtype) {
    int64_t rows = 256;
    while (rows < needed) rows *= 2;
    table = Var(sinusoid_table(rows, width_, dtype, sinusoids_));
  }
  return table;
}

}  // namespace transduce
