#include "transduce/nn/attention.h"

namespace transduce {
namespace {

// PyTorch draws Q, K and V as one matrix (3C, C), so the bound is sqrt(6 / 4C) however they are stored here.
Linear::Options projection(int64_t width) { return {Init::xavier_uniform(width, 3 * width)}; }

AttentionSpec spec_of(const AttentionContext& context, const AttentionOptions& options) {
  AttentionSpec spec;
  spec.queries = context.queries;
  spec.keys = context.keys;
  spec.key_rows = context.key_rows;
  spec.heads = options.heads;
  spec.causal = context.causal;
  spec.scaled = options.scaled;
  spec.visible = context.visible;
  return spec;
}

Var attend(const Var& q, const Var& k, const Var& v, const AttentionContext& context,
           const AttentionOptions& options) {
  Tensor weights;  // (H, P)
  const bool wanted = context.weights != nullptr;
  Var out = ops::attention(q, k, v, spec_of(context, options), options.dropout, wanted ? &weights : nullptr);
  if (wanted) context.weights->push_back(weights);
  return out;
}

// Writes the new tokens' keys and values (N, C) to their rows of the cache (R, 2C).
void remember(const Tensor& key, const Tensor& value, const AttentionContext& context) {
  const int64_t c = key.dim(1);
  const int32_t* const rows = context.key_rows.data<int32_t>();
  for (size_t b = 0; b < context.queries.length.size(); ++b) {
    const int64_t count = context.queries.length[b], from = context.queries.begin[b];
    const int32_t* const to = rows + context.keys.begin[b] + context.keys.length[b] - count;
    for (int64_t t = 0; t < count; ++t) {
      const Tensor row = context.cache.rows(to[t], to[t] + 1);
      row.columns(0, c).copy_from(key.rows(from + t, from + t + 1));
      row.columns(c, 2 * c).copy_from(value.rows(from + t, from + t + 1));
    }
  }
}

}  // namespace

SelfAttention::SelfAttention(const Scope& scope, const AttentionOptions& options)
    : options_(options),
      query_key_value_(scope / "query_key_value", options.width, 3 * options.width,
                       projection(options.width)),
      output_(scope / "output", options.width, options.width) {
  if (options.rotary) rotary_.emplace(scope, options.width / options.heads);
}

Var SelfAttention::operator()(const Var& x, const AttentionContext& context) const {
  const int64_t c = options_.width;
  const Var qkv = query_key_value_(x);  // (N, 3C)
  const Var qk = rotary_ ? (*rotary_)(qkv.columns(0, 2 * c), context.positions) : qkv.columns(0, 2 * c);
  const Var q = qk.columns(0, c), k = qk.columns(c, 2 * c), v = qkv.columns(2 * c, 3 * c);
  if (context.cache.empty()) return output_(attend(q, k, v, context, options_));
  remember(k.value(), v.value(), context);
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
