#include "transduce/eval/significance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "transduce/base/error.h"
#include "transduce/base/parallel.h"
#include "transduce/base/random.h"

namespace transduce {
namespace {

// Streams of the seed's random numbers.
constexpr uint64_t kDrawnLines = 0x626F6F74;   // "boot"
constexpr uint64_t kThrownCoins = 0x636F696E;  // "coin"

void add_row(std::span<const double> row, std::vector<double>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += row[i];
}

// Calls use(i) for the lines that make up drawing `trial`, as many as there are lines: always the same ones
// for a seed, whatever is measured on them.
template <class Use>
void draw_lines(uint64_t seed, int64_t trial, size_t lines, Use use) {
  const uint64_t blocks = (lines + 3) / 4;  // of four words
  for (uint64_t block = 0; block < blocks; ++block) {
    const auto words = philox({seed, kDrawnLines}, static_cast<uint64_t>(trial) * blocks + block);
    for (size_t k = 0; k < std::min<size_t>(4, lines - 4 * block); ++k) {
      use(static_cast<size_t>((uint64_t{words[k]} * lines) >> 32));  // uniform to lines / 2^32
    }
  }
}

// The scores of all drawings, (trials).
std::vector<double> resampled_scores(const Metric& metric, const Statistics& statistics,
                                     const ResamplingOptions& options) {
  std::vector<double> scores(static_cast<size_t>(options.trials));
  parallel_for(options.trials, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(statistics.width);
    for (int64_t trial = begin; trial < end; ++trial) {
      std::fill(sums.begin(), sums.end(), 0.0);
      draw_lines(options.seed, trial, statistics.lines(),
                 [&](size_t line) { add_row(statistics.row(line), sums); });
      scores[static_cast<size_t>(trial)] = metric.score(sums);
    }
  });
  return scores;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// One fortieth of the scores lies outside on either side.
Interval interval_of(std::vector<double> scores) {
  std::sort(scores.begin(), scores.end());
  const size_t outside = scores.size() / 40;
  return {mean_of(scores), scores[outside], scores[scores.size() - 1 - outside]};
}

// The share of trials above the real difference; the real one counts as a trial, so that p is never 0.
double p_value_of(const std::vector<double>& differences, double real) {
  const auto above =
      std::count_if(differences.begin(), differences.end(), [&](double d) { return d > real; });
  return static_cast<double>(above + 1) / static_cast<double>(differences.size() + 1);
}

void check_lines(const Metric& metric, const Statistics& statistics) {
  check_input(statistics.lines() > 0 && statistics.width == metric.width(),
              "there are no statistics of {} to resample", metric.name());
  check_input(statistics.lines() < (uint64_t{1} << 32), "{} lines are too many to resample",
              statistics.lines());
}

PairedResult scored_pair(const Metric& metric, const Statistics& system, const Statistics& baseline,
                         const ResamplingOptions& options) {
  options.validate();
  check_lines(metric, system);
  check_lines(metric, baseline);
  check_input(system.lines() == baseline.lines(), "the system has {} lines but the baseline has {}",
              system.lines(), baseline.lines());
  PairedResult result;
  result.system = metric.score(system.sums());
  result.baseline = metric.score(baseline.sums());
  return result;
}

}  // namespace

void ResamplingOptions::validate() const {
  check_input(trials >= 1 && trials <= 10000000, "{} trials are out of range: give 1 to 10000000", trials);
}

Interval bootstrap(const Metric& metric, const Statistics& statistics, const ResamplingOptions& options) {
  options.validate();
  check_lines(metric, statistics);
  return interval_of(resampled_scores(metric, statistics, options));
}

PairedResult paired_bootstrap(const Metric& metric, const Statistics& system, const Statistics& baseline,
                              const ResamplingOptions& options) {
  PairedResult result = scored_pair(metric, system, baseline, options);
  const std::vector<double> system_scores = resampled_scores(metric, system, options);
  const std::vector<double> baseline_scores = resampled_scores(metric, baseline, options);
  std::vector<double> differences;
  for (size_t i = 0; i < system_scores.size(); ++i) {
    differences.push_back(std::abs(system_scores[i] - baseline_scores[i]));
  }
  // Drawn differences lie around the real one; under the hypothesis that there is none they lie around 0.
  const double mean = mean_of(differences);
  for (double& difference : differences) difference -= mean;
  result.p_value = p_value_of(differences, std::abs(result.system - result.baseline));
  result.system_interval = interval_of(system_scores);
  result.baseline_interval = interval_of(baseline_scores);
  return result;
}

PairedResult paired_randomization(const Metric& metric, const Statistics& system, const Statistics& baseline,
                                  const ResamplingOptions& options) {
  PairedResult result = scored_pair(metric, system, baseline, options);
  const size_t lines = system.lines();
  const uint64_t blocks = (lines + 127) / 128;  // of four words with 32 coins each
  std::vector<double> differences(static_cast<size_t>(options.trials));
  parallel_for(options.trials, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> heads(system.width), tails(system.width);
    for (int64_t trial = begin; trial < end; ++trial) {
      std::fill(heads.begin(), heads.end(), 0.0);
      std::fill(tails.begin(), tails.end(), 0.0);
      std::array<uint32_t, 4> coins{};
      for (size_t line = 0; line < lines; ++line) {
        if (line % 128 == 0) {
          coins = philox({options.seed, kThrownCoins}, static_cast<uint64_t>(trial) * blocks + line / 128);
        }
        const bool swapped = ((coins[line % 128 / 32] >> (line % 32)) & 1) != 0;
        add_row(system.row(line), swapped ? tails : heads);
        add_row(baseline.row(line), swapped ? heads : tails);
      }
      differences[static_cast<size_t>(trial)] = std::abs(metric.score(heads) - metric.score(tails));
    }
  });
  result.p_value = p_value_of(differences, std::abs(result.system - result.baseline));
  return result;
}

}  // namespace transduce
