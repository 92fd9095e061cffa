#pragma once

// What the forward and the backward pass of attention share: how a call is taken apart into heads of
// sequences.

#include <hwy/cache_control.h>

#include <vector>

#include "transduce/base/parallel.h"
#include "transduce/kernels/backend.h"
#include "transduce/kernels/cpu/matmul.h"

namespace transduce::cpu {

// One head of one sequence: its scores are the block (T, S).
struct AttentionHead {
  int64_t T, S, D;
  bool causal;
  float scale;             // of the scores
  const uint8_t* visible;  // (T, S), or null
  Dropout dropout;
  int64_t first;  // index of the block's first probability, for dropout

  // Row t sees none of the keys from here on.
  int64_t keys_of(int64_t t) const { return causal ? std::clamp<int64_t>(S - T + t + 1, 0, S) : S; }
};

// A call's sequences and heads.
class AttentionCall {
 public:
  AttentionCall(const AttentionSpec& spec, int64_t C) : spec_(spec), D_(C / spec.heads) {
    for (size_t b = 0; b < spec.queries.length.size(); ++b) {
      offset_.push_back(elements_);
      elements_ += int64_t{spec.queries.length[b]} * spec.keys.length[b];
    }
  }

  int64_t heads() const { return spec_.heads; }
  int64_t D() const { return D_; }
  // P: the elements of all blocks.
  int64_t elements() const { return elements_; }
  // Where sequence b's block begins among them.
  int64_t offset(int64_t b) const { return offset_[static_cast<size_t>(b)]; }
  int64_t query_row(int64_t b) const { return spec_.queries.begin[static_cast<size_t>(b)]; }
  int64_t key_row(int64_t b) const { return spec_.keys.begin[static_cast<size_t>(b)]; }
  // The rows of sequence b's keys where they are named one by one, else null.
  const int32_t* key_rows(int64_t b) const {
    return spec_.key_rows ? spec_.key_rows.data<int32_t>() + key_row(b) : nullptr;
  }

  AttentionHead head(int64_t b, int64_t h) const {
    const auto at = static_cast<size_t>(b);
    return {.T = spec_.queries.length[at],
            .S = spec_.keys.length[at],
            .D = D_,
            .causal = spec_.causal,
            .scale = static_cast<float>(spec_.scale(D_)),
            .visible = spec_.visible ? spec_.visible.data<uint8_t>() + offset(b) : nullptr,
            .dropout = spec_.dropout,
            .first = h * elements_ + offset(b)};
  }

  // Calls run(head, matrices(b, h)) for every head of every sequence: they write disjoint results. Cheap ones
  // go together. Each fetches the next one's rows, which lie too far apart for the processor to guess.
  template <class Matrices, class Run>
  void each(const Matrices& matrices, const Run& run) const {
    constexpr int64_t kLeast = 1 << 16;  // multiplications worth handing out
    const int64_t pairs = spec_.queries.sequences() * heads();
    const int64_t cost = 2 * elements_ * D_ * heads() / std::max<int64_t>(pairs, 1) + 1;
    const int64_t together = kLeast / cost + 1;
    parallel_each((pairs + together - 1) / together, [&](int64_t group) {
      const int64_t end = std::min(pairs, (group + 1) * together);
      auto now = matrices(group * together / heads(), group * together % heads());
      for (int64_t i = group * together; i < end; ++i) {
        const auto next = i + 1 < pairs ? matrices((i + 1) / heads(), (i + 1) % heads()) : now;
        if (i + 1 < end) next.prefetch(head((i + 1) / heads(), (i + 1) % heads()));
        run(head(i / heads(), i % heads()), now);
        now = next;
      }
    });
  }

 private:
  const AttentionSpec& spec_;
  int64_t D_, elements_ = 0;
  std::vector<int64_t> offset_;
};

// Asks for the first rows of a head's matrix (rows, D), no more than a cache holds.
inline void prefetch(Matrix<const float> m, int64_t rows, int64_t D) {
  constexpr int64_t kMostRows = 64, kLine = 16;
  for (int64_t i = 0; m.data != nullptr && i < std::min(rows, kMostRows); ++i) {
    for (int64_t d = 0; d < D; d += kLine) hwy::Prefetch(m.row(i) + d);
  }
}

// The columns of head h in the rows from `row` on.
inline Matrix<float> head_of(const Tensor& t, int64_t row, int64_t h, int64_t D) {
  return {t.row<float>(row) + h * D, t.row_stride()};
}

}  // namespace transduce::cpu
