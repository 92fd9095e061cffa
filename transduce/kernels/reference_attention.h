#pragma once

// Scalar reference of attention. See reference.h.

#include <algorithm>
#include <limits>
#include <vector>

#include "transduce/kernels/reference_scalar.h"

namespace transduce::reference {

// One row of one head's attention matrix: a query and the S keys of its sequence.
struct QueryRow {
  int64_t head = 0;
  int64_t query = 0;      // row of q and out
  int64_t first_key = 0;  // row of k and v that holds key 0, or its entry in key_rows
  const int32_t* key_rows = nullptr;
  int64_t keys = 0;  // S
  int64_t causal_keys = 0;
  int64_t position = 0;  // of key 0 in the blocks as laid out in `visible`
  const uint8_t* visible = nullptr;

  int64_t key(int64_t s) const { return key_rows == nullptr ? first_key + s : key_rows[first_key + s]; }
  bool sees(int64_t s) const { return s < causal_keys && (visible == nullptr || visible[position + s] != 0); }
};

// Calls body for every head, sequence and query.
template <class Body>
void for_each_query(const AttentionSpec& spec, Body&& body) {
  for (int64_t h = 0; h < spec.heads; ++h) {
    int64_t position = 0;
    for (size_t b = 0; b < spec.queries.begin.size(); ++b) {
      const int64_t queries = spec.queries.length[b], keys = spec.keys.length[b];
      for (int64_t t = 0; t < queries; ++t, position += keys) {
        QueryRow row;
        row.head = h;
        row.query = spec.queries.begin[b] + t;
        row.first_key = spec.keys.begin[b];
        row.key_rows = spec.key_rows.empty() ? nullptr : spec.key_rows.data<int32_t>();
        row.keys = keys;
        row.causal_keys = spec.causal ? keys - queries + t + 1 : keys;
        row.position = position;
        row.visible = spec.visible.empty() ? nullptr : spec.visible.data<uint8_t>();
        body(row);
      }
    }
  }
}

// score[s] = scale * q . k_s over the visible keys, where scale is 1 / sqrt(D); the others are left alone.
//   q, k: of one head, so D columns that begin at head * D
template <class T>
void attention_scores(Matrix<const T> q, Matrix<const T> k, const QueryRow& row, int64_t head_size,
                      double scale, T* score) {
  const int64_t from = row.head * head_size;
  for (int64_t s = 0; s < row.keys; ++s) {
    if (!row.sees(s)) continue;
    T dot = T(0);
    for (int64_t d = 0; d < head_size; ++d) dot += q[row.query][from + d] * k[row.key(s)][from + d];
    score[s] = dot * T(scale);
  }
}

// log of the sum of exp(score[s]) over the visible keys, -inf when there is none. The largest score is taken
// out first, so that no exponential overflows: torch.logsumexp.
template <class T>
T log_sum_exp_of(const QueryRow& row, const T* score) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < row.keys; ++s) {
    if (row.sees(s)) largest = std::max<double>(largest, real_part(score[s]));
  }
  if (std::isinf(largest)) return T(largest);
  T sum = T(0);
  for (int64_t s = 0; s < row.keys; ++s) {
    if (row.sees(s)) sum += std::exp(score[s] - T(largest));
  }
  return T(largest) + std::log(sum);
}

// out = dropout(softmax(q k^T / sqrt(D))) v, head by head and sequence by sequence: the paper, 3.2.1
// and 3.2.2; torch.nn.functional.scaled_dot_product_attention.
//   q (N, C), k (M, C), v (M, C), out (N, C), log_sum_exp (H, N) or absent, weights (H, P) or absent
template <class T>
void attention(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, const AttentionSpec& spec,
               Matrix<T> out, Matrix<T> log_sum_exp, Matrix<T> weights) {
  const int64_t head_size = q.columns / spec.heads, block_elements = spec.block_elements();
  std::vector<T> score(static_cast<size_t>(spec.keys.longest));
  for_each_query(spec, [&](const QueryRow& row) {
    attention_scores<T>(q, k, row, head_size, spec.scale(head_size), score.data());
    const T total = log_sum_exp_of<T>(row, score.data());
    if (log_sum_exp) log_sum_exp[row.head][row.query] = total;

    T* head_out = out[row.query] + row.head * head_size;
    std::fill(head_out, head_out + head_size, T(0));
    for (int64_t s = 0; s < row.keys; ++s) {
      const T probability = row.sees(s) ? std::exp(score[s] - total) : T(0);
      if (weights) weights[row.head][row.position + s] = probability;
      // Not even a weight of zero may let in a value that must not be seen: 0 * inf is not 0.
      if (!row.sees(s)) continue;
      const int64_t element = row.head * block_elements + row.position + s;
      const T weight = probability * dropout_factor<T>(spec.dropout, element);
      const T* head_v = v[row.key(s)] + row.head * head_size;
      for (int64_t d = 0; d < head_size; ++d) head_out[d] += weight * head_v[d];
    }
  });
}

// With p = softmax(score), w = dropout(p), out = w v, for one query:
//   dv_s += w_s dout,   dp_s = mask_s (dout . v_s),   dscore_s = p_s (dp_s - sum over r of p_r dp_r).
// The sum is dout . out (FlashAttention, Dao et al. 2022, appendix B.2), and p_s = exp(score_s -
// log_sum_exp), so neither p nor its gradient need be kept.
//   dout, q, out, dq (N, C); k, v, dk, dv (M, C); log_sum_exp (H, N)
template <class T>
void attention_backward(Matrix<const T> dout, Matrix<const T> q, Matrix<const T> k, Matrix<const T> v,
                        Matrix<const T> out, Matrix<const T> log_sum_exp, const AttentionSpec& spec,
                        Matrix<T> dq, Matrix<T> dk, Matrix<T> dv) {
  const int64_t head_size = q.columns / spec.heads, block_elements = spec.block_elements();
  const T scale = T(spec.scale(head_size));
  std::vector<T> score(static_cast<size_t>(spec.keys.longest));
  for_each_query(spec, [&](const QueryRow& row) {
    const int64_t from = row.head * head_size, i = row.query;
    attention_scores<T>(q, k, row, head_size, spec.scale(head_size), score.data());
    T expected_dp = T(0);
    for (int64_t d = 0; d < head_size; ++d) expected_dp += dout[i][from + d] * out[i][from + d];
    for (int64_t s = 0; s < row.keys; ++s) {
      if (!row.sees(s)) continue;
      const int64_t j = row.key(s);
      const T probability = std::exp(score[s] - log_sum_exp[row.head][i]);
      const T mask = dropout_factor<T>(spec.dropout, row.head * block_elements + row.position + s);
      T dp = T(0);
      for (int64_t d = 0; d < head_size; ++d) dp += mask * dout[i][from + d] * v[j][from + d];
      const T dscore = probability * (dp - expected_dp) * scale;
      for (int64_t d = from; d < from + head_size; ++d) {
        if (dq) dq[i][d] += dscore * k[j][d];
        if (dk) dk[j][d] += dscore * q[i][d];
        if (dv) dv[j][d] += probability * mask * dout[i][d];
      }
    }
  });
}

}  // namespace transduce::reference
