#pragma once

// Counter-based random numbers (Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). Number i of stream s under a seed is a pure function of (seed, s, i), so a result never depends
// on the number of threads or on the order of evaluation, and dropout can be recomputed instead of stored.

#include <array>
#include <cmath>
#include <cstdint>

namespace transduce {

// Names a stream of random numbers: `seed` is the run's, `stream` tells apart the uses within it.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

// The four 32-bit words at `counter` of the stream.
inline std::array<uint32_t, 4> philox(RandomKey key, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(key.stream), c3 = static_cast<uint32_t>(key.stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Word i of the stream: word i % 4 of counter i / 4.
inline uint32_t random_word(RandomKey key, uint64_t i) { return philox(key, i / 4)[i % 4]; }

// A sequential reader of one stream, for initialisation, shuffling and made-up data.
class Random {
 public:
  explicit Random(RandomKey key) : key_(key) {}

  uint32_t word() { return random_word(key_, next_++); }

  // Uniform in [0, 1), 53 random bits.
  double uniform() {
    const uint64_t high = word() >> 5, low = word() >> 6;
    return static_cast<double>((high << 26) | low) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in {0, ..., bound - 1}; `bound` >= 1. Unbiased by rejection.
  uint64_t below(uint64_t bound) {
    const uint64_t limit = bound * ((uint64_t{1} << 32) / bound);
    uint64_t x = word();
    if (bound > (uint64_t{1} << 32)) return static_cast<uint64_t>(uniform() * static_cast<double>(bound));
    while (x >= limit) x = word();
    return x % bound;
  }

  // Standard normal (Box-Muller; the second value of a pair is dropped to keep the counter simple).
  double normal() {
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586476925286766559 * v);
  }

  uint64_t position() const { return next_; }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

}  // namespace transduce
