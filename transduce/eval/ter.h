#pragma once

// TER (Snover et al., "A study of translation edit rate with targeted human annotation", AMTA 2006): the
// edits that turn the hypothesis into the reference, where moving a stretch of words counts as one, by the
// words of the reference. The numbers are sacreBLEU 2's, whose search repeats tercom 7.25.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transduce/eval/metric.h"
#include "transduce/eval/text_rules.h"

namespace transduce {

struct TerScore {
  double score = 0.0;             // per cent
  int64_t edits = 0;              // insertions, deletions, substitutions and shifts
  double reference_length = 0.0;  // words, averaged over the references of a line
};

class Ter : public Metric {
 public:
  explicit Ter(const TercomRules& rules = {}) : rules_(rules) {}

  std::string name() const override { return "TER"; }
  std::string settings() const override;
  size_t width() const override { return 2; }
  bool higher_is_better() const override { return false; }
  // Of several references, the one with the fewest edits is counted, by the references' mean length.
  void measure(const Segment& segment, std::span<double> statistics) const override;
  double score(std::span<const double> sums) const override { return detail(sums).score; }
  TerScore detail(std::span<const double> sums) const;

 private:
  TercomRules rules_;
};

// TER of many lines; equals sacrebleu.corpus_ter. Errors: see collect_statistics.
TerScore corpus_ter(std::span<const std::string> hypotheses, ReferenceSets references,
                    const TercomRules& rules = {});

// The same with one reference a line.
TerScore corpus_ter(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                    const TercomRules& rules = {});

}  // namespace transduce
