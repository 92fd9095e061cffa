// `transduce convert`, from the command line to a translation.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/program.h"
#include "tests/io/made_up_ctranslate2.h"
#include "tests/shared_data.h"

namespace transduce::testing {
namespace {

namespace fs = std::filesystem;

class ConvertTest : public ::testing::Test {
 protected:
  // A made-up model in the folder "theirs".
  void make_model() {
    MadeUp model;
    model.draw();
    ModelBin bin = model.file();
    bin.flag("num_heads", 2);
    fs::create_directory(place_ / "theirs");
    write(place_ / "theirs/model.bin", bin.bytes());
    write(place_ / "theirs/source_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\nc\n");
    write(place_ / "theirs/target_vocabulary.txt", "<blank>\n<s>\n</s>\nx\ny\n");
  }

  Workplace place_;
};

TEST_F(ConvertTest, ImportedModelTranslates) {
  make_model();
  const Result converted = place_.run("convert --from ctranslate2 --input theirs --model ours");
  EXPECT_EQ(converted.status, 0) << converted.errors;
  EXPECT_EQ(converted.output, "");
  EXPECT_NE(converted.errors.find("1+1 layers, width 8, 2 heads, feed-forward 6"), std::string::npos)
      << converted.errors;
  EXPECT_NE(converted.errors.find("source: 7 tokens in 7 rows, cut by char"), std::string::npos)
      << converted.errors;
  const Result translated = place_.run("translate --model ours --max-length 5", "abc\n\nca\n");
  EXPECT_EQ(translated.status, 0) << translated.errors;
  EXPECT_EQ(std::count(translated.output.begin(), translated.output.end(), '\n'), 3);
}

TEST_F(ConvertTest, TheModelFileItselfMayBeNamed) {
  make_model();
  const Result result = place_.run(
      "convert --from ctranslate2 --input theirs/model.bin --model ours --source-tokenizer word --heads 2");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_NE(result.errors.find("source: 7 tokens in 7 rows, cut by word"), std::string::npos)
      << result.errors;
}

TEST_F(ConvertTest, MistakesAreOneLineAndLeaveNothingBehind) {
  make_model();
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    const Result result = place_.run("convert " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
    EXPECT_FALSE(fs::exists(place_ / "ours")) << arguments;
  };
  refused("--from marian --input theirs --model ours",
          "cannot convert from \"marian\": ctranslate2 is known");
  refused("--from ctranslate2 --model ours", "--from needs --input");
  refused("--from ctranslate2 --input nowhere --model ours", "nowhere");
  refused("--from ctranslate2 --input theirs --model ours --heads 3",
          "has 2 attention heads, not the 3 asked for");
  refused("--from ctranslate2 --input theirs --model ours --source-tokenizer bpe",
          "unknown tokenizer \"bpe\"");
  write(place_ / "theirs/source_vocabulary.txt", "<blank>\n<s>\n</s>\na\n</s>\nc\n");
  refused("--from ctranslate2 --input theirs --model ours",
          "the token \"</s>\" occurs twice, with the ids 2 and 4");
  fs::resize_file(place_ / "theirs/model.bin", 1000);
  refused("--from ctranslate2 --input theirs --model ours", "if it was cut short, copy or download it again");
}

TEST_F(ConvertTest, AModelIsNotOverwrittenUnasked) {
  make_model();
  const std::string command = "convert --from ctranslate2 --input theirs --model ours";
  EXPECT_EQ(place_.run(command).status, 0);
  const Result again = place_.run(command);
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.errors.find("give --overwrite"), std::string::npos) << again.errors;
  EXPECT_EQ(place_.run(command + " --overwrite").status, 0);
}

TEST_F(ConvertTest, AModelGoesOutAndComesBack) {
  make_model();
  EXPECT_EQ(place_.run("convert --from ctranslate2 --input theirs --model ours").status, 0);
  const Result out = place_.run("convert --to ctranslate2 --model ours --output again");
  EXPECT_EQ(out.status, 0) << out.errors;
  for (const char* name : {"model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json"}) {
    EXPECT_TRUE(fs::exists(place_ / "again" / name)) << name;
  }
  const Result again = place_.run("convert --to ctranslate2 --model ours --output again");
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.errors.find("give --overwrite"), std::string::npos) << again.errors;
  EXPECT_EQ(place_.run("convert --from ctranslate2 --input again --model back").status, 0);
  EXPECT_EQ(contents(place_ / "ours/model.safetensors"), contents(place_ / "back/model.safetensors"));
  EXPECT_EQ(contents(place_ / "ours/config.json"), contents(place_ / "back/config.json"));
}

TEST_F(ConvertTest, EitherFromOrTo) {
  for (const char* arguments :
       {"--model ours", "--model ours --from ctranslate2 --to ctranslate2 --input a --output b"}) {
    const Result result = place_.run(std::string("convert ") + arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.errors.find("give either --from or --to"), std::string::npos) << result.errors;
  }
  EXPECT_NE(place_.run("convert --to ctranslate2 --model ours").errors.find("--to needs --output"),
            std::string::npos);
  EXPECT_NE(
      place_.run("convert --to ctranslate2 --model nowhere --output b").errors.find("no model directory"),
      std::string::npos);
  EXPECT_EQ(place_.run("convert --to ctranslate2 --model nowhere --output b").status, 2);
}

TEST_F(ConvertTest, PublishedModelGivesThePublishedOutputs) {
  const fs::path data = shared_data("ckpt-aren-transliteration");
  if (data.empty()) GTEST_SKIP() << "no ckpt-aren-transliteration: name its parent folder in TRANSDUCE_DATA";
  for (const char* form : {"aren-transliteration", "aren-transliteration-i16", "aren-transliteration-i8"}) {
    const auto quoted = [&](const char* name) { return "'" + fs::absolute(data / name).string() + "'"; };
    const Result converted =
        place_.run("convert --overwrite --from ctranslate2 --model ours --input " + quoted(form) +
                   " --source-vocabulary " + quoted("source_vocabulary.txt") + " --target-vocabulary " +
                   quoted("target_vocabulary.txt"));
    EXPECT_EQ(converted.status, 0) << converted.errors;
    EXPECT_EQ(place_.run("translate --model ours --beam 2", "آتزمون\n\nآتشيسون\n").output,
              "atzmon\n\nachison\n");
    write(place_ / "prefixes", "ats\n\nache\n");
    EXPECT_EQ(
        place_.run("translate --model ours --beam 2 --target-prefix prefixes", "آتزمون\n\nآتشيسون\n").output,
        "atsumon\n\nacheson\n");
  }
}

}  // namespace
}  // namespace transduce::testing
