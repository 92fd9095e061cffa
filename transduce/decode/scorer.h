#pragma once

#include <span>
#include <string>
#include <vector>

#include "transduce/decode/search.h"
#include "transduce/io/model_directory.h"

namespace transduce {

// A pair to score. Of the target, the tokens that `prefix` has are given, as in SearchRequest, and do not
// count.
struct ScoreRequest {
  std::vector<int32_t> source, target;
  int64_t prefix = 0;
};

// What search would have said of these outputs: a Hypothesis for each pair, with teacher forcing. Several
// models score as an ensemble does. Errors: InputError on models that do not belong together, or on a
// sequence longer than learned positions.
std::vector<Hypothesis> score(const std::vector<const Transformer*>& models,
                              std::span<const ScoreRequest> pairs, const Ranking& ranking);

}  // namespace transduce
