// Vectors of floats: loops with tails, sums, exp, the normal distribution and dropout. Included anew for
// every instruction set (see Highway's foreach_target.h), so the guard flips instead of staying set.

#if defined(TRANSDUCE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSDUCE_KERNELS_CPU_SIMD_INL_H_
#undef TRANSDUCE_KERNELS_CPU_SIMD_INL_H_
#else
#define TRANSDUCE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <utility>

#include "transduce/kernels/backend.h"

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Float = hn::Vec<FloatTag>;
constexpr FloatTag kFloat;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));

HWY_INLINE Float set(float x) { return hn::Set(kFloat, x); }
HWY_INLINE int64_t round_up(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// How a loop body reads and writes: whole vectors, or the first `count` lanes at the end of a row.
struct AllLanes {
  HWY_INLINE Float load(const float* p) const { return hn::LoadU(kFloat, p); }
  HWY_INLINE Float load_or(const float* p, Float) const { return load(p); }
  HWY_INLINE void store(Float v, float* p) const { hn::StoreU(v, kFloat, p); }
  HWY_INLINE Float or_zero(Float v) const { return v; }
};

struct FirstLanes {
  size_t count;

  // Lanes past the end are 0, or those of `rest`. Memory past the end is not touched: it may belong to
  // another thread or to nobody.
  HWY_INLINE Float load(const float* p) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float lanes[kLanes] = {};
    std::memcpy(lanes, p, count * sizeof(float));
    return hn::Load(kFloat, lanes);
#else
    return hn::MaskedLoad(hn::FirstN(kFloat, count), kFloat, p);
#endif
  }
  HWY_INLINE Float load_or(const float* p, Float rest) const {
    return hn::IfThenElse(hn::FirstN(kFloat, count), load(p), rest);
  }
  HWY_INLINE void store(Float v, float* p) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, kFloat, lanes);
    std::memcpy(p, lanes, count * sizeof(float));
#else
    hn::BlendedStore(v, hn::FirstN(kFloat, count), kFloat, p);
#endif
  }
  HWY_INLINE Float or_zero(Float v) const { return hn::IfThenElseZero(hn::FirstN(kFloat, count), v); }
};

// Calls body(lanes, i) for the vectors that begin at i = 0, kLanes, 2 kLanes, ... below `count`.
template <class Body>
HWY_INLINE void each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(AllLanes(), i);
  if (i < count) body(FirstLanes{static_cast<size_t>(count - i)}, i);
}

// Calls body(i) for i = 0 to kCount - 1, each i a constant: so that arrays indexed by it become registers.
template <int kCount, class Body>
HWY_INLINE void unrolled(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) HWY_ATTR { (body(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, kCount>());
}

// The sum over i < count of what body(lanes, i) returns; four chains hide the latency of the addition.
template <class Body>
HWY_INLINE float sum_over(int64_t count, const Body& body) {
  Float a = hn::Zero(kFloat), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a = hn::Add(a, body(AllLanes(), i));
    b = hn::Add(b, body(AllLanes(), i + kLanes));
    c = hn::Add(c, body(AllLanes(), i + 2 * kLanes));
    d = hn::Add(d, body(AllLanes(), i + 3 * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) a = hn::Add(a, body(AllLanes(), i));
  if (i < count) {
    const FirstLanes rest{static_cast<size_t>(count - i)};
    b = hn::Add(b, rest.or_zero(body(rest, i)));
  }
  return hn::GetLane(hn::SumOfLanes(kFloat, hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

// The largest of x[0 .. count), -infinity when there is none.
HWY_INLINE float max_over(const float* x, int64_t count) {
  const Float lowest = set(-std::numeric_limits<float>::infinity());
  Float a = lowest, b = lowest, c = lowest, d = lowest;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a = hn::Max(a, hn::LoadU(kFloat, x + i));
    b = hn::Max(b, hn::LoadU(kFloat, x + i + kLanes));
    c = hn::Max(c, hn::LoadU(kFloat, x + i + 2 * kLanes));
    d = hn::Max(d, hn::LoadU(kFloat, x + i + 3 * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) a = hn::Max(a, hn::LoadU(kFloat, x + i));
  if (i < count) b = hn::Max(b, FirstLanes{static_cast<size_t>(count - i)}.load_or(x + i, lowest));
  return hn::GetLane(hn::MaxOfLanes(kFloat, hn::Max(hn::Max(a, b), hn::Max(c, d))));
}

// e^x within 1.5 units in the last place: e^x = 2^n e^r with n = round(x / ln 2), and e^r = 1 + r + r^2 p(r),
// p the minimax polynomial of relative error 3e-9 on |r| <= ln 2 / 2. Below -87.3 (the smallest normal float)
// it is 0, above 88.3 it stays at e^88.3, and NaN gives NaN.
HWY_INLINE Float exp(Float x) {
  const hn::RebindToSigned<FloatTag> integer;
  const Float lowest = set(-87.3f);
  const Float y = hn::Min(set(88.3f), x);  // in this order x86 lets a NaN pass
  const auto n = hn::NearestInt(hn::Mul(y, set(1.44269504f)));
  const Float rounded = hn::ConvertTo(kFloat, n);
  Float r = hn::NegMulAdd(rounded, set(0.693145751953125f), y);
  r = hn::NegMulAdd(rounded, set(1.42860677e-6f), r);
  Float p = hn::MulAdd(set(1.38145988e-3f), r, set(8.36871658e-3f));
  p = hn::MulAdd(p, r, set(4.16683890e-2f));
  p = hn::MulAdd(p, r, set(1.66665211e-1f));
  p = hn::MulAdd(p, r, set(4.99999940e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), set(1.0f));
  const Float power = hn::BitCast(kFloat, hn::ShiftLeft<23>(hn::Add(n, hn::Set(integer, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, lowest), hn::Mul(p, power));
}

HWY_INLINE Float sigmoid(Float x) { return hn::Div(set(1.0f), hn::Add(set(1.0f), exp(hn::Neg(x)))); }

// The standard normal distribution: its density exp(-x^2 / 2) / sqrt(2 pi), and its cumulative function
// (1 + erf(x / sqrt 2)) / 2 within 1e-7. The tail is exp(-a^2 / 2) t P(1 - 5 t) with a = |x|, t = 1 / (a
// + 2.5): that argument runs through [-1, 1) while a runs through [0, inf), and P, fitted for the least
// relative error (1.6e-8) on 0 <= a <= 17, is well conditioned there.
struct Normal {
  Float cumulative, density;
};
HWY_INLINE Normal normal(Float x) {
  constexpr float kP[] = {7.06656635e-1f,  -4.33692008e-1f, 1.31987020e-1f, 9.23577510e-3f,  -1.63866505e-2f,
                          -1.60052092e-3f, 2.52567488e-3f,  6.84689731e-4f, -3.13620520e-4f, -1.58876530e-4f};
  const Float t = hn::Div(set(1.0f), hn::Add(hn::Abs(x), set(2.5f)));
  const Float q = hn::NegMulAdd(set(5.0f), t, set(1.0f));
  Float p = set(kP[9]);
  for (int i = 8; i >= 0; --i) p = hn::MulAdd(p, q, set(kP[i]));
  const Float e = exp(hn::Mul(hn::Mul(x, x), set(-0.5f)));
  const Float tail = hn::Mul(hn::Mul(e, t), p);
  const Float cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloat)), tail, hn::Sub(set(1.0f), tail));
  return {cumulative, hn::Mul(e, set(0.398942280f))};
}

// What dropout multiplies elements begin .. begin + count - 1 by: 0 or 1 / (1 - p). They are written into
// `room`, which must hold count + kFactorSlack floats; the result points at the first of them. Reading up to
// kLanes factors past the last is safe.
constexpr int64_t kFactorSlack = 4 + 4 * kLanes;

#if HWY_TARGET == HWY_SCALAR

inline const float* dropout_factors(const Dropout& dropout, int64_t begin, int64_t count, float* room) {
  const uint32_t threshold = dropout.threshold();
  const float scale = static_cast<float>(dropout.scale());
  const int64_t skip = begin % 4;
  for (int64_t i = 0; i < skip + count + kLanes; i += 4) {
    const std::array<uint32_t, 4> words = philox(dropout.key, static_cast<uint64_t>(begin + i) / 4);
    for (int64_t w = 0; w < 4; ++w) room[i + w] = words[w] >= threshold ? scale : 0.0f;
  }
  return room + skip;
}

#else

// Philox (base/random.h) with one counter in each 64-bit lane. A word lies in the low half of its lane, which
// is all that MulEven reads; the high halves hold what nobody looks at.
using WideTag = hn::ScalableTag<uint64_t>;
using NarrowTag = hn::Repartition<uint32_t, WideTag>;
using Wide = hn::Vec<WideTag>;
constexpr WideTag kWide;
constexpr NarrowTag kNarrow;

class Philox {
 public:
  struct Words {
    Wide w0, w1, w2, w3;
  };

  explicit Philox(RandomKey key) : stream_(key.stream) {
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < kRounds; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      hn::Store(hn::Set(kWide, k0), kWide, keys_[round][0]);
      hn::Store(hn::Set(kWide, k1), kWide, keys_[round][1]);
    }
  }

  HWY_INLINE Words operator()(Wide counter) const {
    Wide c0 = counter, c1 = hn::ShiftRight<32>(counter);
    Wide c2 = hn::Set(kWide, stream_), c3 = hn::Set(kWide, stream_ >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const Wide p0 = multiply(c0, 0xD2511F53u), p1 = multiply(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Load(kWide, keys_[round][0]));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Load(kWide, keys_[round][1]));
      c1 = p1;
      c3 = p0;
    }
    return {c0, c1, c2, c3};
  }

 private:
  static constexpr int kRounds = 10;
  static HWY_INLINE Wide multiply(Wide word, uint32_t by) {
    return hn::MulEven(hn::BitCast(kNarrow, word), hn::Set(kNarrow, by));
  }

  uint64_t stream_;
  HWY_ALIGN uint64_t keys_[kRounds][2][hn::MaxLanes(WideTag())];  // ready to be loaded: registers are too few
};

inline const float* dropout_factors(const Dropout& dropout, int64_t begin, int64_t count, float* room) {
  const auto threshold = hn::Set(kNarrow, dropout.threshold());
  const Float scale = set(static_cast<float>(dropout.scale()));
  const auto keep = [&](Wide words) HWY_ATTR {
    return hn::IfThenZeroElse(hn::RebindMask(kFloat, hn::Lt(hn::BitCast(kNarrow, words), threshold)), scale);
  };
  const auto pair = [&](Wide low, Wide high) HWY_ATTR {
    return hn::BitCast(kWide,
                       hn::OddEven(hn::BitCast(kNarrow, hn::ShiftLeft<32>(high)), hn::BitCast(kNarrow, low)));
  };
  // Lanes 0, 2, .. take the first half of the counters and lanes 1, 3, .. the second, because interleaving
  // the pairs of words by 128-bit blocks brings them into order then.
  constexpr uint64_t kCounters = kLanes / 2;
  HWY_ALIGN uint64_t offsets[kCounters];
  for (uint64_t i = 0; i < kCounters; ++i) offsets[i] = i / 2 + (i % 2) * (kCounters / 2);
  const Philox philox(dropout.key);
  const uint64_t first = static_cast<uint64_t>(begin) / 4;
  const int64_t skip = begin % 4;
  Wide counter = hn::Add(hn::Load(kWide, offsets), hn::Set(kWide, first));
  for (int64_t i = 0; i < skip + count + kLanes; i += 2 * kLanes) {
    const Philox::Words words = philox(counter);
    const Wide low = pair(words.w0, words.w1), high = pair(words.w2, words.w3);
    hn::StoreU(keep(hn::InterleaveLower(kWide, low, high)), kFloat, room + i);
    hn::StoreU(keep(hn::InterleaveUpper(kWide, low, high)), kFloat, room + i + kLanes);
    counter = hn::Add(counter, hn::Set(kWide, kCounters));
  }
  return room + skip;
}

#endif  // HWY_SCALAR

// The factors of one stretch of elements after another; all ones when dropout is off, so that a loop body
// need not know.
class DropoutFactors {
 public:
  static constexpr int64_t kChunk = 1024;  // elements at a time: they stay in the first-level cache

  explicit DropoutFactors(const Dropout& dropout) : dropout_(dropout) {
    for (float& factor : room_) factor = 1.0f;
  }
  // The factors of elements begin .. begin + count - 1, count <= kChunk, until the next call.
  const float* at(int64_t begin, int64_t count) {
    return dropout_.active() ? dropout_factors(dropout_, begin, count, room_) : room_;
  }

 private:
  Dropout dropout_;
  HWY_ALIGN float room_[kChunk + kFactorSlack];
};

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
