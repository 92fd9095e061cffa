#pragma once

#include "transduce/autograd/ops.h"
#include "transduce/nn/module.h"

namespace transduce {

// LayerNorm (Ba et al. 2016; torch.nn.LayerNorm) or RMSNorm (Zhang and Sennrich 2019; torch.nn.RMSNorm, no
// bias) over the C features of each row: (N, C) -> (N, C).
class Norm {
 public:
  Norm(const Scope& scope, int64_t width, const NormSpec& spec) {
    parameters_.spec = spec;
    parameters_.gain = scope.declare("weight", {width}, Init::ones());
    if (spec.kind == NormKind::layer) parameters_.bias = scope.declare("bias", {width}, Init::zeros());
  }

  Var operator()(const Var& x) const { return ops::norm(x, parameters_); }

  const ops::NormParameters& parameters() const { return parameters_; }

 private:
  ops::NormParameters parameters_;
};

}  // namespace transduce
