#pragma once

#include <cmath>

#include "transduce/nn/linear.h"

namespace transduce {

// The paper, 3.3: outer(activation(inner(x))), the same at every position. SwiGLU (Shazeer 2020) has a gate
// beside the value, so its inner layer is twice as wide.
class FeedForward {
 public:
  struct Options {
    int64_t width = 0;  // C
    int64_t inner = 0;  // F
    Activation activation = Activation::relu;
    float dropout = 0.0f;  // after the activation
  };
  FeedForward(const Scope& scope, const Options& o)
      : inner_(scope / "inner", o.width, o.activation == Activation::swiglu ? 2 * o.inner : o.inner,
               {Init::xavier_uniform(o.width, o.inner), torch_bias(o.width)}),
        outer_(scope / "outer", o.inner, o.width,
               {Init::xavier_uniform(o.inner, o.width), torch_bias(o.inner)}),
        activation_(o.activation),
        dropout_(o.dropout) {}

  // (N, C) -> (N, C)
  Var operator()(const Var& x) const { return outer_(inner_.activated(x, activation_, dropout_)); }

 private:
  // torch.nn.Linear's own start for a bias, which torch.nn.Transformer leaves as it is.
  static Init torch_bias(int64_t fan_in) {
    return Init::uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
  }

  Linear inner_;
  Linear outer_;
  Activation activation_;
  float dropout_;
};

}  // namespace transduce
