// Options in a TOML file: what it may say, what is said of mistakes in it, and that the saved one repeats a
// run.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace transduce {
namespace {

using testing::contents;
using testing::Result;
using testing::Workplace;
using testing::write;

const std::string kTiny =
    "encoder-layers = 1\ndecoder-layers = 1\nwidth = 16\nheads = 2\nfeed-forward = 32\n";
const std::string kPairs = "ab\tba\nabc\tcba\nb\tb\ncab\tbac\n";

std::string model_of(const Workplace& place, const std::string& name) {
  return contents(place / name / "model.safetensors");
}

TEST(Config, TakesWhatTomlAllows) {
  const Workplace place;
  write(place / "it's a \"file\" 한.tsv", kPairs);
  write(place / "more.tsv", kPairs);
  write(place / "run.toml",
        "# comment\ntrain = [\n  \"it's a \\\"file\\\" \\uD55C.tsv\",  # of two\n  'more.tsv',\n]\n" + kTiny +
            "\"dropout\" = 0\nlearning-rate = 1_0e-4\njoint-vocabulary = true\ntie = 'all'\nsteps = 0x4\n"
            "output-bias = false\nseed = +7\n");
  const Result result = place.run("train --config run.toml --model m --log-every 1");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_NE(result.errors.find("8 training pairs"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("step 4/4"), std::string::npos) << result.errors;

  const std::string saved = contents(place / "m" / "train.toml");
  EXPECT_NE(saved.find("learning-rate = 0.001\n"), std::string::npos) << saved;
  EXPECT_NE(saved.find("steps = 4\n"), std::string::npos) << saved;
  EXPECT_NE(saved.find("joint-vocabulary = true\n"), std::string::npos) << saved;
  EXPECT_NE(saved.find("batch-tokens = 0\n"), std::string::npos) << saved;  // a default
  EXPECT_EQ(saved.find("overwrite"), std::string::npos) << saved;           // is asked for each time
  ASSERT_EQ(place.run("train --config m/train.toml --model n").status, 0);
  EXPECT_EQ(model_of(place, "n"), model_of(place, "m"));
}

TEST(Config, FlagsWin) {
  const Workplace place;
  write(place / "pairs.tsv", kPairs);
  write(place / "other.tsv", "a\ta\n");
  write(place / "run.toml", kTiny + "train = \"pairs.tsv\"\nsteps = 3\nmodel = \"m\"\nbatch-size = 2\n");
  const Result result =
      place.run("train --steps 2 --config run.toml --train other.tsv --model n --log-every 1");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_NE(result.errors.find("step 2/2"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("1 training pairs"), std::string::npos) << result.errors;
  EXPECT_TRUE(std::filesystem::exists(place / "n" / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(place / "m"));
  EXPECT_EQ(place.run("train --config run.toml").status, 0);  // a required option may stand in the file
  EXPECT_TRUE(std::filesystem::exists(place / "m" / "model.safetensors"));
}

TEST(Config, TheSavedOptionsRepeatARunInBatchesOfTokens) {
  const Workplace place;
  std::string pairs;
  for (int i = 0; i < 100; ++i) pairs += "a\tb\n";
  write(place / "pairs.tsv", pairs);
  write(place / "run.toml", kTiny);
  // 160 tokens are more than the 64 pairs that a batch has by default.
  ASSERT_EQ(
      place.run("train --config run.toml --train pairs.tsv --model a --batch-tokens 160 --epochs 2").status,
      0);
  const Result again = place.run("train --config a/train.toml --model b");
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_NE(again.errors.find("in 2 batches"), std::string::npos) << again.errors;
  EXPECT_EQ(model_of(place, "a"), model_of(place, "b"));
}

TEST(Config, EveryCommandTakesOne) {
  const Workplace place;
  write(place / "run.toml", kTiny + "task = \"copy\"\nsteps = 1\nmodel = \"m\"\n");
  ASSERT_EQ(place.run("train --config run.toml").status, 0);
  write(place / "ask.toml", "model = \"m\"\nbeam = 2\nforbid = [\"a\", \"b\"]\nmax-length = 3\n");
  const Result result = place.run("translate --config ask.toml", "abc\n");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output.find_first_of("ab"), std::string::npos) << result.output;
  EXPECT_EQ(place.run("translate --config ask.toml --sample", "abc\n").status,
            2);  // beam 2 came from the file
}

TEST(Config, MistakesNameTheFileTheLineAndTheWayOut) {
  const Workplace place;
  const std::pair<std::string, std::string> mistakes[] = {
      {"steps = 1\nlearnin-rate = 1\n",
       "\"run.toml\", line 2: \"learnin-rate\" is no option that can stand here; "
       "the nearest is learning-rate (see transduce train --help)"},
      {"learning_rate = 1\n", "the nearest is learning-rate"},
      {"config = \"run.toml\"\n", "line 1: \"config\" is no option"},
      {"help = true\n", "line 1: \"help\" is no option"},
      {"overwrite = true\n", "line 1: \"overwrite\" is no option"},
      {"\n\nsteps = \"many\"\n", "\"run.toml\", line 3: steps must be a whole number, got \"'many'\""},
      {"steps = 1.5\n", "line 1: steps must be a whole number, got \"1.5\""},
      {"steps = true\n", "line 1: steps must be a whole number, got \"true\""},
      {"steps = [1]\n", "line 1: steps must be a whole number, got"},
      {"steps = 99999999999999999999\n", "\"run.toml\", line 1: "},
      {"seed = -1\n", "line 1: seed must be a whole number, 0 or more, got \"-1\""},
      {"dropout = \"0.1\"\n", "line 1: dropout must be a number, got"},
      {"joint-vocabulary = 1\n", "line 1: joint-vocabulary must be true or false, got \"1\""},
      {"joint-vocabulary = \"true\"\n", "line 1: joint-vocabulary must be true or false"},
      {"norm = 3\n", "line 1: norm must be text in quotes, got \"3\""},
      {"norm = \"\"\n", "line 1: norm must be text in quotes, got"},
      {"norm = [\"pre\"]\n", "line 1: norm must be text in quotes, got"},
      {"train = [\n\"a\",\n3]\n", "line 3: train must be text in quotes, got \"3\""},
      {"train = 1979-05-27\n", "line 1: train must be text in quotes, got"},
      {"norm = pre\n", "\"run.toml\", line 1: "},
      {"steps = 1\nsteps = 2\n", "\"run.toml\", line 2: "},
      {"steps 1\n", "\"run.toml\", line 1: "},
      {"[loop]\nsteps = 1\n", "line 1: \"loop\" is a table: options stand at the top of the file"},
      {"loop.steps = 1\n", "line 1: \"loop\" is a table"},
      {"norm = \"\xFF\"\n", "\"run.toml\", line 1: "},
      {std::string(2 << 20, '#'), "\"run.toml\" holds more than 1048576 bytes"},
      {std::string(100000, '['), "\"run.toml\", line 1: "},
  };
  for (const auto& [text, says] : mistakes) {
    write(place / "run.toml", text);
    const Result result = place.run("train --config run.toml --task copy --model m");
    const std::string shown = text.substr(0, 100);
    EXPECT_EQ(result.status, 2) << shown << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << shown << result.errors;
    EXPECT_NE(result.errors.find(says), std::string::npos) << shown << result.errors;
    EXPECT_FALSE(std::filesystem::exists(place / "m")) << shown;
  }
  std::filesystem::create_directories(place / "folder");
  EXPECT_NE(place.run("train --config folder --task copy --model m").errors.find("folder"),
            std::string::npos);
}

}  // namespace
}  // namespace transduce
