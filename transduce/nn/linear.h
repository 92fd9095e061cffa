#pragma once

#include "transduce/autograd/ops.h"
#include "transduce/nn/module.h"

namespace transduce {

// y = x weight^T + bias (torch.nn.Linear): (N, in) -> (N, out).
class Linear {
 public:
  struct Options {
    Init weight_init;  // see the factories below
    Init bias_init = Init::zeros();
    bool bias = true;
  };

  Linear(const Scope& scope, int64_t in, int64_t out, const Options& options)
      : weight_(scope.declare("weight", {out, in}, options.weight_init)) {
    if (options.bias) bias_ = scope.declare("bias", {out}, options.bias_init);
  }
  // Xavier-uniform weight, zero bias.
  Linear(const Scope& scope, int64_t in, int64_t out)
      : Linear(scope, in, out, {Init::xavier_uniform(in, out)}) {}

  Var operator()(const Var& x) const { return ops::linear(x, weight_, bias_); }

  const Var& weight() const { return weight_; }  // (out, in)
  const Var& bias() const { return bias_; }      // (out), empty without

 private:
  Var weight_;
  Var bias_;
};

}  // namespace transduce
