// The program from the outside: what it promises a person who types commands.

#include "tests/cli/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace transduce::testing {
namespace {

// A model small enough to train in a second or two.
const std::string kTiny =
    "--encoder-layers 1 --decoder-layers 1 --width 32 --heads 4 --feed-forward 64 --norm pre --activation "
    "gelu "
    "--dropout 0.1 --learning-rate 3e-3 --batch-size 32 --threads 2 ";
const std::string kTask =
    "--task reverse --task-alphabet 8 --task-min-length 1 --task-max-length 6 --valid-examples 32 ";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// One trained model for the tests that only use it.
class TrainedModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const Result trained = place_->run("train --model m " + kTask + kTiny + "--steps 150");
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
  static void TearDownTestSuite() { delete place_; }
  static Workplace* place_;
};
Workplace* TrainedModel::place_ = nullptr;

TEST_F(TrainedModel, IsADirectoryOfTheFilesTheManualNames) {
  for (const char* name : {"config.json", "model.safetensors", "source.vocab", "target.vocab", "train.toml",
                           "log.jsonl", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(*place_ / "m" / name)) << name;
  }
  EXPECT_EQ(lines_of(contents(*place_ / "m" / "log.jsonl")).size(),
            150U + 11U + 1U);  // updates, validations, end
}

TEST_F(TrainedModel, LinesDoNotDependOnBatchSizeOrderOrNeighbours) {
  std::mt19937 random(7);
  std::vector<std::string> source;
  for (int i = 0; i < 150; ++i) {
    std::string line;
    for (unsigned j = 0; j < 1 + random() % 9; ++j) line += static_cast<char>('a' + random() % 8);
    source.push_back(line);
  }
  for (const char* beam : {"1", "4"}) {
    const std::string command = std::string("translate --model m --beam ") + beam + " --batch-size ";
    const std::string alone = place_->run(command + "1", joined(source)).output;
    ASSERT_EQ(lines_of(alone).size(), source.size());
    EXPECT_EQ(place_->run(command + "7", joined(source)).output, alone);
    EXPECT_EQ(place_->run(command + "64", joined(source)).output, alone);

    std::vector<size_t> order(source.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::string> shuffled, expected;
    for (const size_t i : order) {
      shuffled.push_back(source[i]);
      expected.push_back(lines_of(alone)[i]);
    }
    EXPECT_EQ(lines_of(place_->run(command + "64", joined(shuffled)).output), expected);
  }
}

TEST_F(TrainedModel, NLinesInNLinesOutWhateverIsInThem) {
  const std::string nul(1, '\0');
  const std::string hostile =
      "abc\r\n\n   \n\xff\xfe\n</s>\n\tab\n\xEA\xB0\x80\xF0\x9F\x91\x8D\nab" + nul + "cd\na\rb\nabc";
  const Result result = place_->run("translate --model m", hostile);
  EXPECT_EQ(result.status, 0) << result.errors;
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), static_cast<size_t>(std::count(hostile.begin(), hostile.end(), '\n')) + 1);
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[2], "");
  EXPECT_EQ(lines.front(), lines.back());  // a CR before LF is no part of the line
  // A file without a final line feed and its twin with one, LF or CRLF, give the same.
  EXPECT_EQ(place_->run("translate --model m", "abc\nba").output,
            place_->run("translate --model m", "abc\r\nba\r\n").output);
  EXPECT_EQ(place_->run("translate --model m", "").output, "");
}

TEST_F(TrainedModel, WritesAFileAndReadsOne) {
  write(*place_ / "in.txt", "abc\nba\n");
  EXPECT_EQ(place_->run("translate --model m --input in.txt --output out.txt").status, 0);
  EXPECT_EQ(contents(*place_ / "out.txt"), place_->run("translate --model m", "abc\nba\n").output);
}

TEST_F(TrainedModel, EvaluatesATaskPairsAndFiles) {
  const Result task = place_->run("evaluate --model m " +
                                  std::string("--task reverse --task-alphabet 8 --task-max-length 6 --json"));
  EXPECT_EQ(task.status, 0) << task.errors;
  EXPECT_NE(task.output.find("\"sequences\":128"), std::string::npos) << task.output;
  write(*place_ / "pairs.tsv", "ab\tba\nc\tc\n");
  EXPECT_EQ(place_->run("evaluate --model m --test pairs.tsv").status, 0);
  write(*place_ / "h", "a b c\nd e\n");
  write(*place_ / "r", "a b c\nd f g\n");
  const Result files = place_->run("evaluate --hypothesis h --reference r --tokenizer word --json");
  // One of two lines is right; line two holds one right place of three and needs two edits; six reference
  // tokens.
  EXPECT_TRUE(files.output.starts_with(
      "{\"sequences\":2,\"tokens\":6,\"token-accuracy\":0.6666666666666666,\"exact-match\":0.5,"
      "\"sequence-error-rate\":0.5,\"token-error-rate\":0.3333333333333333"))
      << files.output;
}

TEST(Training, TheSameSeedAndThreadsGiveTheSameBits) {
  const Workplace place;
  const std::string flags = kTask + kTiny + "--steps 25 --label-smoothing 0.1 --clip-norm 1 ";
  ASSERT_EQ(place.run("train --model a " + flags + "--seed 3").status, 0);
  ASSERT_EQ(place.run("train --model b " + flags + "--seed 3").status, 0);
  ASSERT_EQ(place.run("train --model c " + flags + "--seed 4").status, 0);
  const std::string a = contents(place / "a" / "model.safetensors");
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a, contents(place / "b" / "model.safetensors"));
  EXPECT_NE(a, contents(place / "c" / "model.safetensors"));
}

TEST(Training, TheSavedOptionsRepeatTheRun) {
  const Workplace place;
  write(place / "pairs.tsv", "ab\tba\nabc\tcba\nb\tb\ncab\tbac\n");
  ASSERT_EQ(place.run("train --model a --train pairs.tsv --valid pairs.tsv " + kTiny + "--epochs 6").status,
            0);
  const Result again = place.run("train --config a/train.toml --model b");
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));
}

TEST(Training, LearnsFromParallelCompressedFilesWithTiedEmbeddings) {
  const Workplace place;
  write(place / "s.txt", "a b c\nb c\nc a b\n");
  write(place / "t.txt", "c b a\nc b\nb a c\n");
  ASSERT_EQ(std::system(("gzip -k '" + (place / "s.txt").string() + "'").c_str()), 0);
  const Result trained = place.run(
      "train --model m --train-source s.txt.gz --train-target t.txt --source-tokenizer word "
      "--target-tokenizer word "
      "--joint-vocabulary --tie all --norm-kind rms --positions learned " +
      kTiny +
      "--activation swiglu --batch-tokens 16 "
      "--epochs 40 --schedule noam --warmup 20 --learning-rate 1 --optimizer adam");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_EQ(lines_of(place.run("translate --model m", "a b c\nunseen words\n").output).size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(place / "m" / "joint.vocab"));
}

// Every mistake ends with one line, status 2, and nothing written over.
struct Mistake {
  const char* arguments;
  const char* says;
};

TEST_F(TrainedModel, MistakesEndWithOneLineAndStatusTwo) {
  write(*place_ / "good.tsv", "ab\tba\n");
  write(*place_ / "no-tab.tsv", "ab\tba\nabba\n");
  write(*place_ / "two-tabs.tsv", "ab\tba\tx\n");
  write(*place_ / "empty.tsv", "");
  write(*place_ / "two.txt", "a\nb\n");
  write(*place_ / "three.txt", "a\nb\nc\n");
  std::filesystem::create_directories(*place_ / "folder");
  const Mistake mistakes[] = {
      {"frobnicate", "unknown command 'frobnicate'"},
      {"train --model x", "--train"},
      {"train --model x --train missing.tsv", "missing.tsv"},
      {"train --model x --train folder", "folder"},
      {"train --model x --train empty.tsv", "empty.tsv"},
      {"train --model x --train no-tab.tsv", "line 2"},
      {"train --model x --train two-tabs.tsv", "line 1"},
      {"train --model x --train-source two.txt --train-target three.txt", "3"},
      {"train --model x --train-source two.txt", "--train-target"},
      {"train --model x --train good.tsv --width 30 --heads 4 --epochs 1",
       "width 30 is not divisible by 4 heads"},
      {"train --model x --train good.tsv --tie all --epochs 1", "--joint-vocabulary"},
      {"train --model x --train good.tsv", "steps or epochs"},
      {"train --model x --train good.tsv --epochs 1 --steps many", "many"},
      {"train --model x --train good.tsv --epochs 1 --dropout 1", "dropout 1"},
      {"train --model x --train good.tsv --epochs 1 --activation tanh", "unknown activation \"tanh\""},
      {"train --model x --train good.tsv --epochs 1 --learning-rate 0", "learning rate 0"},
      {"train --model x --train good.tsv --epochs 1 --learning-rate nan", "learning rate"},
      {"train --model x --train good.tsv --epochs 1 --batch-size -1", "-1"},
      {"train --model x --train good.tsv --epochs 1 --no-such-flag 3", "no-such-flag"},
      {"train --model x --task juggle --steps 1", "juggle"},
      {"train --model m --task reverse --steps 1", "holds a model already"},
      {"train --config missing.toml --model x", "missing.toml"},
      {"train --model good.tsv/x --task reverse --steps 1", "good.tsv"},
      {"translate --model missing", "missing"},
      {"translate --model folder", "config.json"},
      {"translate --model m --input missing.txt", "missing.txt"},
      {"translate --model m --input folder", "folder"},
      {"translate --model m --beam 0", "beam 0"},
      {"translate --model m --beam 2 --n-best 3", "n-best 3"},
      {"translate --model m --output no-folder/out.txt", "no-folder"},
      {"translate --model m --forbid Z", "Z"},
      {"translate --model m --forbid ab", "not one token"},
      {"translate --model m --force aZ", "aZ"},
      {"translate --model m --sample --beam 3", "beam 3"},
      {"translate --model m --sample --top-p 1.5", "top-p 1.5"},
      {"translate --model m --diverse-groups 2 --beam 5", "2 groups"},
      {"translate --model m --length-normalization mean", "mean"},
      {"translate --model m --alignments --alignment-layer 9", "layer 9"},
      {"translate --model m --target-prefix two.txt", "two.txt"},
      {"translate --model m --json --scores", "--scores"},
      {"translate --model m --temperature 0.5", "--sample"},
      {"translate --model m --diversity 1", "--diverse-groups"},
      {"translate --model m --alignment-layer 1", "--alignments"},
      {"translate --model m --length-penalty ''", "--length-penalty"},
      {"translate --model m extra", "extra"},
      {"translate --model m --force a --forbid a", "forbidden"},
      {"translate --model m --min-length 9 --max-length 5", "min length 9"},
      {"translate --model m --target-prefix -", "standard input"},
      {"convert --model m --quantize int4 --output q", "int4"},
      {"bench --model m --input /dev/null", "no line"},
      {"bench --model m --repeats 0", "repeats 0"},
      {"convert --model m --quantize int8", "--output"},
      {"convert --model m --quantize int8 --output m", "--overwrite"},
      {"translate --model m --max-source-length 0", "max source length 0"},
      {"score --model m --source two.txt --target three.txt", "3"},
      {"score --model m --source three.txt --target two.txt", "2"},
      {"score --model m --source two.txt", "--n-best"},
      {"score --model m --source two.txt --n-best three.txt", "line 1"},
      {"score --model m --source two.txt --target two.txt --max-target-length 0", "0"},
      {"score --model m --source two.txt --target two.txt --target-prefix three.txt", "three.txt"},
      {"evaluate --model m", "--test"},
      {"evaluate --model m --test no-tab.tsv", "line 2"},
      {"evaluate --hypothesis two.txt --reference three.txt", "3"},
      {"translate --model m --threads -1", "-1"},
  };
  const std::string before = contents(*place_ / "m" / "model.safetensors");
  for (const Mistake& mistake : mistakes) {
    const Result result = place_->run(mistake.arguments, "abc\n");
    EXPECT_EQ(result.status, 2) << mistake.arguments << "\n" << result.errors;
    EXPECT_EQ(result.output, "") << mistake.arguments;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << mistake.arguments << "\n"
                                                                               << result.errors;
    EXPECT_NE(result.errors.find(mistake.says), std::string::npos) << mistake.arguments << "\n"
                                                                   << result.errors;
    EXPECT_FALSE(std::filesystem::exists(*place_ / "x" / "model.safetensors")) << mistake.arguments;
  }
  EXPECT_EQ(contents(*place_ / "m" / "model.safetensors"), before);
}

TEST_F(TrainedModel, DamagedModelsAreRefused) {
  const auto damaged = [&](const std::string& file, const std::string& content) {
    std::filesystem::remove_all(*place_ / "d");
    std::filesystem::copy(*place_ / "m", *place_ / "d");
    write(*place_ / "d" / file, content);
    return place_->run("translate --model d", "abc\n");
  };
  const std::string config = contents(*place_ / "m" / "config.json");
  const std::string tensors = contents(*place_ / "m" / "model.safetensors");
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"config.json", ""},
      {"config.json", "{"},
      {"config.json", "[]"},
      {"config.json", config.substr(0, config.size() / 2)},
      {"config.json", replaced(config, "\"width\": 32", "\"width\": 33")},
      {"config.json", replaced(config, "\"width\": 32", "\"width\": 65536")},
      {"config.json", replaced(config, "\"width\": 32", "\"width\": \"wide\"")},
      {"config.json", replaced(config, "\"encoder_layers\": 1", "\"encoder_layers\": 1000")},
      {"config.json", replaced(config, "\"encoder_layers\": 1", "\"encoder_layers\": 0")},
      {"config.json", replaced(config, "\"norm\": \"pre\"", "\"norm\": \"post\"")},
      {"config.json", replaced(config, "\"version\": 1", "\"version\": 99")},
      {"model.safetensors", ""},
      {"model.safetensors", tensors.substr(0, 100)},
      {"model.safetensors", tensors.substr(0, tensors.size() - 1)},
      {"model.safetensors", std::string("\0\0\0\0\0\0\0\x80{}", 10)},
      {"source.vocab", ""},
      {"target.vocab", contents(*place_ / "m" / "target.vocab") + "y\nz\n"},
      {"target.vocab", contents(*place_ / "m" / "target.vocab") + "a\n"},
      {"source.vocab", "<pad>\n<s>\n</s>\n<unk>\nb\na\n"},  // fewer tokens, but not those of the training
      {"config.json", replaced(config, "\"format\": \"transduce\"", "\"format\": 5")},
      {"model.safetensors", tensors.substr(0, tensors.size() - 4) + std::string("\0\0\xC0\x7F", 4)},  // NaN
  };
  for (const auto& [file, content] : damages) {
    const Result result = damaged(file, content);
    EXPECT_EQ(result.status, 2) << file << ": " << content.substr(0, 60) << "\n" << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_EQ(result.output, "");
  }
}

TEST(Training, DataFilesMayRepeat) {
  const Workplace place;
  write(place / "a.tsv", "ab\tba\nabc\tcba\n");
  write(place / "b.tsv", "xy\tyx\n");
  const Result result = place.run("train --model m --train a.tsv --train b.tsv --epochs 1 " + kTiny);
  EXPECT_NE(result.errors.find("3 training pairs"), std::string::npos) << result.errors;
  EXPECT_EQ(place.run("train --config m/train.toml --model n").status, 0);
  EXPECT_EQ(contents(place / "m" / "model.safetensors"), contents(place / "n" / "model.safetensors"));
  const Result tested = place.run("evaluate --model m --test a.tsv --test b.tsv --json");
  EXPECT_NE(tested.output.find("\"sequences\":3"), std::string::npos) << tested.output;
}

TEST(Training, AFailedRunLeavesTheOldModelAlone) {
  const Workplace place;
  ASSERT_EQ(place.run("train --model m " + kTask + kTiny + "--steps 5").status, 0);
  const std::string before = contents(place / "m" / "model.safetensors");
  write(place / "long.tsv", "abcabcabcabc\tcba\n");
  for (const char* flags :
       {"--task reverse --steps 3 --best-metric beauty", "--task reverse --steps 3 --dropout 0.9999999999",
        "--train long.tsv --positions learned --max-positions 8 --epochs 1"}) {
    const Result result = place.run(std::string("train --model m --overwrite --width 32 ") + flags);
    EXPECT_EQ(result.status, 2) << flags << result.errors;
    EXPECT_EQ(contents(place / "m" / "model.safetensors"), before) << flags;
    EXPECT_EQ(place.run("translate --model m", "abc\n").status, 0);
  }
}

TEST(Training, WithoutValidationTheModelIsSavedOnTheWay) {
  const Workplace place;
  write(place / "pairs.tsv", "ab\tba\nabc\tcba\n");
  const Result result = place.run("train --model m --train pairs.tsv " + kTiny +
                                  "--norm post --steps 400 --learning-rate 999999");
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_EQ(place.run("translate --model m", "abc\n").status, 0);
}

TEST_F(TrainedModel, UnwritableOutputIsReportedAndNeverASignal) {
  EXPECT_EQ(
      place_
          ->run(
              "evaluate --model m --task reverse --task-alphabet 8 --task-max-length 6 > /dev/full; exit $?")
          .status,
      1);
  EXPECT_EQ(place_->run("translate --model m > /dev/full; exit $?", "abc\n").status, 1);
  EXPECT_EQ(place_->run("--help > /dev/full; exit $?").status, 1);
  EXPECT_EQ(place_->run("train --model log " + kTask + kTiny + "--steps 3 2> /dev/full; exit $?").status, 0);
  EXPECT_EQ(place_->run("translate --model m 2>&-; exit $?", "abc\n").status, 0);
}

TEST(Help, EveryCommandExplainsItselfWithAnExample) {
  const Workplace place;
  const Result general = place.run("--help");
  EXPECT_EQ(general.status, 0);
  for (const char* command : {"train", "translate", "score", "evaluate", "convert", "bench", "vocabulary"}) {
    EXPECT_NE(general.output.find(command), std::string::npos);
    const Result help = place.run(std::string(command) + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.output.find("Example"), std::string::npos) << command;
    EXPECT_EQ(help.errors, "");
  }
  EXPECT_NE(place.run("evaluate --help").output.find("WER"), std::string::npos);
  EXPECT_EQ(place.run("").status, 2);
}

TEST(Training, ADivergingRunStopsAndKeepsTheLastGoodModel) {
  const Workplace place;
  const Result result = place.run("train --model m " + kTask + kTiny +
                                  "--steps 400 --valid-every 5 --learning-rate 999999 --norm post");
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_NE(result.errors.find("not a finite number"), std::string::npos) << result.errors;
  EXPECT_EQ(place.run("translate --model m", "abc\n").status, 0);
}

}  // namespace
}  // namespace transduce::testing
