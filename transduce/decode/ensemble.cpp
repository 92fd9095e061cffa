#include "transduce/decode/ensemble.h"

#include <algorithm>
#include <cmath>

#include "transduce/base/parallel.h"

namespace transduce {
namespace {

// mean (slots, V) of log probabilities = log of the mean over models of softmax(logits).
void average(const std::vector<Tensor>& logits, Tensor mean) {
  const auto count = static_cast<double>(logits.size());
  parallel_each(mean.dim(0), [&](int64_t slot) {
    std::vector<double> normaliser;
    for (const Tensor& l : logits) normaliser.push_back(log_sum_exp(l.row<float>(slot), l.dim(1)));
    for (int64_t v = 0; v < mean.dim(1); ++v) {
      double top = -INFINITY, sum = 0.0;
      for (size_t m = 0; m < logits.size(); ++m) {
        top = std::max(top, static_cast<double>(logits[m].row<float>(slot)[v]) - normaliser[m]);
      }
      for (size_t m = 0; m < logits.size(); ++m) {
        sum += std::exp(static_cast<double>(logits[m].row<float>(slot)[v]) - normaliser[m] - top);
      }
      mean.row<float>(slot)[v] = static_cast<float>(top + std::log(sum / count));
    }
  });
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

Tensor Ensemble::step(const std::vector<int32_t>& ids) {
  std::vector<Tensor> logits;
  for (size_t m = 0; m < models_.size(); ++m) {
    logits.push_back(models_[m]->logits(models_[m]->step(ids, caches_[m])).value());
  }
  if (logits.size() == 1) return logits[0];
  const Tensor mean(logits[0].shape(), DType::float32);
  average(logits, mean);
  return mean;
}

void check_finite(double score) {
  if (!std::isfinite(score)) {
    fail_run("the model's scores are not finite numbers: its parameters are damaged");
  }
}

double log_sum_exp(const float* x, int64_t count) {
  const float top = *std::max_element(x, x + count);
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(x[i] - top));
  const double result = static_cast<double>(top) + std::log(sum);
  check_finite(result);
  return result;
}

}  // namespace transduce
