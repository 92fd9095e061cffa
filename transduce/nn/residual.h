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
    const bool post = placement_ == NormPlacement::post;
    const Var branch = post ? sublayer(x) : sublayer(norm_(x));
    const Var y = post ? ops::residual_norm(x, branch, dropout_, norm_.parameters())
                       : ops::residual(x, branch, dropout_);
    branch.drop_value();  // only its gradient is of use from here on
    return y;
  }

 private:
  Norm norm_;
  NormPlacement placement_;
  float dropout_;
};

}  // namespace transduce
