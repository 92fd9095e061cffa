#include "transduce/decode/alignment.h"

#include <algorithm>
#include <cmath>

#include "transduce/data/seq2seq_batch.h"

namespace transduce {
namespace {

// Adds scale * the blocks of the chosen heads in weights (H, P) to the matrices.
void add_heads(const Tensor& weights, int64_t head, double scale, std::vector<AttentionMatrix>& matrices) {
  const int64_t first = head > 0 ? head - 1 : 0, last = head > 0 ? head : weights.dim(0);
  for (int64_t h = first; h < last; ++h) {
    const float* from = weights.row<float>(h);
    for (AttentionMatrix& matrix : matrices) {
      for (float& weight : matrix.weights) weight += static_cast<float>(scale) * *from++;
    }
  }
}

}  // namespace

void AttentionChoice::validate(const TransformerConfig& config) const {
  check_input(layer >= -1 && layer <= config.decoder_layers,
              "attention layer {} is out of range: give 1 to {}, 0 for the mean of all or -1 for the last",
              layer, config.decoder_layers);
  check_input(head >= 0 && head <= config.heads,
              "attention head {} is out of range: give 1 to {}, or 0 for the mean of all", head,
              config.heads);
}

std::vector<AttentionMatrix> cross_attention(const Transformer& model,
                                             const std::vector<std::vector<int32_t>>& sources,
                                             const std::vector<std::vector<int32_t>>& outputs,
                                             const AttentionChoice& choice) {
  choice.validate(model.config());
  std::vector<Example> pairs;
  std::vector<int64_t> order;
  for (size_t i = 0; i < sources.size(); ++i) {
    order.push_back(static_cast<int64_t>(i));
    pairs.push_back({sources[i], outputs[i]});
  }
  const NoGradient inference;
  const Seq2SeqBatch batch = make_seq2seq_batch(pairs, order, model.config().source_end);
  AttentionWeights weights;
  model.decode(batch.target, model.encode(batch.source), batch.source.layout, &weights);

  std::vector<AttentionMatrix> matrices;
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t T = batch.target.layout.length[i], S = batch.source.layout.length[i];
    matrices.push_back({T, S, std::vector<float>(static_cast<size_t>(T * S), 0.0f)});
  }
  const auto layers = static_cast<int64_t>(weights.cross.size());
  const int64_t layer = choice.layer < 0 ? layers : choice.layer;
  const int64_t first = layer > 0 ? layer - 1 : 0, last = layer > 0 ? layer : layers;
  const int64_t heads = choice.head > 0 ? 1 : model.config().heads;
  const double scale = 1.0 / static_cast<double>((last - first) * heads);
  for (int64_t l = first; l < last; ++l) {
    add_heads(weights.cross[static_cast<size_t>(l)], choice.head, scale, matrices);
  }
  return matrices;
}

std::vector<std::pair<int64_t, int64_t>> alignment(const AttentionMatrix& attention, int64_t source_tokens) {
  std::vector<std::pair<int64_t, int64_t>> links;
  for (int64_t t = 0; t + 1 < attention.targets && source_tokens > 0; ++t) {
    int64_t best = 0;
    for (int64_t s = 1; s < source_tokens; ++s) {
      if (attention.at(t, s) > attention.at(t, best)) best = s;
    }
    links.emplace_back(best, t);
  }
  return links;
}

double coverage(const std::vector<const Transformer*>& models, const std::vector<int32_t>& source,
                const std::vector<int32_t>& output) {
  std::vector<double> received(source.size(), 0.0);
  for (const Transformer* model : models) {
    const AttentionMatrix attention = cross_attention(*model, {source}, {output}, {})[0];
    for (int64_t t = 0; t < attention.targets; ++t) {
      for (size_t s = 0; s < received.size(); ++s) {
        received[s] += static_cast<double>(attention.at(t, static_cast<int64_t>(s)));
      }
    }
  }
  constexpr double kLeast = 1e-9;  // for a source token that got nothing at all
  double sum = 0.0;
  for (const double all : received) {
    sum += std::log(std::clamp(all / static_cast<double>(models.size()), kLeast, 1.0));
  }
  return sum;
}

}  // namespace transduce
