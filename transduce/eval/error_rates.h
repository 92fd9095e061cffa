#pragma once

// How far generated sequences are from the right ones.

#include <cstdint>
#include <string>
#include <vector>

#include "transduce/data/tokenizer.h"

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
  double token_error_rate() const;     // edits / tokens; in grapheme-to-phoneme the phoneme error rate (PER)
};

// The fewest insertions, deletions and substitutions that turn a into b (Levenshtein 1966).
int64_t edit_distance(const std::vector<std::string>& a, const std::vector<std::string>& b);

// The units that are compared: a text as this kind of tokenizer cuts it, whether or not a vocabulary knows
// them.
std::vector<std::string> units_of(const std::string& text, const TokenizerSpec& spec);

}  // namespace transduce
