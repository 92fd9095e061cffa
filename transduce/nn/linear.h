#pragma once

#include "transduce/autograd/ops.h"
#include "transduce/nn/module.h"

namespace transduce {

// y = x weight^T + bias (torch.nn.Linear): (N, in) -> (N, out). In a scope of 8-bit weights, which serve
// inference only, the product is ops::linear_int8.
class Linear {
 public:
  struct Options {
    Init weight_init;  // see the factories below
    Init bias_init = Init::zeros();
    bool bias = true;
  };

  Linear(const Scope& scope, int64_t in, int64_t out, const Options& options) {
    if (scope.int8()) {
      int8_weight_ = scope.declare_int8("weight", {out, in});
    } else {
      weight_ = scope.declare("weight", {out, in}, options.weight_init);
    }
    if (options.bias) bias_ = scope.declare("bias", {out}, options.bias_init);
  }
  // Xavier-uniform weight, zero bias.
  Linear(const Scope& scope, int64_t in, int64_t out)
      : Linear(scope, in, out, {Init::xavier_uniform(in, out)}) {}
  // With a weight (out, in) that serves elsewhere too.
  Linear(Var weight, Var bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  Var operator()(const Var& x) const {
    return int8_weight_ ? ops::linear_int8(x, *int8_weight_, bias_) : ops::linear(x, weight_, bias_);
  }

  // dropout(activation(this(x))), fused where that is possible.
  Var activated(const Var& x, Activation activation, float dropout) const {
    return int8_weight_ ? ops::activation((*this)(x), activation, dropout)
                        : ops::linear_activation(x, weight_, bias_, activation, dropout);
  }

  // As the output layer: the loss of the next tokens `targets` (N).
  ops::CrossEntropy cross_entropy(const Var& x, const Tensor& targets, double smoothing) const {
    return int8_weight_ ? ops::linear_int8_cross_entropy(x, *int8_weight_, bias_, targets)
                        : ops::linear_cross_entropy(x, weight_, bias_, targets, smoothing);
  }

 private:
  Var weight_;                                     // (out, in), or
  std::shared_ptr<const Int8Matrix> int8_weight_;  // (out, in)
  Var bias_;                                       // (out), empty without
};

}  // namespace transduce
