// inspect from the outside: the published totals, in text and JSON, and what it says of a model on disk.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace transduce::testing {
namespace {

nlohmann::json inspected(const Workplace& place, const std::string& arguments) {
  const Result result = place.run("inspect --json " + arguments);
  EXPECT_EQ(result.status, 0) << result.errors;
  return nlohmann::json::parse(result.output);
}

TEST(Inspect, PublishedTotals) {
  const Workplace place;
  const Result result = place.run("inspect --preset base --tie all");
  ASSERT_EQ(result.status, 0) << result.errors;
  // Names and figures of one row, whatever the room between them.
  const auto expect_row = [&](const std::string& name, const std::string& count, const std::string& share) {
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(name) != std::string::npos && line.find(" " + count + " ") != std::string::npos) {
        EXPECT_NE(line.find(share), std::string::npos) << line;
        return;
      }
    }
    ADD_FAILURE() << "no row " << name << " with " << count << "\n" << result.output;
  };
  expect_row("self-attention", "1,050,624", "33.3 %");
  expect_row("feed-forward", "2,099,712", "66.6 %");
  expect_row("two norms", "2,048", "0.1 %");
  expect_row("the layer", "3,152,384", "100.0 %");
  expect_row("all layers", "44,138,496", "70.0 %");
  expect_row("the model", "63,082,496", "100.0 %");
}

TEST(Inspect, JsonAddsUp) {
  const Workplace place;
  const auto json =
      inspected(place, "--preset base --tie all --batch-size 4 --source-length 7 --target-length 9");
  int64_t parameters = 0, training = 0;
  double operations = 0.0;
  for (const auto& part : json["parts"]) {
    parameters += part["count"].get<int64_t>() * part["parameters"].get<int64_t>();
    training += part["count"].get<int64_t>() * part["training_bytes"].get<int64_t>();
    operations += part["count"].get<double>() * part["operations"].get<double>();
    EXPECT_EQ(part.contains("forward_seconds"), false);
  }
  EXPECT_EQ(parameters, 63082496);
  EXPECT_EQ(json["parameters"], parameters);
  EXPECT_EQ(json["operations"], operations);
  EXPECT_EQ(json["training_bytes"], 16 * parameters + training);
  EXPECT_EQ(json["decoding_bytes"], 4 * parameters + 6 * 2 * 512 * 4 * 4 * (7 + 9));
  EXPECT_EQ(json["parts"][1]["shapes"], "(28, 512) -> 32 x (7, 7) -> (28, 512)");
}

TEST(Inspect, AModelOnDisk) {
  const Workplace place;
  const std::string flags =
      "--encoder-layers 1 --decoder-layers 2 --width 16 --heads 2 --feed-forward 32 --norm pre";
  ASSERT_EQ(place.run("train --model m --task copy --steps 1 --valid-examples 2 " + flags).status, 0);
  const auto json = inspected(place, "--model m --measure --batch-size 2 --threads 1");
  auto from_flags = inspected(place, flags + " --vocabulary-size 30");
  EXPECT_EQ(json["config"]["width"], 16);
  EXPECT_EQ(json["parameters"], from_flags["parameters"]) << "26 letters and 4 special symbols";
  for (const auto& part : json["parts"]) {
    EXPECT_GT(part["forward_seconds"], 0.0);
    EXPECT_GT(part["training_seconds"], 0.0);
  }
  EXPECT_GT(json["update_seconds"], 0.0);
  // What was seen at most lies above what is said to be kept, by the room that the largest step needs.
  EXPECT_GT(json["measured_peak_bytes"], json["training_bytes"].get<int64_t>());
  ASSERT_EQ(place.run("convert --quantize int8 --model m --output m8").status, 0);
  const auto small = inspected(place, "--model m8");
  EXPECT_LT(small["parameter_bytes"].get<int64_t>(), json["parameter_bytes"].get<int64_t>() / 2);
  EXPECT_TRUE(small["training_bytes"].is_null());
  EXPECT_EQ(place.run("inspect --model m8 --measure").status, 2);
  EXPECT_EQ(place.run("inspect --model m8").status, 0);
}

TEST(Inspect, MeasuresBothPlacementsOfTheNorm) {
  const Workplace place;
  for (const char* norm : {"pre", "post"}) {
    const auto json =
        inspected(place, std::string("--encoder-layers 1 --decoder-layers 1 --width 16 --heads 2 "
                                     "--feed-forward 32 --vocabulary-size 30 --measure "
                                     "--batch-size 2 --norm ") +
                             norm);
    for (const auto& part : json["parts"]) EXPECT_GT(part["training_seconds"], 0.0) << norm;
  }
}

TEST(Inspect, RefusesWhatCannotBe) {
  const Workplace place;
  ASSERT_EQ(place.run("train --model m --task copy --steps 1 --valid-examples 2 --preset tiny").status, 0);
  for (const char* arguments :
       {"--model m --width 32", "--model m --vocabulary-size 10", "--model nothing", "--preset huge",
        "--source-length 0", "--batch-size -1", "--target-length 99999999999",
        "--batch-size 100000 --source-length 100000", "--vocabulary-size 0", "--width 30 --heads 4"}) {
    const Result result = place.run(std::string("inspect ") + arguments);
    EXPECT_EQ(result.status, 2) << arguments << "\n" << result.output;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_EQ(result.output, "");
  }
}

}  // namespace
}  // namespace transduce::testing
