#pragma once

#include "transduce/nn/module.h"

namespace transduce {

struct OptimizerOptions {
  bool decoupled_weight_decay = true;  // AdamW (Loshchilov and Hutter 2019); false: Adam (Kingma and Ba 2015)
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip_norm =
      0.0;  // gradients are scaled down to this global norm; 0: never (torch.nn.utils.clip_grad_norm_)

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

// Adam or AdamW over a model's flat buffers (torch.optim.Adam, torch.optim.AdamW).
class Optimizer {
 public:
  Optimizer(ParameterSet& parameters, const OptimizerOptions& options);

  struct Update {
    bool applied = false;        // false: the gradient held infinities or NaN, and nothing was changed
    double gradient_norm = 0.0;  // after `scale`, before clipping
  };
  // One update with the accumulated gradients times `scale` (1 / tokens), then sets the gradients to zero.
  Update step(double learning_rate, double scale);

  // Updates applied so far.
  int64_t steps() const { return steps_; }

  // What an update leaves behind, (P) each, laid out like the parameters. Filled with those of another run,
  // and told how many updates that had applied, the optimizer goes on as that one would have.
  const Tensor& first_moment() const { return first_moment_; }
  const Tensor& second_moment() const { return second_moment_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  ParameterSet& parameters_;
  OptimizerOptions options_;
  Tensor first_moment_;   // (P)
  Tensor second_moment_;  // (P)
  int64_t steps_ = 0;
};

}  // namespace transduce
