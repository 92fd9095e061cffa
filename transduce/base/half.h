#pragma once

// The two floating-point formats of 16 bits that model files come in. float32 holds each of their values
// exactly.

#include <bit>
#include <cmath>
#include <cstdint>

namespace transduce {

// bfloat16: the upper half of a float32.
inline float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits.
inline float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
                 mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

}  // namespace transduce
