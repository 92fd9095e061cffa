#include "transduce/decode/ensemble.h"

#include <algorithm>
#include <cmath>

#include "transduce/base/parallel.h"

namespace transduce {
namespace {

NextScores statistics_of(const Tensor& scores) {
  const int64_t rows = scores.dim(0),
                blocks = (scores.dim(1) + Backend::score_block - 1) / Backend::score_block;
  NextScores next{scores, Tensor({rows}, DType::float32), Tensor({rows, blocks}, DType::float32)};
  current_backend().log_sum_exp(next.scores, next.log_sum_exp, next.block_max);
  for (int64_t i = 0; i < rows; ++i) check_finite(static_cast<double>(next.log_sum_exp.data<float>()[i]));
  return next;
}

// Log of the mean over models of softmax(scores): (slots, V).
Tensor average(const std::vector<NextScores>& models) {
  const Tensor mean(models[0].scores.shape(), DType::float32);
  const auto log_count = static_cast<float>(std::log(static_cast<double>(models.size())));
  parallel_each(mean.dim(0), [&](int64_t slot) {
    float* const row = mean.row<float>(slot);
    for (int64_t v = 0; v < mean.dim(1); ++v) {
      const auto log_probability = [&](const NextScores& model) {
        return model.scores.row<float>(slot)[v] - model.log_sum_exp.data<float>()[slot];
      };
      float top = log_probability(models[0]), sum = 0.0f;
      for (const NextScores& model : models) top = std::max(top, log_probability(model));
      for (const NextScores& model : models) sum += std::exp(log_probability(model) - top);
      row[v] = top + std::log(sum) - log_count;
    }
  });
  return mean;
}

}  // namespace

Ensemble::Ensemble(std::vector<const Transformer*> models) : models_(std::move(models)) {
  check_input(!models_.empty(), "an ensemble needs at least one model");
  for (const Transformer* model : models_) {
    const TransformerConfig &a = config(), &b = model->config();
    check_input(a.source_vocabulary == b.source_vocabulary && a.target_vocabulary == b.target_vocabulary,
                "the models of an ensemble need the same vocabularies, got {} and {} source and {} and {} "
                "target tokens",
                a.source_vocabulary, b.source_vocabulary, a.target_vocabulary, b.target_vocabulary);
    check_input(a.source_end == b.source_end,
                "some models of the ensemble end their sources with a symbol and some do not");
    caches_.push_back(model->start());
  }
}

int64_t Ensemble::max_positions() const {
  int64_t most = 0;
  for (const Transformer* model : models_) {
    if (model->config().positions != PositionKind::learned) continue;
    const int64_t its = model->config().max_positions;
    most = most == 0 ? its : std::min(most, its);
  }
  return most;
}

void Ensemble::add(const Tokens& source) {
  for (size_t m = 0; m < models_.size(); ++m) {
    models_[m]->add(models_[m]->encode(source), source.layout, caches_[m]);
  }
}

void Ensemble::reorder(const std::vector<int32_t>& from) {
  for (DecoderCache& cache : caches_) cache.reorder(from);
}

NextScores Ensemble::step(const std::vector<int32_t>& ids) {
  std::vector<NextScores> all;
  for (size_t m = 0; m < models_.size(); ++m) {
    all.push_back(statistics_of(models_[m]->logits(models_[m]->step(ids, caches_[m])).value()));
  }
  return all.size() == 1 ? all[0] : statistics_of(average(all));
}

void check_finite(double score) {
  if (!std::isfinite(score)) {
    fail_run("the model's scores are not finite numbers: its parameters are damaged");
  }
}

}  // namespace transduce
