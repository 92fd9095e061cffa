#include "transduce/nn/embedding.h"

#include <cmath>

namespace transduce {

Embedding::Embedding(const Scope& scope, int64_t vocabulary, int64_t width)
    : weight_(scope.declare("weight", {vocabulary, width},
                            Init::normal(1.0 / std::sqrt(static_cast<double>(width))))) {}

Var TokenEmbedding::operator()(const Tokens& tokens) const {
  const Var table = positions_.table(tokens.positions, weight().dtype());
  return ops::embedding({tokens.ids, tokens.positions, weight(), table}, options_.scale, options_.dropout);
}

}  // namespace transduce
