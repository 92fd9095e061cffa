#include "transduce/nn/attention.h"

namespace transduce {
namespace {

// PyTorch draws Q, K and V as one matrix (3C, C), so the bound is sqrt(6 / 4C) however they are stored here.
Linear::Options projection(int64_t width) { return {Init::xavier_uniform(width, 3 * width)}; }

AttentionSpec spec_of(const AttentionContext& context, int64_t heads) {
  AttentionSpec spec;
  spec.queries = context.queries;
  spec.keys = context.keys;
  spec.key_rows = context.key_rows;
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

// Writes the new tokens' keys and values (N, 2C) to their rows of the cache.
void remember(const Tensor& key_value, const AttentionContext& context) {
  const int32_t* const rows = context.key_rows.data<int32_t>();
  for (size_t b = 0; b < context.queries.length.size(); ++b) {
    const int64_t count = context.queries.length[b], from = context.queries.begin[b];
    const int32_t* const to = rows + context.keys.begin[b] + context.keys.length[b] - count;
    for (int64_t t = 0; t < count; ++t) {
      context.cache.rows(to[t], to[t] + 1).copy_from(key_value.rows(from + t, from + t + 1));
    }
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
  if (context.cache.empty()) {
    return output_(attend(q, qkv.columns(c, 2 * c), qkv.columns(2 * c, 3 * c), context, options_));
  }
  remember(qkv.value().columns(c, 3 * c), context);
  const Var seen(context.cache);  // (R, 2C)
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
