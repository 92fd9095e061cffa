#pragma once

// Counting n-grams. A multiset of n-grams is a sorted vector that keeps repeats, so that the standard
// library's set algorithms count what BLEU and chrF ask for.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace transduce {

// The n-grams of one order in ascending order, repeats kept. They view into the sequence.
using Ngrams = std::vector<std::u32string_view>;

// The n-grams of orders 1 to max_order of a sequence of characters, or of tokens' numbers; [n - 1] holds
// those of order n. Empty where the sequence is shorter than n.
std::vector<Ngrams> ngrams_of(std::u32string_view sequence, size_t max_order);

// How many n-grams both hold: the sum over all of the lesser count ("clipped" counts).
int64_t count_common(const Ngrams& a, const Ngrams& b);

// Every n-gram as often as in the one that has it more often.
Ngrams unite(const Ngrams& a, const Ngrams& b);

// Gives equal words equal numbers, so that sequences of words become strings of numbers. The words must
// outlive it.
class WordNumbers {
 public:
  std::u32string operator()(const std::vector<std::u32string_view>& words);

 private:
  std::unordered_map<std::u32string_view, char32_t> numbers_;
};

}  // namespace transduce
