#pragma once

// The search for shifts within TER.

#include <cstdint>
#include <string_view>

namespace transduce {

// The edits that turn `hypothesis` into `reference`, both strings of words' numbers: while a shift makes the
// edit distance smaller, the best one is done (Snover et al. 2006, section 3.2), then what is left is
// inserted, deleted and substituted. Greedy search, not the least possible number.
//
// Bounded as in sacreBLEU: shifts of up to 10 words over up to 50 places, 1,000 tries, and an edit distance
// within a band of 25 words around the diagonal, widened where the lengths differ much. So memory is linear
// and time is about 50,000 steps a word at worst. Equals sacreBLEU's translation_edit_rate.
int64_t translation_edits(std::u32string_view hypothesis, std::u32string_view reference);

}  // namespace transduce
