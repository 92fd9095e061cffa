#pragma once

// Whether one system is better than another, or only luckier with these lines. Both tests draw sets of lines
// or swap lines between the two systems, and need the lines' statistics only.
//
// Random numbers come from a counter: the same seed gives the same result on any number of threads. They are
// not numpy's, which sacreBLEU draws, so p-values agree with sacreBLEU's within sampling error: about
// sqrt(p (1 - p) / trials).

#include <cstdint>

#include "transduce/eval/metric.h"

namespace transduce {

struct ResamplingOptions {
  int64_t trials = 1000;
  uint64_t seed = 12345;

  // Errors: InputError when trials is not in 1 to 10,000,000.
  void validate() const;
};

// Scores of sets of lines drawn with replacement: their mean and the interval that holds 95 % of them.
struct Interval {
  double mean = 0.0, low = 0.0, high = 0.0;

  double half_width() const { return 0.5 * (high - low); }  // what sacreBLEU prints after its plus-minus sign
};

// A scored pair of systems on the same lines.
struct PairedResult {
  double system = 0.0, baseline = 0.0;          // scores of all lines
  Interval system_interval, baseline_interval;  // paired_bootstrap only
  double p_value = 1.0;  // how likely a difference at least as large is if the systems are equally good
};

// The bootstrap (Efron 1979; Koehn, "Statistical significance tests for machine translation evaluation",
// EMNLP 2004, section 3); equals sacreBLEU's confidence interval but for the random numbers. Runs on all
// threads. Errors: InputError on options out of range or no lines.
Interval bootstrap(const Metric& metric, const Statistics& statistics, const ResamplingOptions& options);

// Paired bootstrap resampling (Koehn 2004, section 4): both systems are scored on the same drawn lines. The
// p-value is that of sacreBLEU's --paired-bs and of Moses: how often the absolute difference, less its mean
// over all drawings, is above the real one. Errors: as bootstrap; also when the numbers of lines differ.
PairedResult paired_bootstrap(const Metric& metric, const Statistics& system, const Statistics& baseline,
                              const ResamplingOptions& options);

// Paired approximate randomization (Riezler and Maxwell, "On some pitfalls in automatic evaluation and
// significance testing for MT", 2005): each line is given to one of two made-up systems by a throw of a coin.
// The p-value is that of sacreBLEU's --paired-ar and of multeval: how often those two differ by more than the
// real ones. Errors: as paired_bootstrap.
PairedResult paired_randomization(const Metric& metric, const Statistics& system, const Statistics& baseline,
                                  const ResamplingOptions& options);

}  // namespace transduce
