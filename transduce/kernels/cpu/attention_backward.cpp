// Attention, backward: the probabilities P are computed again from the scores and the saved log-sum-exp. With
// F dropout's factors and delta the row sums of dout * out,
//   dv = (P F)^T dout,   dS = P (F (dout v^T) - delta) / sqrt(D),   dq = dS k,   dk = dS^T q.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/kernels/cpu/attention-inl.h"
#include "transduce/kernels/cpu/backend.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_ATTENTION_BACKWARD
#define TRANSDUCE_KERNELS_CPU_ATTENTION_BACKWARD

// One head's matrices. A gradient without data is not wanted.
struct AttentionBackward {
  Matrix<const float> dout, out, q;  // (T, D)
  Matrix<const float> k, v;          // (S, D)
  const float* log_sum_exp;          // (T)
  Matrix<float> dq;                  // (T, D)
  Matrix<float> dk, dv;              // (S, D)
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// Row t: `scores` become the probabilities after dropout, `dscores` (dout v^T before) the gradient of the
// unscaled scores. `factors` may be null; `width` is a multiple of kLanes.
HWY_INLINE void softmax_row_backward(const AttentionHead& a, int64_t t, float log_sum, float delta,
                                     const float* factors, int64_t width, float* scores, float* dscores) {
  if (!hide_scores(a, t, scores, width)) {
    std::fill_n(scores, width, 0.0f);
    std::fill_n(dscores, width, 0.0f);
    return;
  }
  const Float scale = set(a.scale), shift = set(log_sum), centre = set(delta);
  each_vector(width, [&](auto lanes, int64_t s) HWY_ATTR {
    const Float p = exp(hn::MulSub(lanes.load(scores + s), scale, shift));
    const Float factor = factors != nullptr ? lanes.load(factors + s) : set(1.0f);
    const Float difference = hn::MulSub(lanes.load(dscores + s), factor, centre);
    lanes.store(hn::Mul(hn::Mul(p, scale), difference), dscores + s);
    lanes.store(hn::Mul(p, factor), scores + s);
  });
}

void AttendBackward(const AttentionHead& a, const AttentionBackward& m) {
  const int64_t stride = round_up(a.S), block = block_rows(a);
  static thread_local Scratch scratch;
  float* const room = scratch.floats((2 * a.D + 3 * block) * stride + kFactorSlack);
  const Matrix<float> keys_transposed(room, stride);                   // (D, stride)
  const Matrix<float> values_transposed(room + a.D * stride, stride);  // (D, stride)
  const Matrix<float> scores(room + 2 * a.D * stride, stride);         // (block, stride)
  const Matrix<float> dscores(scores.data + block * stride, stride);   // (block, stride)
  float* const factor_room = dscores.data + block * stride;            // (block, S) and slack
  transpose(a.S, a.D, m.k, keys_transposed);
  transpose(a.S, a.D, m.v, values_transposed);
  for (int64_t t = 0; t < a.T; t += block) {
    const int64_t rows = HWY_MIN(block, a.T - t), keys = a.keys_of(t + rows - 1), width = round_up(keys);
    const Matrix<const float> q(m.q.row(t), m.q.stride), dout(m.dout.row(t), m.dout.stride);
    outer_scores(rows, keys, a.D, q, keys_transposed, scores);
    outer_scores(rows, keys, a.D, dout, values_transposed, dscores);
    const float* factors = nullptr;
    if (a.dropout.active()) {
      factors = dropout_factors(a.dropout, a.first + t * a.S, (rows - 1) * a.S + keys, factor_room);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const float *drow = dout.row(i), *out = m.out.row(t + i);
      const float delta = sum_over(a.D, [&](auto lanes, int64_t d) HWY_ATTR {
        return hn::Mul(lanes.load(drow + d), lanes.load(out + d));
      });
      softmax_row_backward(a, t + i, m.log_sum_exp[t + i], delta,
                           factors != nullptr ? factors + i * a.S : nullptr, width, scores.row(i),
                           dscores.row(i));
    }
    if (m.dv.data != nullptr) product(keys, a.D, rows, {scores.data, 1, stride}, dout, true, m.dv);
    if (m.dk.data != nullptr) product(keys, a.D, rows, {dscores.data, 1, stride}, q, true, m.dk);
    if (m.dq.data != nullptr) {
      product(rows, a.D, keys, {dscores.data, stride, 1}, m.k, true, {m.dq.row(t), m.dq.stride});
    }
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {
HWY_EXPORT(AttendBackward);
}  // namespace
}  // namespace cpu

void CpuBackend::attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& log_sum_exp, const AttentionSpec& spec,
                                    Tensor dq, Tensor dk, Tensor dv) {
  const cpu::AttentionCall call(spec, q.dim(1));
  const int64_t N = q.dim(0), D = call.D();
  call.each([&](int64_t b, int64_t h) {
    const int64_t query = call.query_row(b), key = call.key_row(b);
    const auto part = [&](const Tensor& t, int64_t row) {
      return t ? cpu::head_of(t, row, h, D) : cpu::Matrix<float>();
    };
    const cpu::AttentionBackward head{.dout = part(dout, query),
                                      .out = part(out, query),
                                      .q = part(q, query),
                                      .k = part(k, key),
                                      .v = part(v, key),
                                      .log_sum_exp = log_sum_exp.data<float>() + h * N + query,
                                      .dq = part(dq, query),
                                      .dk = part(dk, key),
                                      .dv = part(dv, key)};
    HWY_DYNAMIC_DISPATCH(cpu::AttendBackward)(call.head(b, h), head);
  });
}

}  // namespace transduce
#endif
