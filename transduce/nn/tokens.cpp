#include "transduce/nn/tokens.h"

#include <cstring>

namespace transduce {

Tokens pack(const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<int32_t> lengths;
  lengths.reserve(sequences.size());
  for (const auto& sequence : sequences) lengths.push_back(static_cast<int32_t>(sequence.size()));
  Tokens tokens;
  tokens.layout = Layout::packed(lengths);
  tokens.ids = Tensor({tokens.layout.rows}, DType::int32);
  tokens.positions = Tensor({tokens.layout.rows}, DType::int32);
  int32_t* id = tokens.ids.data<int32_t>();
  int32_t* position = tokens.positions.data<int32_t>();
  for (const auto& sequence : sequences) {
    for (size_t t = 0; t < sequence.size(); ++t) {
      *id++ = sequence[t];
      *position++ = static_cast<int32_t>(t);
    }
  }
  return tokens;
}

Tokens pack_padded(const Tensor& ids, int32_t pad) {
  check_input(ids.rank() == 2 && ids.dtype() == DType::int32,
              "[pack_padded] expected ids (B, T) int32, got {} {}", name_of(ids.dtype()),
              to_string(ids.shape()));
  std::vector<std::vector<int32_t>> sequences(static_cast<size_t>(ids.dim(0)));
  for (int64_t b = 0; b < ids.dim(0); ++b) {
    const int32_t* row = ids.row<int32_t>(b);
    int64_t length = ids.dim(1);
    while (length > 0 && row[length - 1] == pad) --length;
    for (int64_t t = 0; t < length; ++t) {
      check_input(row[t] != pad, "[pack_padded] sequence {} has pad {} at place {} before its last token", b,
                  pad, t);
    }
    sequences[static_cast<size_t>(b)].assign(row, row + length);
  }
  return pack(sequences);
}

Tensor unpack(const Tensor& rows, const Layout& layout) {
  check_input(rows.rank() == 2 && rows.dim(0) == layout.rows,
              "[unpack] expected rows (N, C) with N = {}, got {}", layout.rows, to_string(rows.shape()));
  const int64_t width = rows.dim(1);
  const Tensor padded =
      Tensor::zeros({layout.sequences(), layout.longest * width}, rows.dtype());  // (B, T * C)
  for (int64_t b = 0; b < layout.sequences(); ++b) {
    const auto i = static_cast<size_t>(b);
    const int64_t length = layout.length[i];
    if (length == 0) continue;
    const Tensor from =
        rows.rows(layout.begin[i], layout.begin[i] + length).clone().reshape({1, length * width});
    padded.rows(b, b + 1).columns(0, length * width).copy_from(from);
  }
  return padded.reshape({layout.sequences(), layout.longest, width});
}

}  // namespace transduce
