#include "transduce/decode/scorer.h"

#include <algorithm>
#include <cmath>

#include "transduce/data/batches.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/decode/alignment.h"

namespace transduce {
namespace {

// log p of every target token of the batch and of the end symbols, in order: (N).
std::vector<double> likelihoods(const std::vector<const Transformer*>& models, const Seq2SeqBatch& batch) {
  std::vector<std::vector<float>> each;
  for (const Transformer* model : models) {
    const Var decoded = model->forward(batch.source, batch.target);
    each.push_back(model->loss(decoded, batch.expected, 0.0).likelihood.to_vector<float>());
  }
  std::vector<double> mean;
  for (size_t i = 0; i < each[0].size(); ++i) {
    float top = each[0][i];
    for (const auto& one : each) top = std::max(top, one[i]);
    double sum = 0.0;
    for (const auto& one : each) sum += std::exp(static_cast<double>(one[i] - top));
    mean.push_back(static_cast<double>(top) + std::log(sum / static_cast<double>(each.size())));
  }
  return mean;
}

}  // namespace

std::vector<Hypothesis> score(const std::vector<const Transformer*>& models,
                              std::span<const ScoreRequest> pairs, const Ranking& ranking) {
  const Ensemble checked(models);
  const NoGradient inference;
  std::vector<Example> examples;
  for (const ScoreRequest& pair : pairs) examples.push_back({pair.source, pair.target});
  std::vector<Hypothesis> results(pairs.size());
  BatchOptions options;
  options.batch_tokens = 4096;
  for (const std::vector<int64_t>& indices : make_batches_in_order(examples, options)) {
    const Seq2SeqBatch batch = make_seq2seq_batch(examples, indices, models[0]->config().source_end);
    const std::vector<double> likelihood = likelihoods(models, batch);
    auto next = likelihood.begin();
    for (const int64_t index : indices) {
      const ScoreRequest& pair = pairs[static_cast<size_t>(index)];
      Hypothesis& result = results[static_cast<size_t>(index)];
      const auto end = next + static_cast<int64_t>(pair.target.size()) + 1;
      result.tokens = pair.target;
      result.token_log_probability.assign(next + pair.prefix, end);
      for (const double token : result.token_log_probability) result.log_probability += token;
      check_finite(result.log_probability);
      result.score = ranking.normalised(result.log_probability, result.token_log_probability.size());
      next = end;
    }
  }
  if (ranking.coverage_penalty > 0.0) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      results[i].score += ranking.coverage_penalty * coverage(models, pairs[i].source, pairs[i].target);
    }
  }
  return results;
}

}  // namespace transduce
