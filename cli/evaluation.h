#pragma once

// Scoring one system, or two side by side, and saying how it went.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/metric_options.h"
#include "transduce/eval/significance.h"

namespace transduce::cli {

// What is drawn, and how often.
struct Resampling {
  bool randomization = false;  // else bootstrap
  ResamplingOptions options;

  // As in a signature: "bs:1000|seed:12345", "ar:10000|seed:12345".
  std::string settings() const;
};

// Takes lines in pieces of any size and keeps of them what the metrics need.
class Evaluation {
 public:
  // `keep_lines`: the statistics of each line are kept, for resampling; else their sums alone.
  Evaluation(const std::vector<ChosenMetric>& metrics, size_t references, bool keep_lines);

  // Adds lines: a system's and its references'. Errors: see collect_statistics.
  void add(std::span<const std::string> hypotheses, ReferenceSets references);

  // Statistics of the lines that were added last.
  const Statistics& last(size_t metric) const { return last_[source_[metric]]; }
  // Statistics of all lines; kept only with `keep_lines`.
  const Statistics& kept(size_t metric) const { return kept_[source_[metric]]; }
  // (width)
  std::span<const double> sums(size_t metric) const { return sums_[source_[metric]]; }

  const std::vector<ChosenMetric>& metrics() const { return metrics_; }
  size_t references() const { return references_; }
  int64_t lines() const { return lines_; }

 private:
  const std::vector<ChosenMetric>& metrics_;
  size_t references_;
  bool keep_lines_;
  int64_t lines_ = 0;
  std::vector<size_t> source_;  // the metric that measures for each: the rates share their statistics
  std::vector<Statistics> last_, kept_;
  std::vector<std::vector<double>> sums_;
};

// The scores of each of the lines that were added last: with tabs between them, or a JSON object a line.
void print_lines(const Evaluation& evaluation, bool json);

// A table for people, or one JSON object. With `resampling`, also intervals; with `baseline` too, p-values.
void print_scores(const Evaluation& evaluation, const Evaluation* baseline,
                  const std::optional<Resampling>& resampling, bool json);

}  // namespace transduce::cli
