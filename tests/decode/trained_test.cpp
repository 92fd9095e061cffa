// The promises of decoding on a real model: TRANSDUCE_MODEL names its directory, TRANSDUCE_SOURCE a file to
// translate (its first 200 lines are). Skipped without them; docs/decoding.md has the command.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/decode/plain_search.h"
#include "transduce/base/file.h"
#include "transduce/decode/scorer.h"
#include "transduce/decode/translator.h"

namespace transduce {
namespace {

using namespace decode_tests;
using Translations = std::vector<std::vector<Translation>>;

class TrainedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const char *model = std::getenv("TRANSDUCE_MODEL"), *source = std::getenv("TRANSDUCE_SOURCE");
    if (model == nullptr || source == nullptr) GTEST_SKIP() << "needs TRANSDUCE_MODEL and TRANSDUCE_SOURCE";
    model_ = load_model(model);
    lines_ = read_lines(source);
    lines_.resize(std::min<size_t>(lines_.size(), 200));
  }

  Translations translate(const std::vector<std::string>& lines, int64_t beam, int64_t n_best,
                         int64_t batch_size = 64) const {
    Translator::Options options;
    options.search.beam = beam;
    options.search.n_best = n_best;
    options.batch_size = batch_size;
    return Translator(model_, options).translate(lines);
  }

  static void expect_same(const Translations& got, const Translations& expected, const std::string& what) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].size(), expected[i].size()) << what << ", line " << i + 1;
      for (size_t k = 0; k < got[i].size(); ++k) {
        EXPECT_EQ(got[i][k].text, expected[i][k].text) << what << ", line " << i + 1 << ", entry " << k;
        EXPECT_NEAR(got[i][k].hypothesis.score, expected[i][k].hypothesis.score, 1e-4) << what;
      }
    }
  }

  Seq2SeqModel model_;
  std::vector<std::string> lines_;
};

TEST_F(TrainedModel, BatchSizeAndOrderChangeNothing) {
  std::vector<size_t> order(lines_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::vector<std::string> shuffled;
  for (const size_t i : order) shuffled.push_back(lines_[i]);
  for (const int64_t beam : {1, 5}) {
    const Translations alone = translate(lines_, beam, beam, 1);
    expect_same(translate(lines_, beam, beam, 7), alone, "batch 7");
    expect_same(translate(lines_, beam, beam, 64), alone, "batch 64");
    Translations expected;
    for (const size_t i : order) expected.push_back(alone[i]);
    expect_same(translate(shuffled, beam, beam, 64), expected, "shuffled");
  }
}

TEST_F(TrainedModel, CachedSearchEqualsFullRecomputation) {
  for (const int64_t beam : {1, 5}) {
    for (size_t i = 0; i < std::min<size_t>(lines_.size(), 20); ++i) {
      const std::vector<int32_t> source = model_.source->encode(lines_[i]);
      SearchOptions options;
      options.beam = options.n_best = beam;
      options.max_length = 2 * (static_cast<int64_t>(source.size()) + 1) + 50;
      decode_tests::expect_same(search_all(*model_.transformer, {source}, options)[0],
                                plain_beam({model_.transformer.get()}, source, options),
                                fmt::format("beam {}, line {}", beam, i + 1));
    }
  }
}

TEST_F(TrainedModel, FiveBestHaveTheSameFirstAndScoreAgrees) {
  const Translations one = translate(lines_, 5, 1), five = translate(lines_, 5, 5);
  std::vector<ScoreRequest> pairs;
  std::vector<double> scores;
  for (size_t i = 0; i < lines_.size(); ++i) {
    EXPECT_EQ(five[i][0].text, one[i][0].text);
    for (const Translation& translation : five[i]) {
      pairs.push_back({model_.source->encode(lines_[i]), translation.hypothesis.tokens, 0});
      scores.push_back(translation.hypothesis.score);
    }
  }
  const std::vector<Hypothesis> scored = score({model_.transformer.get()}, pairs, {});
  for (size_t i = 0; i < pairs.size(); ++i) EXPECT_NEAR(scored[i].score, scores[i], 1e-4);
}

TEST_F(TrainedModel, AnEnsembleWithItselfIsTheModel) {
  Translator::Options options;
  options.search.beam = 5;
  expect_same(Translator({&model_, &model_}, options).translate(lines_), translate(lines_, 5, 1), "twice");
}

}  // namespace
}  // namespace transduce
