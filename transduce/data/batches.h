#pragma once

// Cuts examples into batches of similar lengths.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transduce/data/corpus.h"

namespace transduce {

// At least one bound must be given; with both, both hold.
struct BatchOptions {
  int64_t batch_size = 0;  // at most so many sentence pairs; 0: no bound
  int64_t batch_tokens =
      0;  // at most so many tokens on either side, end symbols counted (see tokens_of); 0: no bound
  uint64_t seed = 0;  // of the shuffling
};

// The number of ids on each side of an example, end symbols not counted.
struct PairLengths {
  uint32_t source = 0, target = 0;

  bool operator==(const PairLengths&) const = default;
};

std::vector<PairLengths> lengths_of(const std::vector<Example>& examples);

// The tokens of a batch: the larger of its source side and its target side, where a sentence counts its ids
// and one end symbol. Batches are packed, so there is no padding to count.
int64_t tokens_of(const std::vector<Example>& examples, const std::vector<int64_t>& batch);

// Batches as indices of examples: 4 bytes an example and 8 a batch.
class Batches {
 public:
  int64_t size() const { return std::ssize(ranges_); }
  std::span<const uint32_t> operator[](int64_t batch) const {
    const auto [begin, count] = ranges_[static_cast<size_t>(batch)];
    return std::span(order_).subspan(begin, count);
  }

  bool operator==(const Batches&) const = default;

 private:
  friend class BatchMaker;
  std::vector<uint32_t> order_;
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;  // of order_: where a batch begins, and its size
};

// The batches of an epoch over examples of these lengths: every example exactly once, no batch empty or
// beyond the bounds, but a single example above batch_tokens is a batch of its own. The examples are
// shuffled, sorted by length within windows of about 64 batches, and cut; then the batches are shuffled. A
// pure function of the arguments. Errors: InputError when a bound is negative or both are 0.
Batches make_batches(std::span<const PairLengths> lengths, const BatchOptions& options, uint64_t epoch);

// The batches for evaluation: the longest examples first, equal lengths as they come; the same bounds and
// errors.
std::vector<std::vector<int64_t>> make_batches_in_order(const std::vector<Example>& examples,
                                                        const BatchOptions& options);

}  // namespace transduce
