// Attention, forward: one head of one sequence at a time, a block of query rows at a time.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include <hwy/contrib/math/math-inl.h>

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
  const int32_t* rows;    // (S) the row of k and v of each key, or null: they lie in order
  Matrix<float> out;      // (T, D)
  float* log_sum_exp;     // (T), or null
  float* weights;         // (T, S), or null

  void prefetch(const AttentionHead& a) const {
    for (const Matrix<const float>& m : {q, Matrix<const float>(out)}) cpu::prefetch(m, a.T, a.D);
    for (const Matrix<const float>& m : {k, v}) cpu::prefetch(m, rows == nullptr ? a.S : 0, a.D);
  }
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// Row t's scaled scores become exponentials e^(score - shift), shift being the largest, and 0 where it does
// not see. A row that sees nothing has shift -infinity and sum 1.
HWY_INLINE void exponentials(const AttentionHead& a, int64_t t, int64_t width, float* row, float& shift,
                             float& sum) {
  const int64_t keys = hide_scores(a, t, row);
  const Float lowest = set(-kInfinity), scale = set(a.scale);
  Float top = lowest, total = hn::Zero(kFloat);
  each_padded(keys,
              [&](auto lanes, int64_t s) HWY_ATTR { top = hn::Max(top, lanes.load_or(row + s, lowest)); });
  top = hn::Mul(hn::MaxOfLanes(kFloat, top), scale);
  each_padded(keys, [&](auto lanes, int64_t s) HWY_ATTR {
    const Float e = lanes.or_zero(exp(hn::MulSub(lanes.load(row + s), scale, top)));
    lanes.store(e, row + s);
    total = hn::Add(total, e);
  });
  clear_rest(row, keys, width);
  shift = hn::GetLane(top);
  sum = keys > 0 ? hn::GetLane(hn::SumOfLanes(kFloat, total)) : 1.0f;
}

// The softmax of the block's rows t, t + 1, ...; their log-sum-exp goes to log_sum_exp (rows), which has room
// for whole vectors. In separate passes over the rows, which the processor overlaps.
HWY_INLINE void softmax(const AttentionHead& a, int64_t t, int64_t rows, int64_t width, Matrix<float> scores,
                        float* log_sum_exp) {
  HWY_ALIGN float inverse[kMostRows];
  for (int64_t i = 0; i < rows; ++i) {
    exponentials(a, t + i, width, scores.row(i), log_sum_exp[i], inverse[i]);
  }
  for (int64_t i = 0; i < rows; i += kLanes) {
    const Float sum = hn::Load(kFloat, inverse + i);
    hn::Store(hn::Add(hn::Load(kFloat, log_sum_exp + i), hn::Log(kFloat, sum)), kFloat, log_sum_exp + i);
    hn::Store(hn::Div(set(1.0f), sum), kFloat, inverse + i);
  }
  for (int64_t i = 0; i < rows; ++i) {
    float* const row = scores.row(i);
    const Float factor = set(inverse[i]);
    for (int64_t s = 0; s < width; s += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(kFloat, row + s), factor), kFloat, row + s);
    }
  }
}

// Where a head's keys or values lie.
struct RowsOf {
  Matrix<const float> m;
  const int32_t* rows;  // or null: in order

  HWY_INLINE const float* row(int64_t s) const { return m.row(rows == nullptr ? s : rows[s]); }
  RowsOf from(int64_t s) const {
    return rows == nullptr ? RowsOf{{m.row(s), m.stride}, nullptr} : RowsOf{m, rows + s};
  }
};

// kColumns elements of a row of a b^T: the products of `left` (D) with as many rows of b.
template <int kColumns>
HWY_INLINE void inner_products(int64_t D, const float* left, RowsOf b, float* c) {
  Float sums[kColumns];
  const float* rows[kColumns];
  for (int j = 0; j < kColumns; ++j) sums[j] = hn::Zero(kFloat), rows[j] = b.row(j);
  each_vector(D, [&](auto lanes, int64_t d) HWY_ATTR {
    const Float factor = lanes.load(left + d);
    for (int j = 0; j < kColumns; ++j) sums[j] = hn::MulAdd(factor, lanes.load(rows[j] + d), sums[j]);
  });
  for (int j = 0; j < kColumns; ++j) c[j] = hn::GetLane(hn::SumOfLanes(kFloat, sums[j]));
}

// c (N) = the products of a query (D) with the rows of b: for few queries a transpose is not worth making.
HWY_INLINE void inner_scores(int64_t N, int64_t D, const float* query, RowsOf b, float* c) {
  int64_t j = 0;
  for (; j + 4 <= N; j += 4) inner_products<4>(D, query, b.from(j), c + j);
  for (; j < N; ++j) inner_products<1>(D, query, b.from(j), c + j);
}

// out (D) = the sum over s of weight[s] times row s.
HWY_INLINE void weighted_sum(int64_t S, int64_t D, const float* weight, RowsOf values, float* out) {
  int64_t d = 0;
  for (; d + 4 * kLanes <= D; d += 4 * kLanes) {
    Float sums[4];
    for (Float& sum : sums) sum = hn::Zero(kFloat);
    for (int64_t s = 0; s < S; ++s) {
      const Float factor = set(weight[s]);
      const float* const row = values.row(s) + d;
      for (int v = 0; v < 4; ++v) sums[v] = hn::MulAdd(factor, hn::LoadU(kFloat, row + v * kLanes), sums[v]);
    }
    for (int v = 0; v < 4; ++v) hn::StoreU(sums[v], kFloat, out + d + v * kLanes);
  }
  each_vector(D - d, [&](auto lanes, int64_t i) HWY_ATTR {
    Float sum = hn::Zero(kFloat);
    for (int64_t s = 0; s < S; ++s) {
      sum = hn::MulAdd(set(weight[s]), lanes.load(values.row(s) + d + i), sum);
    }
    lanes.store(sum, out + d + i);
  });
}

void Attend(const AttentionHead& a, const AttentionForward& m) {
  constexpr int64_t kFew = 3;  // query rows for which copies are not worth while
  const int64_t stride = round_up(a.S), block = block_rows(a);
  const int64_t head_stride = round_up(a.D);
  static thread_local Scratch scratch;
  Rooms rooms(scratch.floats((a.D + 2 * block) * stride + a.S * head_stride + kFactorSlack));
  const Matrix<float> keys_transposed = rooms.take(a.D, stride), scores = rooms.take(block, stride);
  const Matrix<float> values_copy = rooms.take(a.S, head_stride);
  float* const factor_room = rooms.take(block, stride).data;
  const bool few = a.T <= kFew;
  const RowsOf k{m.k, m.rows}, v{m.v, m.rows};
  if (!few) {
    Matrix<const float> keys = m.k;
    if (m.rows != nullptr) {
      for (int64_t s = 0; s < a.S; ++s) copy(1, a.D, {k.row(s), a.D}, false, {values_copy.row(s), a.D});
      keys = values_copy;
    }
    transpose(a.S, a.D, keys, keys_transposed);
    for (int64_t s = 0; s < a.S; ++s) copy(1, a.D, {v.row(s), a.D}, false, {values_copy.row(s), a.D});
  }
  for (int64_t t = 0; t < a.T; t += block) {
    const int64_t rows = HWY_MIN(block, a.T - t), keys = a.keys_of(t + rows - 1), width = round_up(keys);
    const Matrix<const float> q(m.q.row(t), m.q.stride);
    if (few) {
      for (int64_t i = 0; i < rows; ++i) inner_scores(keys, a.D, q.row(i), k, scores.row(i));
    } else {
      outer_scores(rows, keys, a.D, q, keys_transposed, scores);
    }
    const float* factors = nullptr;
    if (a.dropout.active()) {
      factors = dropout_factors(a.dropout, a.first + t * a.S, (rows - 1) * a.S + keys, factor_room);
    }
    HWY_ALIGN float log_sum_exp[kMostRows];
    softmax(a, t, rows, width, scores, log_sum_exp);
    if (m.log_sum_exp != nullptr) std::copy_n(log_sum_exp, rows, m.log_sum_exp + t);
    for (int64_t i = 0; i < rows && m.weights != nullptr; ++i) {
      float* const weights = m.weights + (t + i) * a.S;
      std::copy_n(scores.row(i), keys, weights);
      std::fill_n(weights + keys, a.S - keys, 0.0f);
    }
    for (int64_t i = 0; i < rows && factors != nullptr; ++i) {
      float* const row = scores.row(i);
      for (int64_t s = 0; s < width; s += kLanes) {
        const Float factor = hn::LoadU(kFloat, factors + i * a.S + s);
        hn::StoreU(hn::Mul(hn::LoadU(kFloat, row + s), factor), kFloat, row + s);
      }
    }
    if (few) {
      for (int64_t i = 0; i < rows; ++i) weighted_sum(keys, a.D, scores.row(i), v, m.out.row(t + i));
    } else {
      product(rows, a.D, keys, {scores.data, stride, 1}, values_copy, {}, {m.out.row(t), m.out.stride});
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
HWY_EXPORT(Attend);
}  // namespace
}  // namespace cpu

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec,
                           Tensor out, Tensor log_sum_exp, Tensor weights) {
  using cpu::head_of;
  const cpu::AttentionCall call(spec, q.dim(1));
  const int64_t N = q.dim(0), D = call.D();
  const auto matrices = [&](int64_t b, int64_t h) {
    const int32_t* const rows = call.key_rows(b);
    const int64_t query = call.query_row(b), key = rows == nullptr ? call.key_row(b) : 0;
    return cpu::AttentionForward{
        .q = head_of(q, query, h, D),
        .k = head_of(k, key, h, D),
        .v = head_of(v, key, h, D),
        .rows = rows,
        .out = head_of(out, query, h, D),
        .log_sum_exp = log_sum_exp ? log_sum_exp.data<float>() + h * N + query : nullptr,
        .weights = weights ? weights.data<float>() + h * call.elements() + call.offset(b) : nullptr};
  };
  call.each(matrices, [](const cpu::AttentionHead& head, const cpu::AttentionForward& m) {
    HWY_DYNAMIC_DISPATCH(cpu::Attend)(head, m);
  });
}

}  // namespace transduce
#endif
