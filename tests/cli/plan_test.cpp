// What a training says before it begins, and how it stays within its memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/cli/program.h"
#include "transduce/train/training_directory.h"

namespace transduce::testing {
namespace {

// Long texts and a wide model: micro-batches decide how much memory it takes.
const std::string kWide =
    "--task reverse --task-min-length 20 --task-max-length 60 --task-examples 40 --batch-size 20 "
    "--valid-examples 4 --valid-decode 0 --encoder-layers 1 --decoder-layers 1 --width 64 --heads 2 "
    "--feed-forward 8192 --dropout 0.1 --threads 2 ";

TEST(DryRun, PrintsThePlanAndWritesNothing) {
  const Workplace place;
  write(place / "pairs.tsv", "abc\tcba\nab\tba\nabcabcabc\tcbacbacba\na\ta\n");
  const Result result = place.run(
      "train --model m --train pairs.tsv --valid pairs.tsv --max-length 5 --batch-size 2 --epochs 6 --width "
      "16 "
      "--heads 2 --feed-forward 32 --schedule linear --learning-rate 1e-3 --warmup 4 --threads 2 --dry-run");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output, "");
  for (const char* text :
       {"3 training pairs in 2 batches an epoch, 3 validation pairs", "9 source and 9 target tokens",
        "1 of 4", "linear: learning rate 0.00025 at update 1, 0.001 at update 4", "0 at update 12",
        "12 updates, 6 epochs, on 2 threads", "memory      about", "parameters and gradients", "optimiser"}) {
    EXPECT_NE(result.errors.find(text), std::string::npos) << text << "\n" << result.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(place / "m"));
}

TEST(DryRun, FindsWhatATrainingWouldFind) {
  const Workplace place;
  write(place / "pairs.tsv", "abc\tcba\n");
  for (const char* flags : {"--train missing.tsv", "--train pairs.tsv --tie all",
                            "--train pairs.tsv --width 15", "--train pairs.tsv --best-metric bleu",
                            "--train pairs.tsv --memory 8X", "--train pairs.tsv --memory 1M"}) {
    const Result result = place.run("train --model m --steps 5 --dry-run " + std::string(flags));
    EXPECT_EQ(result.status, 2) << flags << "\n" << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(place / "m"));
}

TEST(DryRun, OfATrainingThatIsResumedLeavesItAsItIs) {
  const Workplace place;
  ASSERT_EQ(place.run("train --model m --steps 4 --valid-every 2 " + kWide).status, 0);
  const auto state = contents(place / "m" / "training" / "state.safetensors");
  const auto log = contents(place / "m" / "log.jsonl");
  const Result result = place.run("train --model m --resume --dry-run");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(contents(place / "m" / "training" / "state.safetensors"), state);
  EXPECT_EQ(contents(place / "m" / "log.jsonl"), log);
  EXPECT_EQ(place.run("train --model m --resume --dry-run --steps 9").status, 2);  // a change
}

TEST(MemoryBudget, SaysTheSizesWhenNothingFits) {
  const Workplace place;
  const Result result =
      place.run("train --model m --steps 5 " + kWide + "--width 512 --feed-forward 4096 --memory 64M");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  EXPECT_NE(result.errors.find("has 64.0 MiB: give more --memory"), std::string::npos) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(place / "m" / "model.safetensors"));
}

// What the dry run with a budget says it needs, in MiB, and its micro-batches.
std::pair<int64_t, int64_t> plan_with(const Workplace& place, const std::string& memory) {
  const Result result = place.run("train --model none --steps 5 --dry-run --memory " + memory + " " + kWide);
  EXPECT_EQ(result.status, 0) << result.errors;
  std::smatch need, split;
  EXPECT_TRUE(std::regex_search(result.errors, need, std::regex("about ([0-9]+)[0-9.]* MiB of")));
  const bool smaller =
      std::regex_search(result.errors, split, std::regex("micro-batches of ([0-9]+) tokens a side"));
  return {std::stoll(need[1]), smaller ? std::stoll(split[1]) : 256};
}

TEST(MemoryBudget, SplitsBatchesAndResumesToTheBit) {
  const Workplace place;
  const auto [whole, most] = plan_with(place, "1G");
  EXPECT_EQ(most, 256);
  const std::string memory = std::to_string(whole - 2) + "M";
  const auto [less, split] = plan_with(place, memory);
  EXPECT_LE(less, whole - 2);
  ASSERT_LT(split, 256);
  const std::string training = kWide + "--valid-every 3 --memory " + memory + " ";
  ASSERT_EQ(place.run("train --model straight --steps 10 " + training).status, 0);
  const std::string note = "{\"step\":0,\"micro_batch_tokens\":" + std::to_string(split) + "}\n";
  EXPECT_TRUE(contents(place / "straight" / "log.jsonl").starts_with(note));
  EXPECT_NE(contents(place / "straight" / "report.html").find("so that memory suffices"), std::string::npos);
  ASSERT_EQ(place.run("train --model parts --steps 5 " + training).status, 0);
  EXPECT_EQ(TrainingDirectory((place / "parts").string()).load().state.micro_batch_tokens, split);
  const Result result = place.run("train --model parts --resume --steps 10 --allow-changes");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(contents(place / "straight" / "model.safetensors"),
            contents(place / "parts" / "model.safetensors"));

  const Result more = place.run("train --model parts --resume --memory 1G");
  EXPECT_EQ(more.status, 2) << more.errors;
  EXPECT_NE(more.errors.find("tokens of a micro-batch " + std::to_string(split) + " -> 256"),
            std::string::npos)
      << more.errors;
}

// Where it does not bite, a budget changes nothing.
TEST(MemoryBudget, ThatSufficesChangesNothing) {
  const Workplace place;
  ASSERT_EQ(place.run("train --model a --steps 4 " + kWide).status, 0);
  ASSERT_EQ(place.run("train --model b --steps 4 --memory 1G " + kWide).status, 0);
  EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));
  EXPECT_EQ(place.run("train --model b --resume --memory 2G").status, 0);
}

}  // namespace
}  // namespace transduce::testing
