#include "transduce/eval/significance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transduce/base/error.h"
#include "transduce/base/parallel.h"
#include "transduce/base/random.h"
#include "transduce/eval/error_rates.h"

namespace transduce {
namespace {

const Rate kExact(RateKind::exact_match, {TokenizerKind::word, NormalForm::none});

// Statistics of lines that are right with a probability.
Statistics made_up(size_t lines, double right, uint64_t seed) {
  Random random({seed, 0});
  std::vector<std::string> hypotheses, references(lines, "a b c");
  for (size_t i = 0; i < lines; ++i) hypotheses.push_back(random.uniform() < right ? "a b c" : "a x c d");
  return collect_statistics(kExact, hypotheses, std::vector<std::vector<std::string>>{references});
}

TEST(Bootstrap, GivesTheSpreadOfAShare) {
  const Statistics statistics = made_up(1000, 0.3, 1);
  const double share = kExact.score(statistics.sums()) / 100.0;
  const Interval interval = bootstrap(kExact, statistics, {4000, 7});
  // Of 1,000 lines, a share has a standard deviation of sqrt(p (1 - p) / 1000); 1.96 of them are 95 %.
  EXPECT_NEAR(interval.mean, 100.0 * share, 0.1);
  EXPECT_NEAR(interval.half_width(), 196.0 * std::sqrt(share * (1 - share) / 1000), 0.15);
  EXPECT_LT(interval.low, interval.mean);
  EXPECT_GT(interval.high, interval.mean);
}

TEST(PairedTests, TellARealDifferenceFromNone) {
  const Statistics good = made_up(500, 0.6, 1), bad = made_up(500, 0.4, 2), as_good = made_up(500, 0.6, 4);
  for (const auto test : {paired_bootstrap, paired_randomization}) {
    const PairedResult result = test(kExact, good, bad, {1000, 12345});
    EXPECT_LE(result.p_value, 0.005);
    EXPECT_GT(result.system, result.baseline);
    EXPECT_EQ(test(kExact, bad, good, {1000, 12345}).p_value, result.p_value);  // two-sided
    EXPECT_GT(test(kExact, good, as_good, {1000, 12345}).p_value, 0.1);
    // A system against itself: no drawing is above a difference of 0, so that 1 of 1,001 is left, as in
    // sacreBLEU and multeval.
    EXPECT_EQ(test(kExact, good, good, {1000, 12345}).p_value, 1.0 / 1001);
  }
}

TEST(PairedTests, DependOnTheSeedOnlyNotOnThreads) {
  const Statistics a = made_up(301, 0.5, 1), b = made_up(301, 0.45, 2);
  const int before = threads();
  for (const auto test : {paired_bootstrap, paired_randomization}) {
    set_threads(1);
    const PairedResult one = test(kExact, a, b, {500, 9});
    set_threads(3);
    const PairedResult three = test(kExact, a, b, {500, 9});
    EXPECT_EQ(one.p_value, three.p_value);
    EXPECT_EQ(one.system_interval.mean, three.system_interval.mean);
    EXPECT_EQ(one.baseline_interval.high, three.baseline_interval.high);
    EXPECT_NE(test(kExact, a, b, {500, 10}).p_value, one.p_value);
  }
  set_threads(before);
}

TEST(PairedTests, RefuseWhatCannotBePaired) {
  const Statistics a = made_up(10, 0.5, 1), b = made_up(11, 0.5, 1);
  EXPECT_THROW(paired_bootstrap(kExact, a, b, {}), InputError);
  EXPECT_THROW(paired_randomization(kExact, a, b, {}), InputError);
  EXPECT_THROW(paired_bootstrap(kExact, a, a, {0, 1}), InputError);
  EXPECT_THROW(bootstrap(kExact, Statistics{}, {}), InputError);
  EXPECT_EQ(paired_bootstrap(kExact, made_up(1, 1.0, 1), made_up(1, 1.0, 1), {1, 1}).p_value, 0.5);
}

}  // namespace
}  // namespace transduce
