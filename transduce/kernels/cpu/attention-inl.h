// Blocks of attention scores, for the forward and the backward pass. Included anew for every instruction set,
// so the guard flips instead of staying set.

#if defined(TRANSDUCE_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSDUCE_KERNELS_CPU_ATTENTION_INL_H_
#undef TRANSDUCE_KERNELS_CPU_ATTENTION_INL_H_
#else
#define TRANSDUCE_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include "transduce/kernels/cpu/attention.h"
#include "transduce/kernels/cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Query rows whose scores are in work at the same time: few enough for the cache, and in causal attention few
// enough that most of what no row sees is skipped.
inline int64_t block_rows(const AttentionHead& a) {
  const int64_t most = a.causal ? 16 : 64;
  return HWY_MIN(a.T, HWY_MAX(8, HWY_MIN(most, 32768 / HWY_MAX(a.S, 1) / 4 * 4)));
}

// Products above this many multiplications go to the library.
constexpr int64_t kLarge = int64_t{1} << 62;

// c (M, N) = a b^T for rows of head vectors: a (M, D), b (N, D), whose transpose bt (D, round_up(S)) was made
// by transpose(). Columns of c up to the next whole vector are written too.
inline void outer_scores(int64_t M, int64_t N, int64_t D, Matrix<const float> a, Matrix<const float> bt,
                         Matrix<float> c) {
  product(M, round_up(N), D, {a.data, a.stride, 1}, bt, false, c);
}

// Few rows against many: the transpose is not worth making.
inline void inner_scores(int64_t M, int64_t N, int64_t D, Matrix<const float> a, Matrix<const float> b,
                         Matrix<float> c) {
  for (int64_t i = 0; i < M; ++i) {
    const float* left = a.row(i);
    for (int64_t j = 0; j < N; ++j) {
      const float* right = b.row(j);
      c.row(i)[j] = sum_over(D, [&](auto lanes, int64_t d) HWY_ATTR {
        return hn::Mul(lanes.load(left + d), lanes.load(right + d));
      });
    }
  }
}

// Puts -infinity where row t of the block does not see: `scores` (width), width a multiple of kLanes. Returns
// whether it sees anything.
HWY_INLINE bool hide_scores(const AttentionHead& a, int64_t t, float* scores, int64_t width) {
  const int64_t keys = a.keys_of(t);
  for (int64_t s = keys; s < width; ++s) scores[s] = -kInfinity;
  if (a.visible == nullptr) return keys > 0;
  const uint8_t* visible = a.visible + t * a.S;
  bool any = false;
  for (int64_t s = 0; s < keys; ++s) {
    if (visible[s] != 0) {
      any = true;
    } else {
      scores[s] = -kInfinity;
    }
  }
  return any;
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
