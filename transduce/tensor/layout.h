#pragma once

// A packed batch: the rows of all its sequences lie end to end in one matrix (N, C), and a Layout says where
// each begins and how long it is. Padding does not exist, so a sentence's result cannot depend on its
// neighbours.

#include <cstdint>
#include <vector>

namespace transduce {

struct Layout {
  std::vector<int32_t> begin;   // (B) first row of each sequence
  std::vector<int32_t> length;  // (B) rows of each sequence
  int64_t rows = 0;             // N: rows of the matrix they lie in
  int32_t longest = 0;

  // Sequences of these lengths, lying end to end. Errors: InputError on a negative length.
  static Layout packed(const std::vector<int32_t>& lengths);
  // Sequences at given places of a matrix of `rows` rows (a key/value cache; several sequences may share
  // rows). Errors: InputError when a sequence does not lie within the matrix.
  static Layout placed(std::vector<int32_t> begin, std::vector<int32_t> length, int64_t rows);

  int64_t sequences() const { return static_cast<int64_t>(begin.size()); }
};

}  // namespace transduce
