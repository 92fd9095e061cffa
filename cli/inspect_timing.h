#pragma once

// How long the parts of a model take here and now, with made-up parameters and tokens.

#include <vector>

#include "transduce/models/anatomy.h"

namespace transduce::cli {

struct PartTime {
  double forward = 0.0;   // seconds for the whole batch, without a tape
  double training = 0.0;  // forward and backward
};

struct ModelTime {
  std::vector<std::vector<PartTime>> parts;  // of one part, as in Anatomy::groups
  double optimizer = 0.0;                    // one update of all parameters by AdamW
  double update = 0.0;                       // a whole training update: forward, backward, optimiser
  int64_t peak_bytes = 0;  // memory of all tensors at most during that update, parameters included
};

// Medians of several runs each. Errors: InputError for a model with weights in 8 bits, which cannot be
// trained.
ModelTime measure_parts(const TransformerConfig& config, const Lengths& lengths, const Anatomy& anatomy);

}  // namespace transduce::cli
