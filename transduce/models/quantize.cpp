#include "transduce/models/quantize.h"

#include <algorithm>
#include <cmath>

namespace transduce {

void quantize(const Tensor& weight, Int8Matrix& matrix) {
  const int64_t O = weight.dim(0), I = weight.dim(1);
  matrix.values = Tensor(weight.shape(), DType::int8);
  matrix.scales = Tensor({O}, DType::float32);
  for (int64_t o = 0; o < O; ++o) {
    const float* row = weight.row<float>(o);
    float largest = 0.0f;
    for (int64_t i = 0; i < I; ++i) largest = std::max(largest, std::abs(row[i]));
    matrix.scales.data<float>()[o] = largest / 127.0f;
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < I; ++i) {
      matrix.values.row<int8_t>(o)[i] = static_cast<int8_t>(std::nearbyint(row[i] * inverse));
    }
  }
  current_backend().pack(matrix);
}

std::unique_ptr<Transformer> quantize(const Transformer& model) {
  TransformerConfig config = model.config();
  check_input(config.weights == WeightKind::float32, "the model's weights are {} already: nothing to convert",
              to_string(config.weights));
  config.weights = WeightKind::int8;
  auto result = std::make_unique<Transformer>(config);
  const ParameterSet& from = model.parameters();
  for (const Parameter& parameter : result->parameters().parameters()) {
    parameter.variable.value().copy_from(from.find(parameter.name)->variable.value());
  }
  for (const Int8Parameter& parameter : result->parameters().int8_parameters()) {
    const Parameter* weight = from.find(parameter.name);
    if (weight == nullptr) {  // the output layer, tied to an embedding
      weight = from.find(config.tie == Tie::all ? "shared_embedding.weight" : "target_embedding.weight");
    }
    quantize(weight->variable.value(), *parameter.matrix);
  }
  return result;
}

}  // namespace transduce
