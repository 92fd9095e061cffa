#pragma once

#include "transduce/nn/norm.h"

namespace transduce {

enum class NormPlacement { post, pre };

// "Add & Norm" around a sublayer, written once for both placements:
//   post (the paper, 3.1):        norm(x + dropout(sublayer(x)))
//   pre (Xiong et al. 2020):      x + dropout(sublayer(norm(x)))
class Residual {
 public:
  struct Options {
    NormPlacement placement = NormPlacement::post;
    NormSpec norm;
    float dropout = 0.0f;
  };
  Residual(const Scope& scope, int64_t width, const Options& options)
      : norm_(scope, width, options.norm), placement_(options.placement), dropout_(options.dropout) {}

  template <class Sublayer>
  Var operator()(const Var& x, Sublayer&& sublayer) const {
    if (placement_ == NormPlacement::post)
      return ops::residual_norm(x, sublayer(x), dropout_, norm_.parameters());
    return ops::residual(x, sublayer(norm_(x)), dropout_);
  }

 private:
  Norm norm_;
  NormPlacement placement_;
  float dropout_;
};

}  // namespace transduce
