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
constexpr int64_t kMostRows = 64;
inline int64_t block_rows(const AttentionHead& a) {
  const int64_t most = a.causal ? 16 : kMostRows;
  return HWY_MIN(a.T, HWY_MAX(8, HWY_MIN(most, 32768 / HWY_MAX(a.S, 1) / 4 * 4)));
}

// c (M, N) = a b^T for rows of head vectors: a (M, D), b (N, D), whose transpose bt (D, round_up(S)) was made
// by transpose(). Columns of c up to the next whole vector are written too.
inline void outer_scores(int64_t M, int64_t N, int64_t D, Matrix<const float> a, Matrix<const float> bt,
                         Matrix<float> c) {
  product(M, round_up(N), D, {a.data, a.stride, 1}, bt, {}, c);
}

// Parts of one scratch buffer, for matrices whose rows lie end to end. In the tensors the rows of a head lie
// a power of two apart, more often than not, and would evict one another from the cache.
class Rooms {
 public:
  explicit Rooms(float* from) : next_(from) {}
  Matrix<float> take(int64_t rows, int64_t stride) {
    const Matrix<float> room(next_, stride);
    next_ += rows * stride;
    return room;
  }

 private:
  float* next_;
};

// The end of a row that has room for a whole vector, of which the first `count` lanes mean something.
struct PaddedLanes {
  size_t count;

  HWY_INLINE Float load(const float* p) const { return hn::LoadU(kFloat, p); }
  HWY_INLINE Float load_or(const float* p, Float rest) const {
    return hn::IfThenElse(hn::FirstN(kFloat, count), load(p), rest);
  }
  HWY_INLINE void store(Float v, float* p) const { hn::StoreU(v, kFloat, p); }
  HWY_INLINE Float or_zero(Float v) const { return hn::IfThenElseZero(hn::FirstN(kFloat, count), v); }
};

// Calls body(lanes, s) for the vectors of a row of `count` scores with room for whole ones.
template <class Body>
HWY_INLINE void each_padded(int64_t count, const Body& body) {
  int64_t s = 0;
  for (; s + kLanes <= count; s += kLanes) body(AllLanes(), s);
  if (s < count) body(PaddedLanes{static_cast<size_t>(count - s)}, s);
}

// Zeros in the whole vectors of a row past the one that holds element count - 1.
HWY_INLINE void clear_rest(float* row, int64_t count, int64_t width) {
  for (int64_t s = round_up(count); s < width; s += kLanes) hn::StoreU(hn::Zero(kFloat), kFloat, row + s);
}

// The keys that row t may see at most; those among them that the mask hides get a score of -infinity. 0 when
// it sees nothing at all.
HWY_INLINE int64_t hide_scores(const AttentionHead& a, int64_t t, float* scores) {
  const int64_t keys = a.keys_of(t);
  if (a.visible == nullptr) return keys;
  const uint8_t* visible = a.visible + t * a.S;
  bool any = false;
  for (int64_t s = 0; s < keys; ++s) {
    if (visible[s] != 0) {
      any = true;
    } else {
      scores[s] = -kInfinity;
    }
  }
  return any ? keys : 0;
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
