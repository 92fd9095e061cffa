#include "transduce/nn/attention.h"

namespace transduce {
namespace {

// PyTorch draws Q, K and V as one matrix (3C, C), so the bound is sqrt(6 / 4C) however they are stored here.
Linear::Options projection(int64_t width) { return {Init::xavier_uniform(width, 3 * width)}; }

AttentionSpec spec_of(const AttentionContext& context, int64_t heads) {
  AttentionSpec spec;
  spec.queries = context.queries;
  spec.keys = context.keys;
  spec.heads = heads;
  spec.causal = context.causal;
  spec.visible = context.visible;
  return spec;
}

Var attend(const Var& q, const Var& k, const Var& v, const AttentionContext& context,
           const AttentionOptions& options) {
  Tensor weights;  // (H, P)
  const bool wanted = context.weights != nullptr;
  Var out =
      ops::attention(q, k, v, spec_of(context, options.heads), options.dropout, wanted ? &weights : nullptr);
  if (wanted) context.weights->push_back(weights);
  return out;
}

// Writes the new tokens' keys and values (N, 2C) at the ends of their sequences in the cache.
void append(const KeyValueCache& cache, const Tensor& key_value, const AttentionContext& context) {
  for (size_t b = 0; b < context.queries.length.size(); ++b) {
    const int64_t count = context.queries.length[b];
    const int64_t to = int64_t{context.keys.begin[b]} + context.keys.length[b] - count;
    const int64_t from = context.queries.begin[b];
    cache.rows.rows(to, to + count).copy_from(key_value.rows(from, from + count));
  }
}

}  // namespace

SelfAttention::SelfAttention(const Scope& scope, const AttentionOptions& options)
    : options_(options),
      query_key_value_(scope / "query_key_value", options.width, 3 * options.width,
                       projection(options.width)),
      output_(scope / "output", options.width, options.width) {}

Var SelfAttention::operator()(const Var& x, const AttentionContext& context) const {
  const int64_t c = options_.width;
  const Var qkv = query_key_value_(x);  // (N, 3C)
  const Var q = qkv.columns(0, c);
  if (context.cache == nullptr) {
    return output_(attend(q, qkv.columns(c, 2 * c), qkv.columns(2 * c, 3 * c), context, options_));
  }
  append(*context.cache, qkv.value().columns(c, 3 * c), context);
  const Var seen(context.cache->rows);  // (slots * capacity, 2C)
  return output_(attend(q, seen.columns(0, c), seen.columns(c, 2 * c), context, options_));
}

CrossAttention::CrossAttention(const Scope& scope, const AttentionOptions& options)
    : options_(options),
      query_(scope / "query", options.width, options.width, projection(options.width)),
      key_value_(scope / "key_value", options.width, 2 * options.width, projection(options.width)),
      output_(scope / "output", options.width, options.width) {}

Var CrossAttention::operator()(const Var& x, const Var& key_value, const AttentionContext& context) const {
  const int64_t c = options_.width;
  return output_(attend(query_(x), key_value.columns(0, c), key_value.columns(c, 2 * c), context, options_));
}

}  // namespace transduce
