#pragma once

#include <cstdint>
#include <vector>

#include "transduce/tensor/layout.h"
#include "transduce/tensor/tensor.h"

namespace transduce {

// A packed batch of token ids: B sequences lie end to end in N rows.
struct Tokens {
  Tensor ids;        // (N) int32
  Tensor positions;  // (N) int32: each token's place in its own sequence, from 0
  Layout layout;     // B sequences in N rows
};

// Packs sequences of ids.
Tokens pack(const std::vector<std::vector<int32_t>>& sequences);

// The entrance for padded batches as PyTorch programs have them: ids (B, T) int32 in which `pad` fills each
// row up at its end. The pads are dropped. Errors: InputError when a real token follows a pad in a row, since
// the rows that survive would no longer stand where they stood.
Tokens pack_padded(const Tensor& ids, int32_t pad);

// The way back: packed rows (N, C) to (B, T, C) with T the longest length, zeros where there was padding.
Tensor unpack(const Tensor& rows, const Layout& layout);

}  // namespace transduce
