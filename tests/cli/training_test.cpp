// What a training measures on its way, the means it makes, and what a person at a terminal sees of it.

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/cli/program.h"
#include "tests/golden/python.h"
#include "transduce/io/safetensors.h"
#include "transduce/train/training_directory.h"

namespace transduce::testing {
namespace {

using Json = nlohmann::json;

const std::string kTiny =
    "--encoder-layers 1 --decoder-layers 1 --width 32 --heads 4 --feed-forward 64 --learning-rate 3e-3 "
    "--batch-size 16 --source-tokenizer word --target-tokenizer word --threads 2 ";
const std::string kData = "--train train.tsv --valid valid.tsv ";

// Sentences of four to twelve words, backwards.
void write_sentences(const Workplace& place) {
  std::mt19937 random(5);
  for (const auto& [name, count] : {std::pair{"train.tsv", 200}, std::pair{"valid.tsv", 30}}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      std::string forwards, backwards;
      for (unsigned k = 0; k < 4 + random() % 9; ++k) {
        const std::string word = std::string(1 + random() % 3, static_cast<char>('a' + random() % 4));
        forwards += (forwards.empty() ? "" : " ") + word;
        backwards = word + (backwards.empty() ? "" : " ") + backwards;
      }
      text += forwards + "\t" + backwards + "\n";
    }
    write(place / name, text);
  }
}

std::vector<Json> validations_of(const std::filesystem::path& model) {
  std::vector<Json> found;
  std::istringstream log(contents(model / "log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const Json object = Json::parse(line);
    if (object.contains("validation")) found.push_back(object);
  }
  return found;
}

TEST(Training, ValidationScoresAreThoseOfEvaluate) {
  const Workplace place;
  write_sentences(place);
  for (const char* beam : {"1", "4"}) {
    const Result trained = place.run("train --model m --overwrite " + kData + kTiny +
                                     "--steps 120 --valid-every 60 --valid-metrics bleu,chrf,ter,exact-match "
                                     "--ema 0.9 --best-metric token-accuracy --valid-beam " +
                                     beam);
    ASSERT_EQ(trained.status, 0) << trained.errors;
    const std::vector<Json> validations = validations_of(place / "m");
    ASSERT_EQ(validations.size(), 3U);
    EXPECT_EQ(validations[0]["step"], 0);
    const Json& last = validations.back();
    EXPECT_TRUE(last["best"].get<bool>());
    EXPECT_NEAR(last["perplexity"].get<double>(), std::exp(last["loss"].get<double>()), 1e-9);
    const Result evaluated = place.run(
        "evaluate --model m --test valid.tsv --json --metrics "
        "bleu,chrf,ter,exact-match,token-accuracy --beam " +
        std::string(beam));
    const Json scores = Json::parse(evaluated.output);
    EXPECT_GT(last["chrf"].get<double>(), 10.0);
    for (const char* name : {"bleu", "chrf", "ter"}) EXPECT_EQ(last[name], scores[name]["score"]) << name;
    for (const char* name : {"exact-match", "token-accuracy"}) EXPECT_EQ(last[name], scores[name]) << name;
  }
}

TEST(Training, StopsWhenPatienceIsLostOfAnyScore) {
  const Workplace place;
  write_sentences(place);
  for (const char* metric : {"perplexity", "next-token-accuracy", "chrf", "ter"}) {
    // Nothing is learnt, so nothing gets better.
    const Result result = place.run("train --model m --overwrite " + kData + kTiny +
                                    "--learning-rate 1e-20 --steps 90 --valid-every 5 --patience 2 "
                                    "--valid-decode 5 --best-metric " +
                                    metric);
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_NE(result.errors.find(std::string("2 validations in a row brought no better ") + metric),
              std::string::npos)
        << result.errors;
    EXPECT_EQ(validations_of(place / "m").back()["step"], 10);
  }
}

TEST(Training, ValidationOptionsThatDoNotFitAreRefused) {
  const Workplace place;
  write_sentences(place);
  const std::pair<const char*, const char*> cases[] = {
      {"--valid valid.tsv --valid-metrics beauty", "beauty"},
      {"--valid valid.tsv --valid-metrics bleu,bleu", "bleu is named twice"},
      {"--valid valid.tsv --valid-metrics bleu --valid-decode 0", "--valid-decode 0"},
      {"--valid valid.tsv --best-metric beauty", "beauty"},
      {"--valid valid.tsv --valid-metrics bleu --valid-beam 0", "beam 0"},
      {"--valid-metrics bleu", "--valid"},
      {"--accumulate 0", "accumulate 0"},
      {"--ema 1", "decay 1"},
      {"--save-every -1", "save-every -1"},
      {"--keep -1", "keep -1"},
      {"--average-last -2", "average-last -2"},
  };
  for (const auto& [flags, says] : cases) {
    const Result result = place.run("train --model m --train train.tsv --steps 2 " + kTiny + flags);
    EXPECT_EQ(result.status, 2) << flags << "\n" << result.errors;
    EXPECT_NE(result.errors.find(says), std::string::npos) << flags << "\n" << result.errors;
    EXPECT_FALSE(std::filesystem::exists(place / "m" / "config.json")) << flags;
  }
}

TEST(Training, TheSavedOptionsRepeatARunBoundedByTokens) {
  const Workplace place;
  write_sentences(place);
  const std::string flags =
      kData + "--width 16 --heads 2 --feed-forward 16 --preset tiny --batch-tokens 400 --steps 6 ";
  ASSERT_EQ(place.run("train --model a " + flags).status, 0);
  ASSERT_EQ(place.run("train --model b --config a/train.toml").status, 0);
  EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));
}

// Whether the file holds the mean of the others, as float64 gives it.
void expect_mean(const std::filesystem::path& mean, const std::vector<std::filesystem::path>& files) {
  const TensorFile found = read_safetensors(mean.string());
  std::vector<TensorFile> all;
  for (const auto& file : files) all.push_back(read_safetensors(file.string()));
  for (const auto& [name, tensor] : found.tensors) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      double sum = 0.0;
      for (const TensorFile& one : all) sum += one.tensors.at(name).data<float>()[i];
      ASSERT_EQ(tensor.data<float>()[i], static_cast<float>(sum / static_cast<double>(all.size()))) << name;
    }
  }
}

TEST(Average, OfATrainingsLastCheckpointsAndOfModels) {
  const Workplace place;
  write_sentences(place);
  const std::string flags = "--train train.tsv " + kTiny + "--steps 40 --save-every 10 ";
  ASSERT_EQ(place.run("train --model a " + flags).status, 0);
  ASSERT_EQ(place.run("train --model b --seed 2 " + flags + "--average-last 3").status, 0);
  const auto step = [&](const char* model, const char* number) {
    return place / model / "training" / ("step-" + std::string(number) + ".safetensors");
  };
  const Result last = place.run("average --model a --last 3 --output mean");
  ASSERT_EQ(last.status, 0) << last.errors;
  expect_mean(place / "mean" / "model.safetensors", {step("a", "20"), step("a", "30"), step("a", "40")});
  expect_mean(place / "b" / "model.safetensors", {step("b", "20"), step("b", "30"), step("b", "40")});
  EXPECT_EQ(place.run("translate --model mean", "a bb\n").status, 0);

  ASSERT_EQ(place.run("average --model a --model b --output both").status, 0);
  expect_mean(place / "both" / "model.safetensors",
              {place / "a" / "model.safetensors", place / "b" / "model.safetensors"});

  ASSERT_EQ(place.run("train --model wide --train train.tsv --steps 1 " + kTiny + "--width 64").status, 0);
  ASSERT_EQ(place.run("train --model other --train valid.tsv --steps 1 " + kTiny + "--source-tokenizer char")
                .status,
            0);
  ASSERT_EQ(place.run("convert --quantize int8 --model a --output small").status, 0);
  const std::pair<const char*, const char*> mistakes[] = {
      {"--model a --output x", "--last"},
      {"--model a --last 9 --output x", "4 checkpoints, not of 9"},
      {"--model a --last -1 --output x", "-1"},
      {"--model mean --last 1 --output x", "0 checkpoints"},
      {"--model a --model wide --output x", "not made alike"},
      {"--model a --model other --output x", "vocabular"},
      {"--model small --model small --output x", "8 bits"},
      {"--model a --model missing --output x", "missing"},
      {"--model a --last 2 --output mean", "--overwrite"},
      {"--model a --last 2", "--output"},
  };
  for (const auto& [arguments, says] : mistakes) {
    const Result result = place.run("average " + std::string(arguments));
    EXPECT_EQ(result.status, 2) << arguments << "\n" << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(says), std::string::npos) << arguments << "\n" << result.errors;
    EXPECT_FALSE(std::filesystem::exists(place / "x")) << arguments;
  }
}

// Against PyTorch, where there is one: torch.optim.swa_utils on the same files.
TEST(Average, AndMovingAverageAreThoseOfPyTorch) {
  const std::string python = golden::find_python();
  if (python.empty()) GTEST_SKIP() << "no Python with torch and safetensors: TRANSDUCE_PYTHON may name one";
  const Workplace place;
  write_sentences(place);
  const std::string flags = "--train train.tsv " + kTiny + "--steps 12 --save-every 1 --keep 12 ";
  ASSERT_EQ(place.run("train --model plain " + flags).status, 0);
  ASSERT_EQ(place.run("train --model moving --ema 0.1 " + flags).status, 0);
  ASSERT_EQ(place.run("average --model plain --last 3 --output mean").status, 0);
  const std::string command = golden::quoted(python) + " '" TRANSDUCE_TESTS "/cli/torch_means.py' '" +
                              (place / "mean/model.safetensors").string() + "' 0.1 '" +
                              (place / "plain/training").string() + "' '" +
                              (place / "moving/training").string() + "' >'" + (place / "out").string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::istringstream differences(contents(place / "out"));
  double mean = NAN, moving = NAN;
  differences >> mean >> moving;
  EXPECT_LE(mean, 1e-7);    // one rounding of float32
  EXPECT_LE(moving, 1e-6);  // and two for each of the last few steps
}

// What the program writes to a terminal of so many columns.
std::string on_terminal(const Workplace& place, const std::string& arguments, unsigned short columns) {
  winsize size = {24, columns, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string command =
        "cd '" + place.path().string() + "' && exec '" TRANSDUCE_PROGRAM "' " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  std::string output;
  char buffer[4096];
  for (ssize_t count; (count = read(terminal, buffer, sizeof buffer)) > 0;) {
    output.append(buffer, static_cast<size_t>(count));
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << output;
  return output;
}

TEST(Training, TheProgressLineFitsTheTerminal) {
  const Workplace place;
  write_sentences(place);
  const std::string training = "train --model m --overwrite --train train.tsv " + kTiny + "--steps 30";
  for (const unsigned short columns : {200, 80, 40}) {
    const std::string output = on_terminal(place, training, columns);
    std::string status;  // the last state of the line
    for (size_t begin = 0; (begin = output.find('\r', begin)) != std::string::npos;) {
      const size_t end = output.find("\x1b[K", ++begin);
      if (end == std::string::npos || output.find_first_of("\r\n", begin) < end) continue;
      if (end > begin) status = output.substr(begin, end - begin);
      EXPECT_LT(end - begin, columns) << output.substr(begin, end - begin);
    }
    EXPECT_NE(status.find("step 30/30"), std::string::npos) << status;
    if (columns >= 80) {
      for (const char* part : {"[====", "epoch 2.", "loss ", "tokens/s", "norm ", "left"}) {
        EXPECT_NE(status.find(part), std::string::npos) << part << " in " << status;
      }
    }
  }
  EXPECT_EQ(place.run(training).errors.find('\r'), std::string::npos);  // no terminal: plain lines
}

}  // namespace
}  // namespace transduce::testing
