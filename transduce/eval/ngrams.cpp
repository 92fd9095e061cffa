#include "transduce/eval/ngrams.h"

#include <algorithm>
#include <iterator>

namespace transduce {
namespace {

// Counts what is written to it and keeps nothing.
struct Counter {
  using iterator_category = std::output_iterator_tag;
  using value_type = void;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = void;

  int64_t* count;
  Counter& operator*() { return *this; }
  Counter& operator++() { return *this; }
  Counter operator++(int) { return *this; }
  Counter& operator=(const std::u32string_view&) {
    ++*count;
    return *this;
  }
};

}  // namespace

std::vector<Ngrams> ngrams_of(std::u32string_view sequence, size_t max_order) {
  // One sort serves all orders: where the longest are in order, so are their beginnings.
  Ngrams longest;
  longest.reserve(sequence.size());
  for (size_t i = 0; i < sequence.size(); ++i) longest.push_back(sequence.substr(i, max_order));
  std::sort(longest.begin(), longest.end());
  std::vector<Ngrams> orders(max_order);
  for (size_t n = 1; n <= max_order; ++n) {
    for (const std::u32string_view ngram : longest) {
      if (ngram.size() >= n) orders[n - 1].push_back(ngram.substr(0, n));
    }
  }
  return orders;
}

int64_t count_common(const Ngrams& a, const Ngrams& b) {
  int64_t count = 0;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), Counter{&count});
  return count;
}

Ngrams unite(const Ngrams& a, const Ngrams& b) {
  Ngrams result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

std::u32string WordNumbers::operator()(const std::vector<std::u32string_view>& words) {
  std::u32string numbers;
  numbers.reserve(words.size());
  for (const std::u32string_view word : words) {
    numbers += numbers_.try_emplace(word, static_cast<char32_t>(numbers_.size())).first->second;
  }
  return numbers;
}

}  // namespace transduce
