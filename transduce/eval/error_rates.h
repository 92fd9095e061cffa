#pragma once

// How far generated sequences are from the right ones, token by token.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/data/tokenizer.h"
#include "transduce/eval/metric.h"

namespace transduce {

// Sums over a test set.
struct ErrorRates {
  int64_t sequences = 0;
  int64_t exact = 0;      // sequences that are right in full
  int64_t tokens = 0;     // of the references
  int64_t positions = 0;  // sum of max(length of hypothesis, length of reference)
  int64_t right = 0;      // positions where both hold the same token
  int64_t edits = 0;      // Levenshtein distance: insertions, deletions, substitutions

  // Adds a pair of token sequences.
  void add(const std::vector<std::string>& hypothesis, const std::vector<std::string>& reference);

  double token_accuracy() const;       // right / positions: one token too many or too few counts as wrong
  double exact_match() const;          // exact / sequences
  double sequence_error_rate() const;  // 1 - exact_match; in grapheme-to-phoneme the word error rate (WER)
  // edits / tokens; in grapheme-to-phoneme the phoneme error rate (PER). It may be above 1. Without any token
  // in the references: 0 if nothing was generated either, else 1.
  double token_error_rate() const;
};

// The fewest insertions, deletions and substitutions that turn a into b (Levenshtein 1966). Memory is linear;
// time is |a| |b| / 64 steps of a few instructions (Myers, "A fast bit-vector algorithm for approximate
// string matching", JACM 1999; Hyyro, "A bit-vector algorithm for computing Levenshtein and Damerau edit
// distances", 2003) for what is left once equal beginnings and ends are cut off.
int64_t edit_distance(const std::vector<std::string>& a, const std::vector<std::string>& b);

// The units that are compared: a text as this kind of tokenizer cuts it, whether or not a vocabulary knows
// them.
std::vector<std::string> units_of(const std::string& text, const TokenizerSpec& spec);

// What a person counts of a text that a model cuts so: pieces are put together to words.
TokenizerSpec counted_units(const TokenizerSpec& spec);

enum class RateKind { token_accuracy, exact_match, sequence_error_rate, token_error_rate };

// One of the four rates, in per cent. All four take the same statistics, so those of one serve the others.
class Rate : public Metric {
 public:
  Rate(RateKind kind, const TokenizerSpec& units) : kind_(kind), units_(units) {}

  std::string name() const override;
  std::string settings() const override;  // "case:mixed|tok:word|norm:none"
  size_t width() const override { return 6; }
  bool higher_is_better() const override {
    return kind_ == RateKind::token_accuracy || kind_ == RateKind::exact_match;
  }
  // Of several references, the one with the fewest edits is counted, the first of equals: a sequence is right
  // when it equals any of them.
  void measure(const Segment& segment, std::span<double> statistics) const override;
  double score(std::span<const double> sums) const override;
  // The sums under their names.
  static ErrorRates rates(std::span<const double> sums);

 private:
  RateKind kind_;
  TokenizerSpec units_;
};

}  // namespace transduce
