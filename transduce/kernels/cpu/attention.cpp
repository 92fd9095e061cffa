// Attention, forward: one head of one sequence at a time, a block of query rows at a time.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/kernels/cpu/attention-inl.h"
#include "transduce/kernels/cpu/backend.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_ATTENTION_FORWARD
#define TRANSDUCE_KERNELS_CPU_ATTENTION_FORWARD

// One head's matrices.
struct AttentionForward {
  Matrix<const float> q;  // (T, D)
  Matrix<const float> k;  // (S, D)
  Matrix<const float> v;  // (S, D)
  Matrix<float> out;      // (T, D)
  float* log_sum_exp;     // (T), or null
  float* weights;         // (T, S), or null
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// The softmax of row t's scaled scores, in place, zero where it does not see. `width` is a multiple of
// kLanes. Returns the log of the sum of the exponentials.
HWY_INLINE float softmax_row(const AttentionHead& a, int64_t t, float* scores, int64_t width) {
  if (!hide_scores(a, t, scores, width)) {
    std::fill_n(scores, width, 0.0f);
    return -kInfinity;
  }
  const float shift = a.scale * max_over(scores, width);
  const float sum = sum_over(width, [&](auto lanes, int64_t s) HWY_ATTR {
    const Float e = exp(hn::MulSub(lanes.load(scores + s), set(a.scale), set(shift)));
    lanes.store(e, scores + s);
    return e;
  });
  const Float inverse = set(1.0f / sum);
  each_vector(width, [&](auto lanes, int64_t s)
                         HWY_ATTR { lanes.store(hn::Mul(lanes.load(scores + s), inverse), scores + s); });
  return shift + std::log(sum);
}

void Attend(const AttentionHead& a, const AttentionForward& m) {
  constexpr int64_t kFew = 3;  // query rows for which transposing the keys is not worth while
  const int64_t stride = round_up(a.S), block = block_rows(a);
  static thread_local Scratch scratch;
  float* const room = scratch.floats((a.D + 2 * block) * stride + kFactorSlack);
  const Matrix<float> keys_transposed(room, stride);         // (D, stride)
  const Matrix<float> scores(room + a.D * stride, stride);   // (block, stride)
  float* const factor_room = room + (a.D + block) * stride;  // (block, S) and slack
  if (a.T > kFew) transpose(a.S, a.D, m.k, keys_transposed);
  for (int64_t t = 0; t < a.T; t += block) {
    const int64_t rows = HWY_MIN(block, a.T - t), keys = a.keys_of(t + rows - 1), width = round_up(keys);
    const Matrix<const float> q(m.q.row(t), m.q.stride);
    if (a.T > kFew) {
      outer_scores(rows, keys, a.D, q, keys_transposed, scores);
    } else {
      inner_scores(rows, keys, a.D, q, m.k, scores);
    }
    const float* factors = nullptr;
    if (a.dropout.active()) {
      factors = dropout_factors(a.dropout, a.first + t * a.S, (rows - 1) * a.S + keys, factor_room);
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* const row = scores.row(i);
      const float log_sum = softmax_row(a, t + i, row, width);
      if (m.log_sum_exp != nullptr) m.log_sum_exp[t + i] = log_sum;
      if (m.weights != nullptr) {
        std::copy_n(row, keys, m.weights + (t + i) * a.S);
        std::fill_n(m.weights + (t + i) * a.S + keys, a.S - keys, 0.0f);
      }
      if (factors == nullptr) continue;
      each_vector(width, [&](auto lanes, int64_t s) HWY_ATTR {
        lanes.store(hn::Mul(lanes.load(row + s), lanes.load(factors + i * a.S + s)), row + s);
      });
    }
    product(rows, a.D, keys, {scores.data, stride, 1}, m.v, false, {m.out.row(t), m.out.stride});
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {
HWY_EXPORT(Attend);
}  // namespace
}  // namespace cpu

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec,
                           Tensor out, Tensor log_sum_exp, Tensor weights) {
  using cpu::head_of;
  const cpu::AttentionCall call(spec, q.dim(1));
  const int64_t N = q.dim(0), D = call.D();
  call.each([&](int64_t b, int64_t h) {
    const int64_t query = call.query_row(b), key = call.key_row(b);
    const cpu::AttentionForward head{
        .q = head_of(q, query, h, D),
        .k = head_of(k, key, h, D),
        .v = head_of(v, key, h, D),
        .out = head_of(out, query, h, D),
        .log_sum_exp = log_sum_exp ? log_sum_exp.data<float>() + h * N + query : nullptr,
        .weights = weights ? weights.data<float>() + h * call.elements() + call.offset(b) : nullptr};
    HWY_DYNAMIC_DISPATCH(cpu::Attend)(call.head(b, h), head);
  });
}

}  // namespace transduce
#endif
