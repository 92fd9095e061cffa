#pragma once

// Which instruction sets the vector code is compiled for; to be included before anything of Highway's. SSSE3
// alone is not worth its compile time, and SVE's vectors have no size at compile time, so that they cannot be
// held in arrays: such machines run the NEON code.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
