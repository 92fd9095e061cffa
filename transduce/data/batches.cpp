#include "transduce/data/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

  int64_t larger() const { return std::max(source, target); }
  Tokens operator+(const Tokens& other) const { return {source + other.source, target + other.target}; }
};

// A sentence's ids and its end symbol.
Tokens tokens_of_example(const Example& example) {
  return {static_cast<int64_t>(example.source.size()) + 1, static_cast<int64_t>(example.target.size()) + 1};
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
int64_t window_of(const std::vector<Example>& examples, const BatchOptions& options) {
  double examples_in_batch = static_cast<double>(options.batch_size);
  if (options.batch_tokens > 0 && !examples.empty()) {
    Tokens sum;
    for (const auto& example : examples) sum = sum + tokens_of_example(example);
    const double by_tokens = static_cast<double>(options.batch_tokens) *
                             static_cast<double>(examples.size()) / static_cast<double>(sum.larger());
    examples_in_batch = options.batch_size > 0 ? std::min(examples_in_batch, by_tokens) : by_tokens;
  }
  const double window = std::max(1.0, examples_in_batch) * batches_in_window;
  return static_cast<int64_t>(std::min(window, static_cast<double>(examples.size()) + 1));
}

// Cuts `order` where the next example would break a bound.
std::vector<std::vector<int64_t>> cut(const std::vector<Example>& examples, const std::vector<int64_t>& order,
                                      const BatchOptions& options) {
  std::vector<std::vector<int64_t>> batches;
  Tokens filled;
  for (const auto i : order) {
    const Tokens tokens = tokens_of_example(examples[static_cast<size_t>(i)]);
    const bool full =
        batches.empty() ||
        (options.batch_size > 0 && static_cast<int64_t>(batches.back().size()) >= options.batch_size) ||
        (options.batch_tokens > 0 && (filled + tokens).larger() > options.batch_tokens);
    if (full) {
      batches.emplace_back();
      filled = {};
    }
    batches.back().push_back(i);
    filled = filled + tokens;
  }
  return batches;
}

}  // namespace

int64_t tokens_of(const std::vector<Example>& examples, const std::vector<int64_t>& batch) {
  Tokens sum;
  for (const auto i : batch) sum = sum + tokens_of_example(examples.at(static_cast<size_t>(i)));
  return sum.larger();
}

std::vector<std::vector<int64_t>> make_batches(const std::vector<Example>& examples,
                                               const BatchOptions& options, uint64_t epoch) {
  check_options(options);
  Random random({options.seed, first_stream + epoch});
  std::vector<int64_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random);
  const auto shorter = [&](int64_t a, int64_t b) {
    const Tokens x = tokens_of_example(examples[static_cast<size_t>(a)]);
    const Tokens y = tokens_of_example(examples[static_cast<size_t>(b)]);
    return std::pair(x.target, x.source) < std::pair(y.target, y.source);
  };
  // Every other window is sorted downwards, so that a batch across two windows is of similar lengths as well.
  const int64_t window = window_of(examples, options), count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0, turn = 0; begin < count; begin += window, ++turn) {
    const auto first = order.begin() + begin, last = order.begin() + std::min(begin + window, count);
    std::stable_sort(first, last, shorter);
    if (turn % 2 == 1) std::reverse(first, last);
  }
  auto batches = cut(examples, order, options);
  shuffle(batches, random);
  return batches;
}

std::vector<std::vector<int64_t>> make_batches_in_order(const std::vector<Example>& examples,
                                                        const BatchOptions& options) {
  check_options(options);
  std::vector<int64_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return tokens_of_example(examples[static_cast<size_t>(a)]).larger() >
           tokens_of_example(examples[static_cast<size_t>(b)]).larger();
  });
  return cut(examples, order, options);
}

}  // namespace transduce
