#pragma once

#include "transduce/models/transformer.h"

namespace transduce {

// values (O, I) and scales (O) of the 8-bit form of a weight (O, I) float32: in each row the largest element
// becomes 127 or -127, the others are rounded to the nearest step. `packed` is filled too.
void quantize(const Tensor& weight, Int8Matrix& matrix);

// The same model with the weights of its linear layers in 8 bits, the output layer among them; embeddings,
// biases and norms stay float32, so a matrix tied to the output layer is there twice. Errors: InputError when
// it is in 8 bits already.
std::unique_ptr<Transformer> quantize(const Transformer& model);

}  // namespace transduce
