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

  void prefetch(const AttentionHead& a) const {
    for (const Matrix<const float>& m : {dout, out, q, Matrix<const float>(dq)}) cpu::prefetch(m, a.T, a.D);
    for (const Matrix<const float>& m : {k, v, Matrix<const float>(dk), Matrix<const float>(dv)}) {
      cpu::prefetch(m, a.S, a.D);
    }
  }
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
  const int64_t keys = hide_scores(a, t, scores);
  const Float scale = set(a.scale), shift = set(log_sum), centre = set(delta);
  each_padded(keys, [&](auto lanes, int64_t s) HWY_ATTR {
    const Float p = lanes.or_zero(exp(hn::MulSub(lanes.load(scores + s), scale, shift)));
    const Float factor = factors != nullptr ? lanes.load(factors + s) : set(1.0f);
    const Float difference = hn::MulSub(lanes.load(dscores + s), factor, centre);
    lanes.store(lanes.or_zero(hn::Mul(hn::Mul(p, scale), difference)), dscores + s);
    lanes.store(hn::Mul(p, factor), scores + s);
  });
  clear_rest(scores, keys, width);
  clear_rest(dscores, keys, width);
}

void AttendBackward(const AttentionHead& a, const AttentionBackward& m) {
  const int64_t stride = round_up(a.S), block = block_rows(a);
  const int64_t head_stride = round_up(a.D);
  static thread_local Scratch scratch;
  Rooms rooms(
      scratch.floats((2 * a.D + 3 * block) * stride + (3 * a.S + 2 * block) * head_stride + kFactorSlack));
  const Matrix<float> keys_transposed = rooms.take(a.D, stride), values_transposed = rooms.take(a.D, stride);
  const Matrix<float> scores = rooms.take(block, stride), dscores = rooms.take(block, stride);
  const Matrix<float> keys_copy = rooms.take(a.S, head_stride);
  const Matrix<float> dk = rooms.take(a.S, head_stride), dv = rooms.take(a.S, head_stride);
  const Matrix<float> q = rooms.take(block, head_stride), dout = rooms.take(block, head_stride);
  float* const factor_room = rooms.take(block, stride).data;
  transpose(a.S, a.D, m.k, keys_transposed);
  transpose(a.S, a.D, m.v, values_transposed);
  copy(a.S, a.D, m.k, false, keys_copy);
  std::fill_n(dk.data, 2 * a.S * head_stride, 0.0f);  // and dv
  for (int64_t t = 0; t < a.T; t += block) {
    const int64_t rows = HWY_MIN(block, a.T - t), keys = a.keys_of(t + rows - 1), width = round_up(keys);
    copy(rows, a.D, {m.q.row(t), m.q.stride}, false, q);
    copy(rows, a.D, {m.dout.row(t), m.dout.stride}, false, dout);
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
    if (m.dv.data != nullptr) product(keys, a.D, rows, {scores.data, 1, stride}, dout, dv, dv);
    if (m.dk.data != nullptr) product(keys, a.D, rows, {dscores.data, 1, stride}, q, dk, dk);
    if (m.dq.data != nullptr) {
      const Matrix<float> dq = m.dq.at(t, 0);
      product(rows, a.D, keys, {dscores.data, stride, 1}, keys_copy, dq, dq);
    }
  }
  if (m.dk.data != nullptr) copy(a.S, a.D, dk, true, m.dk);
  if (m.dv.data != nullptr) copy(a.S, a.D, dv, true, m.dv);
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
  const auto matrices = [&](int64_t b, int64_t h) {
    const int64_t query = call.query_row(b), key = call.key_row(b);
    const auto part = [&](const Tensor& t, int64_t row) {
      return t ? cpu::head_of(t, row, h, D) : cpu::Matrix<float>();
    };
    return cpu::AttentionBackward{.dout = part(dout, query),
                                  .out = part(out, query),
                                  .q = part(q, query),
                                  .k = part(k, key),
                                  .v = part(v, key),
                                  .log_sum_exp = log_sum_exp.data<float>() + h * N + query,
                                  .dq = part(dq, query),
                                  .dk = part(dk, key),
                                  .dv = part(dv, key)};
  };
  call.each(matrices, [](const cpu::AttentionHead& head, const cpu::AttentionBackward& m) {
    HWY_DYNAMIC_DISPATCH(cpu::AttendBackward)(head, m);
  });
}

}  // namespace transduce
#endif
