// The index of the training data beside the model: made once, made again when anything changed or it is
// damaged; and what has gone wrong for people with their texts, through the data path of `train` and through
// `translate`.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"
#include "tests/data/odd_texts.h"
#include "transduce/data/corpus_index.h"
#include "transduce/io/model_directory.h"

namespace transduce::testing {
namespace {

const std::string kTiny =
    "--encoder-layers 1 --decoder-layers 1 --width 16 --heads 2 --feed-forward 16 --threads 2 --batch-size "
    "16 ";
const std::string kWords = "--source-tokenizer word --target-tokenizer word ";

constexpr const char* kAgain = "their index is the one made before";
constexpr const char* kMade = "indexed ";

std::string numbers(int lines) {
  std::string pairs;
  for (int i = 0; i < lines; ++i) {
    const std::string a = std::to_string(i * i % 97), b = std::to_string(i % 31);
    pairs += a + " " + b + "\t" + b + " " + a + "\n";
  }
  return pairs;
}

TEST(CorpusIndexFile, IsMadeAgainOnlyWhenSomethingChanged) {
  const Workplace place;
  write(place / "pairs.tsv", numbers(200));
  const std::filesystem::path index = place / "m" / "training" / "corpus.index";
  const std::string begin = "train --model m --overwrite --train pairs.tsv --steps 3 " + kWords + kTiny;
  const auto expect = [&](const std::string& arguments, const char* says) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_NE(result.errors.find(says), std::string::npos) << arguments << "\n" << result.errors;
  };
  expect(begin, "indexed 200 lines in 0:00, ");
  const std::string model = contents(place / "m" / "model.safetensors"), whole = contents(index);
  expect(begin, kAgain);
  EXPECT_EQ(contents(place / "m" / "model.safetensors"), model);
  expect("train --model m --resume --steps 6 --allow-changes", kAgain);
  expect(begin + "--max-length 1 --too-long cut", kMade);
  expect(begin + "--source-normalize nfc", kMade);
  // As large as before, and as old.
  const auto time = std::filesystem::last_write_time(place / "pairs.tsv");
  std::string changed = numbers(200);
  changed[0] = '7';
  write(place / "pairs.tsv", changed);
  std::filesystem::last_write_time(place / "pairs.tsv", time);
  expect(begin, kMade);
  write(place / "pairs.tsv", numbers(200));
  expect(begin, kMade);
  EXPECT_EQ(contents(index), whole);

  for (std::string damaged : {std::string(), std::string("x"), whole.substr(0, whole.size() / 2), whole + "x",
                              "X" + whole.substr(1), std::string(whole.size(), '\xFF')}) {
    write(index, damaged);
    expect(begin, "it is made again");
    EXPECT_EQ(contents(index), whole);
    EXPECT_EQ(contents(place / "m" / "model.safetensors"), model);
  }
}

TEST(CorpusIndexFile, IsTheSameHoweverTheTextArrives) {
  const Workplace place;
  const std::string pairs = numbers(300);
  write(place / "pairs.tsv", pairs);
  ASSERT_EQ(std::system(("gzip -k '" + (place / "pairs.tsv").string() + "'").c_str()), 0);
  const std::string flags = " --steps 4 " + kWords + kTiny;
  ASSERT_EQ(place.run("train --model file --train pairs.tsv" + flags).status, 0);
  const std::string model = contents(place / "file" / "model.safetensors");
  EXPECT_EQ(place.run("train --model input --train -" + flags, pairs).status, 0);
  EXPECT_EQ(place.run("train --model packed --train pairs.tsv.gz" + flags).status, 0);
  EXPECT_EQ(
      place.run("train --model packed-input --train -" + flags, contents(place / "pairs.tsv.gz")).status, 0);
  EXPECT_EQ(
      std::system(("cd '" + place.path().string() + "' && mkfifo pipe && { cat pairs.tsv >pipe & '" +
                   TRANSDUCE_PROGRAM "' train --model pipe-model --train pipe " + flags + " 2>/dev/null; }")
                      .c_str()),
      0);
  for (const char* other : {"input", "packed", "packed-input", "pipe-model"}) {
    EXPECT_EQ(contents(place / other / "model.safetensors"), model) << other;
    for (const auto& entry : std::filesystem::directory_iterator(place / other / "training")) {
      EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();  // no copy is left
    }
  }
  // Standard input gives the same text again, so the training goes on.
  const Result resumed = place.run("train --model input --resume --steps 6 --allow-changes", pairs);
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find(kAgain), std::string::npos) << resumed.errors;
}

TEST(CorpusIndexFile, ABadLineIsNamedAndLeavesNothing) {
  const Workplace place;
  write(place / "bad.tsv", numbers(3000) + "no tab\n" + numbers(10));
  const Result result = place.run("train --model m --train bad.tsv --steps 1 " + kTiny);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.errors.find("bad.tsv\", line 3001"), std::string::npos) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(place / "m"));
  write(place / "bad.tsv", numbers(3000));
  ASSERT_EQ(place.run("train --model m --train bad.tsv --steps 1 " + kTiny).status, 0);
}

struct Case {
  const char* report;
  std::vector<std::string> lines;  // without LF
};

// Each report's texts as lines of their own.
std::vector<Case> cases() {
  using namespace std::string_literals;
  std::vector<std::string> many;
  for (int i = 0; i < 60000; ++i) many.push_back(std::to_string(i % 1000) + " lines");
  return {
      {"flores PR#9, sacrebleu PR#24", {"a CR\rin mid-line", "\r", "two\r\r", "b"}},
      {"spm#331, #1308", {"before NUL\0after NUL"s, "\0"s, "b\0"s}},
      {"UD_German-GSD#29", {"\uFEFFa mark", "in \uFEFF mid-line", "\uFEFF"}},
      {"argos-translate-files#11", {"12:30\tAnna\thello\tthere", "\t", "a\t"}},
      {"spm#629, #896, #1331", {"می\u200Cخواهم", "\u200Fשالوم\u200E", "👩\u200D👧 \u2066isolated\u2069"}},
      {"huggingface/tokenizers#1975", {"한국어", "\u1112\u1161\u11AB\u1100\u116E\u11A8\u110B\u1165"}},
      {"argos-translate#77", {"Well done 👍", "👍", "👍 well"}},
      {"spm#102, #667", {"</s>", "a </s> b", "<s> <pad> <unk>"}},
      {"ONMT PR#1318", many},
      {"all others", odd_texts()},
  };
}

class FieldReports : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tokenizers, FieldReports, ::testing::Values("char", "word", "sentencepiece"));

// As many pairs as lines, each with the ids of its line; as many lines out as in; the CRLF twin is the same.
TEST_P(FieldReports, EveryLineGoesThroughTrainAndTranslate) {
  const Workplace place;
  const std::string tokenizer = GetParam();
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.report);
    std::string text, twin;
    for (const std::string& line : test.lines) {
      text += line + "\n";
      twin += line + "\r\n";
    }
    write(place / "text", text);
    write(place / "twin", twin);
    const std::string flags =
        " --overwrite --joint-vocabulary --max-length 64 --too-long cut --steps 1 --batch-size 1 "
        "--source-tokenizer " +
        tokenizer + " --target-tokenizer " + tokenizer + " --vocabulary-size 300 " + kTiny;
    const Result trained = place.run("train --model m --train-source text --train-target twin" + flags);
    ASSERT_EQ(trained.status, 0) << trained.errors;
    const CorpusIndex index((place / "m" / "training" / "corpus.index").string());
    ASSERT_EQ(index.size(), std::ssize(test.lines));
    const Seq2SeqModel model = load_model((place / "m").string());
    for (int64_t i = 0; i < index.size(); ++i) {
      std::string line = test.lines[static_cast<size_t>(i)];
      if (i == 0 && line.starts_with("\uFEFF")) line = line.substr(3);
      const Example pair = index.example(i);
      const auto ids = [](const Tokenizer& side, const std::string& of) {
        std::vector<int32_t> all = side.encode(of);
        all.resize(std::min<size_t>(all.size(), 64));
        return all;
      };
      ASSERT_EQ(pair.target, ids(*model.target, line)) << i;
      if (line.ends_with('\r')) line.pop_back();
      ASSERT_EQ(pair.source, ids(*model.source, line)) << i;
    }
    if (test.lines.size() > 1000) continue;  // translated elsewhere: this model does not know when to end
    const Result translated = place.run("translate --model m --max-length 3 --beam 1", text);
    EXPECT_EQ(translated.status, 0) << translated.errors;
    EXPECT_EQ(std::count(translated.output.begin(), translated.output.end(), '\n'), std::ssize(test.lines));
  }
}

TEST(FieldReport, EveryLineOfALargeFileIsTranslated) {  // ONMT PR#1318
  const Workplace place;
  write(place / "pairs.tsv", numbers(50));
  ASSERT_EQ(place.run("train --model m --train pairs.tsv --steps 1 " + kWords + kTiny).status, 0);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i % 97) + std::string(i % 50, ' ') + " 1\n";
  ASSERT_GT(text.size(), size_t{512} << 10);  // more than two fillings of the buffer
  const Result result = place.run("translate --model m --max-length 1 --beam 1", text);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 20000);
}

TEST(FieldReport, ASpecialSymbolTwiceInAVocabularyIsRefusedByTrain) {  // fairseq#1309, gluon-nlp PR#749
  const Workplace place;
  write(place / "pairs.tsv", numbers(5));
  write(place / "twice", "<pad>\n<s>\n</s>\n<unk>\n1\n</s>\n");
  const Result result =
      place.run("train --model m --train pairs.tsv --source-vocabulary twice --steps 1 " + kWords + kTiny);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.errors.find("</s>"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("twice"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace transduce::testing
