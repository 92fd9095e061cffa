#include "transduce/data/batches.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "transduce/base/error.h"
#include "transduce/base/random.h"

namespace transduce {
namespace {

constexpr int64_t batches_in_window = 64;

// Epoch e draws from stream first_stream + e, far from the streams of other uses of the same seed ("batches"
// in ASCII).
constexpr uint64_t first_stream = 0x6261746368657300;

struct Tokens {
  int64_t source = 0, target = 0;

  // A sentence's ids and its end symbol.
  Tokens() = default;
  explicit Tokens(const PairLengths& pair)
      : source(int64_t{pair.source} + 1), target(int64_t{pair.target} + 1) {}

  int64_t larger() const { return std::max(source, target); }
  void operator+=(const Tokens& other) {
    source += other.source;
    target += other.target;
  }
};

PairLengths lengths_of_example(const Example& example) {
  return {static_cast<uint32_t>(example.source.size()), static_cast<uint32_t>(example.target.size())};
}

void check_options(const BatchOptions& options) {
  check_input(options.batch_size >= 0, "a batch size of {} sentences is negative; give 1 or more",
              options.batch_size);
  check_input(options.batch_tokens >= 0, "a batch size of {} tokens is negative; give 1 or more",
              options.batch_tokens);
  check_input(options.batch_size > 0 || options.batch_tokens > 0,
              "a batch has no bound: give a batch size in sentences or in tokens");
}

template <class T>
void shuffle(std::vector<T>& items, Random& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

// The number of examples that make about batches_in_window batches.
int64_t window_of(std::span<const PairLengths> lengths, const BatchOptions& options) {
  double examples_in_batch = static_cast<double>(options.batch_size);
  if (options.batch_tokens > 0 && !lengths.empty()) {
    Tokens sum;
    for (const PairLengths& pair : lengths) sum += Tokens(pair);
    const double by_tokens = static_cast<double>(options.batch_tokens) * static_cast<double>(lengths.size()) /
                             static_cast<double>(sum.larger());
    examples_in_batch = options.batch_size > 0 ? std::min(examples_in_batch, by_tokens) : by_tokens;
  }
  const double window = std::max(1.0, examples_in_batch) * batches_in_window;
  return static_cast<int64_t>(std::min(window, static_cast<double>(lengths.size()) + 1));
}

}  // namespace

class BatchMaker {
 public:
  BatchMaker(std::span<const PairLengths> lengths, const BatchOptions& options)
      : lengths_(lengths), options_(options) {
    check_options(options);
    check_input(lengths.size() <= UINT32_MAX, "{} pairs are too many: at most {} can be trained on",
                lengths.size(), UINT32_MAX);
    order_.resize(lengths.size());
    std::iota(order_.begin(), order_.end(), 0U);
  }

  Batches shuffled(uint64_t epoch) {
    Random random({options_.seed, first_stream + epoch});
    shuffle(order_, random);
    const auto shorter = [&](uint32_t a, uint32_t b) {
      return std::tie(lengths_[a].target, lengths_[a].source) <
             std::tie(lengths_[b].target, lengths_[b].source);
    };
    // Every other window is sorted downwards, so that a batch across two windows is of similar lengths too.
    const int64_t window = window_of(lengths_, options_), count = std::ssize(order_);
    for (int64_t begin = 0, turn = 0; begin < count; begin += window, ++turn) {
      const auto first = order_.begin() + begin, last = order_.begin() + std::min(begin + window, count);
      std::stable_sort(first, last, shorter);
      if (turn % 2 == 1) std::reverse(first, last);
    }
    cut();
    shuffle(batches_.ranges_, random);
    return std::move(batches_);
  }

  Batches longest_first() {
    std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return Tokens(lengths_[a]).larger() > Tokens(lengths_[b]).larger();
    });
    cut();
    return std::move(batches_);
  }

 private:
  // Cuts the order where the next example would break a bound.
  void cut() {
    auto& ranges = batches_.ranges_;
    Tokens filled;
    for (uint32_t at = 0; at < order_.size(); ++at) {
      const Tokens tokens(lengths_[order_[at]]);
      Tokens both = filled;
      both += tokens;
      const bool full = ranges.empty() ||
                        (options_.batch_size > 0 && int64_t{ranges.back().second} >= options_.batch_size) ||
                        (options_.batch_tokens > 0 && both.larger() > options_.batch_tokens);
      if (full) ranges.emplace_back(at, 0U);
      ++ranges.back().second;
      filled = full ? tokens : both;
    }
    batches_.order_ = std::move(order_);
  }

  std::span<const PairLengths> lengths_;
  BatchOptions options_;
  std::vector<uint32_t> order_;
  Batches batches_;
};

std::vector<PairLengths> lengths_of(const std::vector<Example>& examples) {
  std::vector<PairLengths> lengths;
  lengths.reserve(examples.size());
  for (const Example& example : examples) lengths.push_back(lengths_of_example(example));
  return lengths;
}

int64_t tokens_of(const std::vector<Example>& examples, const std::vector<int64_t>& batch) {
  Tokens sum;
  for (const auto i : batch) sum += Tokens(lengths_of_example(examples.at(static_cast<size_t>(i))));
  return sum.larger();
}

Batches make_batches(std::span<const PairLengths> lengths, const BatchOptions& options, uint64_t epoch) {
  return BatchMaker(lengths, options).shuffled(epoch);
}

std::vector<std::vector<int64_t>> make_batches_in_order(const std::vector<Example>& examples,
                                                        const BatchOptions& options) {
  const std::vector<PairLengths> lengths = lengths_of(examples);
  const Batches batches = BatchMaker(lengths, options).longest_first();
  std::vector<std::vector<int64_t>> indices;
  for (int64_t i = 0; i < batches.size(); ++i) indices.emplace_back(batches[i].begin(), batches[i].end());
  return indices;
}

}  // namespace transduce
