#pragma once

#include "transduce/nn/module.h"

namespace transduce {

// An exponential moving average of a model's parameters. The mean over the last updates is often a better
// model than any single one (Polyak and Juditsky 1992).
class MovingAverage {
 public:
  // Begins with the parameters as they are; `decay` in (0, 1), e.g. 0.999 for a mean over about the last 1000
  // updates.
  MovingAverage(const ParameterSet& parameters, double decay);

  // After update `step`, counted from 1:
  //   average = d * average + (1 - d) * parameters,  d = min(decay, (1 + step) / (10 + step))
  // The second bound (tf.train.ExponentialMovingAverage with num_updates) makes a short run forget its random
  // beginning.
  void update(int64_t step);

  const Tensor& values() const { return values_; }  // (P), laid out like the parameters

 private:
  const ParameterSet& parameters_;
  double decay_;
  Tensor values_;
};

// While it lives, the parameters and `values` (P) have changed places: the model is the other one. Does
// nothing when `values` is empty.
class ExchangedParameters {
 public:
  ExchangedParameters(const ParameterSet& parameters, const Tensor& values);
  ~ExchangedParameters() { exchange(); }
  ExchangedParameters(const ExchangedParameters&) = delete;
  ExchangedParameters& operator=(const ExchangedParameters&) = delete;

 private:
  void exchange() const;

  const Tensor parameters_, values_;
};

}  // namespace transduce
