// The page of a training: bounded whatever the log's length, faithful to it, and safe whatever stands in it.

#include "transduce/train/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "tests/base/temporary_directory.h"
#include "tests/page/xml.h"
#include "transduce/base/file.h"

namespace transduce {
namespace {

using nlohmann::ordered_json;
using testing::count_of;
using testing::TemporaryDirectory;

const std::string kHostile = "</script><b>\"'><img src=x onerror=alert(1)>&amp;<!--";

ordered_json update(int64_t step, double loss) {
  return {{"step", step},
          {"epoch", 0.01 * static_cast<double>(step)},
          {"loss", loss},
          {"learning_rate", 1e-3},
          {"gradient_norm", 0.5},
          {"target_tokens", 10},
          {"applied", step != 7},
          {"tokens_per_second", 1000.0},
          {"seconds", 0.1 * static_cast<double>(step)}};
}

ordered_json validation(int64_t step, double loss, bool best, const std::string& output) {
  return {{"step", step},
          {"validation", true},
          {"loss", loss},
          {"bleu", 20.0 + static_cast<double>(step)},
          {"best", best},
          {"seconds", 1.0},
          {"samples", {{{"source", "ein Haus"}, {"reference", "a house"}, {"output", output}}}}};
}

TEST(Curve, KeepsEveryValueUntilTheyAreTooMany) {
  Curve curve;
  for (int i = 1; i <= 1000; ++i) curve.add(i, 2.0 * i);
  EXPECT_EQ(curve.stride(), 1);
  EXPECT_EQ(curve.y().at(999), 2000.0);
}

TEST(Curve, ThinsToMeansOfNeighbours) {
  Curve curve;
  constexpr int kCount = 123457;
  for (int i = 0; i < kCount; ++i) curve.add(i, 3.0 * i + 1.0);
  EXPECT_EQ(curve.stride(), 128);  // the first power of two that leaves at most 1,000
  ASSERT_EQ(curve.x().size(), (kCount + 127U) / 128U);
  const std::vector<double> x = curve.x(), y = curve.y();
  EXPECT_EQ(x[0], 63.5);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], 3.0 * x[i] + 1.0, 1e-6) << i;
}

TEST(Curve, WhatIsNotFiniteIsLeftOutOfTheMean) {
  Curve curve;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 1001; ++i) curve.add(i, i % 2 == 0 ? 1.0 : nan);
  EXPECT_EQ(curve.y().at(0), 1.0);
  Curve none;
  none.add(1.0, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(none.y().at(0)));
}

TEST(TrainingHistory, SaysWhatTheLogSays) {
  TrainingHistory h;
  h.add(validation(0, 4.0, true, "x"));
  for (int i = 1; i <= 10; ++i) h.add(update(i, 4.0 - 0.1 * i));
  h.add(validation(10, 2.5, true, "a"));
  for (int i = 11; i <= 20; ++i) h.add(update(i, 3.0));
  h.add(validation(20, 2.75, false, "a house"));
  EXPECT_EQ(h.updates, 20);
  EXPECT_EQ(h.skipped, 1);
  EXPECT_EQ(h.validations, 3);
  EXPECT_EQ(h.target_tokens, 200.0);
  EXPECT_EQ(h.best->step, 10);
  EXPECT_EQ(h.last->score("bleu"), 40.0);
  EXPECT_EQ(h.scores.at(0).second.y(), (std::vector<double>{4.0, 2.5, 2.75}));
  EXPECT_EQ(h.sampled().size(), 3U);
  EXPECT_EQ(h.end, "");
  h.add({{"step", 20}, {"end", "out of patience"}});
  const std::string page = training_report(h, "width = 16\n", "m");
  for (const char* text :
       {"Training of m", "out of patience", "width = 16", "a house", "<td class=\"number\"><bdi>40</bdi>",
        "update 10", "aria-label=\"bleu, validation\"", "✓"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
}

TEST(TrainingHistory, KeepsFewSamplesOfManyValidations) {
  TrainingHistory h;
  for (int i = 0; i < 1000; ++i) h.add(validation(i, 1.0, false, std::to_string(i)));
  const auto sampled = h.sampled();
  EXPECT_LE(sampled.size(), 17U);
  EXPECT_GE(sampled.size(), 8U);
  EXPECT_EQ(sampled.front().step, 0);
  EXPECT_EQ(sampled.back().step, 999);
  for (size_t i = 1; i + 1 < sampled.size(); ++i) {
    EXPECT_EQ(sampled[i].step - sampled[i - 1].step, sampled[1].step) << i;
  }
}

TEST(TrainingHistory, ReadsALogThatWasCutShort) {
  const TemporaryDirectory place;
  const std::string whole = update(1, 3.0).dump() + "\n" + update(2, 2.0).dump() + "\n";
  const std::string last = validation(2, 1.0, true, "한국어").dump();
  for (size_t bytes = 0; bytes <= last.size(); ++bytes) {
    write_file_atomic(place / "log.jsonl", whole + last.substr(0, bytes));
    const TrainingHistory h = TrainingHistory::read(place / "log.jsonl");
    EXPECT_EQ(h.updates, 2);
    EXPECT_EQ(h.validations, bytes == last.size() ? 1 : 0);
    EXPECT_EQ(h.unreadable, bytes == 0 || bytes == last.size() ? 0 : 1) << bytes;
  }
}

TEST(TrainingHistory, PassesOverWhatIsNoLog) {
  const TemporaryDirectory place;
  write_file_atomic(
      place / "log.jsonl",
      "[]\n7\nnull\n\"x\"\n\xFF\xFE\n" + std::string(100000, '[') + "\n" +
          R"({"step":-5,"loss":"three","seconds":1e999,"epoch":[1],"applied":0})"
          "\n"
          R"({"step":1e300,"validation":true,"loss":{},"best":"yes","samples":[3,{"output":9}]})"
          "\n"
          R"({"end":[1],"reason":{}})"
          "\n");
  const TrainingHistory h = TrainingHistory::read(place / "log.jsonl");
  EXPECT_GE(h.unreadable, 6);
  EXPECT_FALSE(training_report(h, "", "m").empty());
  EXPECT_FALSE(training_report(TrainingHistory(), "", "").empty());
}

TEST(Report, WhateverATextHoldsItStaysText) {
  const std::string evil = kHostile + std::string("\0\x01\xFF\xC3\x28", 5);
  TrainingHistory h;
  h.add(update(1, 3.0));
  ordered_json line = validation(1, 2.0, true, evil);
  line[kHostile] = 1.5;
  line["samples"].push_back({{"source", evil}, {"reference", evil}, {"output", ""}});
  h.add(line);
  h.add({{"end", evil}, {"reason", evil}});
  const std::string page = training_report(h, "train = '" + evil + "'\n", evil);
  for (const char* text :
       {"<img", "<script", "</script", "<b>", "<!--", "http:", "https:", "@import", "url("}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(page.find('\0'), std::string::npos);
  EXPECT_TRUE(is_valid_utf8(page));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"?(//|file)")));
}

TEST(Report, IsBoundedWhateverTheLogsLength) {
  TrainingHistory h;
  for (int i = 1; i <= 100000; ++i) {
    h.add(update(i, 3.0 + std::sin(i)));
    if (i % 100 == 0) h.add(validation(i, 1.0, false, "output"));
  }
  const std::string page = training_report(h, "", "long");
  EXPECT_LT(page.size(), 400000U);
  EXPECT_NE(page.find("a point is the mean of 128 updates in a row"), std::string::npos);
  EXPECT_EQ(count_of(page, "<circle"), 0U);
}

TEST(Report, NamesTheModelByItsDirectory) {
  EXPECT_EQ(name_of_model("a/b"), "b");
  EXPECT_EQ(name_of_model("a/b/"), "b");
  EXPECT_EQ(name_of_model("a/../c"), "c");
  EXPECT_FALSE(name_of_model(".").empty());
}

}  // namespace
}  // namespace transduce
