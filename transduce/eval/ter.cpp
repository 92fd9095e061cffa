#include "transduce/eval/ter.h"

#include <algorithm>
#include <limits>

#include "transduce/base/error.h"
#include "transduce/eval/ngrams.h"
#include "transduce/eval/ter_search.h"
#include "transduce/eval/unicode.h"

namespace transduce {

std::string Ter::settings() const {
  const auto yes_no = [](bool yes) { return yes ? "yes" : "no"; };
  return fmt::format("case:{}|tok:tercom|norm:{}|punct:{}|asian:{}", rules_.case_sensitive ? "mixed" : "lc",
                     yes_no(rules_.normalized), yes_no(!rules_.no_punctuation), yes_no(rules_.asian_support));
}

// Statistics: edits, mean length of the references.
void Ter::measure(const Segment& segment, std::span<double> statistics) const {
  const auto tokens = [&](std::string_view text) {
    return tokenize_for_ter(trim_end(decode_utf8(text)), rules_);
  };
  std::vector<std::u32string> texts{tokens(segment.hypothesis)};
  for (const std::string_view reference : segment.references) texts.push_back(tokens(reference));
  WordNumbers numbers;
  const std::u32string hypothesis = numbers(split_words(texts[0]));
  int64_t fewest = std::numeric_limits<int64_t>::max();
  double length = 0.0;
  for (size_t r = 1; r < texts.size(); ++r) {
    const std::u32string reference = numbers(split_words(texts[r]));
    length += static_cast<double>(reference.size());
    fewest = std::min(fewest, translation_edits(hypothesis, reference));
  }
  statistics[0] = static_cast<double>(fewest);
  statistics[1] = length / static_cast<double>(segment.references.size());
}

TerScore Ter::detail(std::span<const double> sums) const {
  const double edits = sums[0], length = sums[1];
  // With no word in any reference, words in the hypotheses are all wrong and nothing at all is all right.
  const double rate = length > 0.0 ? edits / length : (edits > 0.0 ? 1.0 : 0.0);
  return {100.0 * rate, static_cast<int64_t>(edits), length};
}

TerScore corpus_ter(std::span<const std::string> hypotheses, ReferenceSets references,
                    const TercomRules& rules) {
  const Ter ter(rules);
  return ter.detail(collect_statistics(ter, hypotheses, references).sums());
}

TerScore corpus_ter(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                    const TercomRules& rules) {
  return corpus_ter(hypotheses, ReferenceSets(&reference, 1), rules);
}

}  // namespace transduce
