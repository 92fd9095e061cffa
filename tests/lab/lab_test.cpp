// Every experiment of the laboratory: its claims come out as stated, and the published figures are all there.

#include "transduce/lab/lab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "transduce/base/error.h"

namespace transduce::lab {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Those that train models. Under a sanitizer they would take an hour; tests/train runs the same code there.
const std::set<std::string> kTraining = {"positions",       "scaling",         "masks",     "norm-placement",
                                         "label-smoothing", "copy-or-reverse", "complexity"};

class Laboratory : public ::testing::TestWithParam<Experiment> {};

TEST_P(Laboratory, ClaimsComeOutAsStated) {
  const Experiment& experiment = GetParam();
  if (kSanitized && kTraining.count(experiment.name) != 0) GTEST_SKIP() << "too slow under a sanitizer";
  const Findings findings = experiment.run();
  EXPECT_FALSE(findings.claims.empty());
  EXPECT_FALSE(findings.pictures.empty());
  for (const Claim& claim : findings.claims) {
    EXPECT_FALSE(claim.measured.empty()) << claim.text;
    if (claim.timed) continue;  // what a busy machine does to a time is no fault
    EXPECT_NE(claim.verdict, Verdict::fails)
        << claim.text << ": published " << claim.published << ", measured " << claim.measured;
    EXPECT_TRUE(claim.verdict != Verdict::not_reproduced || !claim.note.empty()) << claim.text;
  }
  for (const Picture& picture : findings.pictures)
    std::visit([](const auto& drawn) { EXPECT_GT(page::draw(drawn).width, 0); }, picture);
}

INSTANTIATE_TEST_SUITE_P(All, Laboratory, ::testing::ValuesIn(experiments().begin(), experiments().end()),
                         [](const auto& experiment) {
                           std::string name = experiment.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The figures that the laboratory owes, as they were printed.
TEST(LaboratoryFigures, AreAllThere) {
  struct Owed {
    const char* experiment;
    std::vector<std::string> published;
  };
  const Owed all[] = {
      {"residual", {"8.882e-16", "6.376e+08"}},
      {"layernorm", {"-0.000000", "0.999995", "[-1.07, -0.53, 0.00, 1.60]"}},
      {"activation", {"0.8413", "1"}},
      {"budget",
       {"1,050,624 (33.3 %)", "2,099,712 (66.6 %)", "2,048 (0.1 %)", "3,152,384", "44.14 million",
        "65 million"}},
  };
  for (const Owed& owed : all) {
    std::multiset<std::string> there;
    for (const Claim& claim : experiment_named(owed.experiment).run().claims) there.insert(claim.published);
    for (const std::string& figure : owed.published) EXPECT_EQ(there.count(figure), 1U) << figure;
  }
}

TEST(Claims, CompareAsTheySay) {
  EXPECT_EQ(exact("", "0.50", "0.50").verdict, Verdict::exact);
  EXPECT_EQ(exact("", "0.50", "0.5").verdict, Verdict::fails);
  EXPECT_EQ(near("", 1.0, 1.1, {0.2, ""}).verdict, Verdict::within);
  EXPECT_EQ(near("", 1.0, 1.3, {0.2, ""}).verdict, Verdict::fails);
  EXPECT_EQ(near("", 1.0, NAN, {0.2, ""}).verdict, Verdict::fails);
  EXPECT_EQ(holds("", "", false).verdict, Verdict::fails);
  EXPECT_THROW(experiment_named("resid"), InputError);
}

}  // namespace
}  // namespace transduce::lab
