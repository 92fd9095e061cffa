#include "transduce/train/moving_average.h"

#include <algorithm>

namespace transduce {

MovingAverage::MovingAverage(const ParameterSet& parameters, double decay)
    : parameters_(parameters), decay_(decay), values_(parameters.values().clone()) {}

void MovingAverage::update(int64_t step) {
  const auto s = static_cast<double>(step);
  const double d = std::min(decay_, (1.0 + s) / (10.0 + s));
  current_backend().accumulate(d - 1.0, values_, values_);
  current_backend().accumulate(1.0 - d, parameters_.values(), values_);
}

ExchangedParameters::ExchangedParameters(const ParameterSet& parameters, const Tensor& values)
    : parameters_(parameters.values()), values_(values) {
  exchange();
}

void ExchangedParameters::exchange() const {
  if (values_.empty()) return;
  const Tensor kept = parameters_.clone();
  parameters_.copy_from(values_);
  values_.copy_from(kept);
}

}  // namespace transduce
