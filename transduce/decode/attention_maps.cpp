#include "transduce/decode/attention_maps.h"

#include "transduce/data/seq2seq_batch.h"

namespace transduce {
namespace {

// Weights (H, T * S) of each layer as one map a head.
std::vector<AttentionMap> split(const std::vector<Tensor>& layers, int64_t T, int64_t S) {
  std::vector<AttentionMap> maps;
  for (size_t l = 0; l < layers.size(); ++l) {
    for (int64_t h = 0; h < layers[l].dim(0); ++h) {
      const float* const from = layers[l].row<float>(h);
      maps.push_back({static_cast<int64_t>(l) + 1, h + 1, {T, S, std::vector<float>(from, from + T * S)}});
    }
  }
  return maps;
}

}  // namespace

AttentionMaps attention_maps(const Transformer& model, const std::vector<int32_t>& source,
                             const std::vector<int32_t>& output) {
  const NoGradient inference;
  const Seq2SeqBatch batch = make_seq2seq_batch({{source, output}}, {0}, model.config().source_end);
  AttentionWeights weights;
  model.decode(batch.target, model.encode(batch.source, &weights), batch.source.layout, &weights);
  const int64_t T = batch.target.layout.rows, S = batch.source.layout.rows;
  return {split(weights.encoder, S, S), split(weights.decoder, T, T), split(weights.cross, T, S)};
}

DiagonalShare diagonal_share(const AttentionMatrix& cross, int64_t source_tokens) {
  const int64_t outputs = cross.targets - 1;
  DiagonalShare share;
  if (outputs < 1 || source_tokens < 1) return share;
  for (int64_t t = 0; t < outputs; ++t) {
    const int64_t opposite = (2 * t + 1) * source_tokens / (2 * outputs);
    share.diagonal += static_cast<double>(cross.at(t, opposite));
    share.anti_diagonal += static_cast<double>(cross.at(t, source_tokens - 1 - opposite));
  }
  share.diagonal /= static_cast<double>(outputs);
  share.anti_diagonal /= static_cast<double>(outputs);
  return share;
}

}  // namespace transduce
