#pragma once

#include <string>
#include <vector>

#include "transduce/models/transformer.h"

namespace transduce {

// Gives the model the mean of the parameters in these files, added up in float64. Errors: InputError when
// there is no file, when one does not hold the parameters of such a model (load_parameters), or when the
// model has weights in 8 bits, which have no mean.
void average_parameters(const std::vector<std::string>& files, Transformer& model);

}  // namespace transduce
