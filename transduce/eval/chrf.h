#pragma once

// chrF and chrF++ (Popovic, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015, and
// "chrF++: words helping character n-grams", WMT 2017), with the numbers of sacreBLEU 2.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transduce/eval/metric.h"

namespace transduce {

// sacreBLEU's defaults.
struct ChrfOptions {
  int64_t char_order = 6;  // the longest n-grams of characters
  int64_t word_order = 0;  // of words; 2 makes chrF++
  int64_t beta = 2;        // recall counts beta times as much as precision
  bool lowercase = false;
  bool whitespace = false;  // white space is a character too
  // true: every order counts, missing ones with 1e-16, as chrF++.py; false: only orders that both sides have.
  bool epsilon_smoothing = false;

  // Errors: InputError naming what is out of range.
  void validate() const;
};

class Chrf : public Metric {
 public:
  // Errors: InputError on options out of range.
  explicit Chrf(const ChrfOptions& options);

  // "chrF2", "chrF2++": beta, and a plus for each order of words.
  std::string name() const override;
  std::string settings() const override;
  size_t width() const override { return 3 * orders(); }
  // Of several references, the one with the best score is counted.
  void measure(const Segment& segment, std::span<double> statistics) const override;
  double score(std::span<const double> sums) const override;

 private:
  size_t orders() const { return static_cast<size_t>(options_.char_order + options_.word_order); }

  ChrfOptions options_;
};

// chrF of many lines, in per cent; equals sacrebleu.corpus_chrf. Errors: see collect_statistics and
// ChrfOptions::validate.
double corpus_chrf(std::span<const std::string> hypotheses, ReferenceSets references,
                   const ChrfOptions& options = {});

// The same with one reference a line.
double corpus_chrf(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                   const ChrfOptions& options = {});

}  // namespace transduce
