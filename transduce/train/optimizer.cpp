#include "transduce/train/optimizer.h"

#include <cmath>

namespace transduce {

void OptimizerOptions::validate() const {
  check_input(beta1 >= 0.0 && beta1 < 1.0, "beta1 {} is out of range: give 0 to below 1", beta1);
  check_input(beta2 >= 0.0 && beta2 < 1.0, "beta2 {} is out of range: give 0 to below 1", beta2);
  check_input(epsilon > 0.0, "epsilon {} is out of range: give a positive number", epsilon);
  check_input(weight_decay >= 0.0 && weight_decay <= 1.0, "weight decay {} is out of range: give 0 to 1",
              weight_decay);
  check_input(clip_norm >= 0.0, "clip norm {} is out of range: give a positive number, or 0 for no clipping",
              clip_norm);
}

Optimizer::Optimizer(ParameterSet& parameters, const OptimizerOptions& options)
    : parameters_(parameters),
      options_(options),
      first_moment_(Tensor::zeros(parameters.values().shape(), parameters.values().dtype())),
      second_moment_(Tensor::zeros(parameters.values().shape(), parameters.values().dtype())) {
  options_.validate();
  parameters_.gradients();  // lies in one buffer from the first backward pass on
}

Optimizer::Update Optimizer::step(double learning_rate, double scale) {
  Backend& backend = current_backend();
  Update update;
  update.gradient_norm = std::sqrt(backend.sum_of_squares(parameters_.gradients())) * scale;
  update.applied = std::isfinite(update.gradient_norm) && std::isfinite(scale);
  if (update.applied) {
    AdamSpec spec;
    spec.learning_rate = learning_rate;
    spec.beta1 = options_.beta1;
    spec.beta2 = options_.beta2;
    spec.epsilon = options_.epsilon;
    spec.weight_decay = options_.weight_decay;
    spec.decoupled = options_.decoupled_weight_decay;
    spec.step = ++steps_;
    spec.gradient_scale = scale;
    if (options_.clip_norm > 0.0 && update.gradient_norm > options_.clip_norm) {
      spec.gradient_scale *= options_.clip_norm / (update.gradient_norm + 1e-6);  // PyTorch's guard
    }
    backend.adam(spec, parameters_.gradients(), parameters_.values(), first_moment_, second_moment_);
  }
  parameters_.gradients().fill_zero();
  return update;
}

}  // namespace transduce
