// translate and score from the outside: every form of output, and what holds between them.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <vector>

#include "tests/cli/program.h"

namespace transduce::testing {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text, char end = '\n') {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line, end);) lines.push_back(line);
  return lines;
}

// The fields of "a ||| b ||| c".
Lines fields_of(std::string line) {
  Lines fields;
  for (size_t at = 0; (at = line.find(" ||| ")) != std::string::npos; line.erase(0, at + 5)) {
    fields.push_back(line.substr(0, at));
  }
  fields.push_back(line);
  return fields;
}

std::string made_lines(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    for (unsigned j = 0; j < 1 + random() % 9; ++j) text += static_cast<char>('a' + random() % 8);
    text += '\n';
  }
  return text;
}

// A model that is still unsure, so that hypotheses differ.
class Decoding : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    for (const char* name : {"m", "other"}) {
      const Result trained = place_->run(
          std::string("train --model ") + name +
          " --task reverse --task-alphabet 8 --task-min-length 1 --task-max-length 9 --valid-examples 16 "
          "--encoder-layers 1 --decoder-layers 2 --width 32 --heads 4 --feed-forward 64 --norm pre "
          "--learning-rate 3e-3 --batch-size 32 --steps 120 --threads 2 --seed " +
          (name[0] == 'm' ? "1" : "2"));
      ASSERT_EQ(trained.status, 0) << trained.errors;
    }
    write(*place_ / "in.txt", made_lines(40, 3));
  }
  static void TearDownTestSuite() { delete place_; }

  static std::string run(const std::string& arguments, const std::string& input = "") {
    const Result result = place_->run(arguments, input);
    EXPECT_EQ(result.status, 0) << arguments << "\n" << result.errors;
    return result.output;
  }
  // Scores of the program's `score` against those that `translate` printed.
  static void expect_scores(const Lines& scores, const Lines& expected) {
    ASSERT_EQ(scores.size(), expected.size());
    for (size_t i = 0; i < scores.size(); ++i)
      EXPECT_NEAR(std::stod(scores[i]), std::stod(expected[i]), 1e-4);
  }
  static Workplace* place_;
};
Workplace* Decoding::place_ = nullptr;

TEST_F(Decoding, NBestListsAreInMosesForm) {
  const Lines best = lines_of(run("translate --model m --input in.txt --beam 5"));
  const Lines list = lines_of(run("translate --model m --input in.txt --beam 5 --n-best 5"));
  ASSERT_EQ(best.size(), 40U);
  std::vector<Lines> entries(40);
  for (const std::string& line : list) {
    const Lines fields = fields_of(line);
    ASSERT_EQ(fields.size(), 4U) << line;
    EXPECT_EQ(fields[2].find("LogProbability= "), 0U) << line;
    entries.at(std::stoul(fields[0])).push_back(line);
  }
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_FALSE(entries[i].empty());
    EXPECT_LE(entries[i].size(), 5U);
    EXPECT_EQ(fields_of(entries[i][0])[1], best[i]) << "five best have another first";
    for (size_t k = 1; k < entries[i].size(); ++k) {
      EXPECT_GE(std::stod(fields_of(entries[i][k - 1])[3]), std::stod(fields_of(entries[i][k])[3]));
    }
  }
  EXPECT_EQ(lines_of(run("translate --model m --input in.txt --beam 5 --n-best 1")).size(), 40U);
}

TEST_F(Decoding, ScoreEqualsWhatTranslatePrinted) {
  for (const char* ranking : {"", "--length-penalty 0", "--length-normalization average --length-penalty 1",
                              "--coverage-penalty 0.3"}) {
    const std::string with = std::string(" ") + ranking;
    Lines scores, texts;
    for (const std::string& line :
         lines_of(run("translate --model m --input in.txt --beam 4 --scores" + with))) {
      scores.push_back(line.substr(0, line.find('\t')));
      texts.push_back(line.substr(line.find('\t') + 1));
    }
    std::string all;
    for (const std::string& text : texts) all += text + "\n";
    write(*place_ / "out.txt", all);
    expect_scores(lines_of(run("score --model m --source in.txt --target out.txt" + with)), scores);

    write(*place_ / "nbest.txt", run("translate --model m --input in.txt --beam 4 --n-best 4" + with));
    const Lines list = lines_of(contents(*place_ / "nbest.txt"));
    const Lines again = lines_of(run("score --model m --source in.txt --n-best nbest.txt" + with));
    ASSERT_EQ(again.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(fields_of(again[i])[0], fields_of(list[i])[0]);
      EXPECT_EQ(fields_of(again[i])[1], fields_of(list[i])[1]);
      EXPECT_NEAR(std::stod(fields_of(again[i])[3]), std::stod(fields_of(list[i])[3]), 1e-4);
    }
  }
}

TEST_F(Decoding, PrefixesAreContinuedAndScored) {
  std::string prefixes;
  for (int i = 0; i < 40; ++i) prefixes += i % 3 == 0 ? "\n" : i % 3 == 1 ? "c\n" : "ab\n";
  write(*place_ / "prefix.txt", prefixes);
  const std::string with = " --target-prefix prefix.txt";
  std::string out;
  Lines scores;
  const Lines plain = lines_of(run("translate --model m --input in.txt --beam 3"));
  const Lines got = lines_of(run("translate --model m --input in.txt --beam 3 --scores" + with));
  ASSERT_EQ(got.size(), 40U);
  for (size_t i = 0; i < 40; ++i) {
    const std::string text = got[i].substr(got[i].find('\t') + 1);
    EXPECT_EQ(text.find(lines_of(prefixes)[i]), 0U);
    if (i % 3 == 0) EXPECT_EQ(text, plain[i]);
    scores.push_back(got[i]);
    out += text + "\n";
  }
  write(*place_ / "out.txt", out);
  expect_scores(lines_of(run("score --model m --source in.txt --target out.txt" + with)), scores);
}

TEST_F(Decoding, JsonHoldsTokensProbabilitiesAndAlignments) {
  const Lines list =
      lines_of(run("translate --model m --input in.txt --beam 3 --n-best 3 --json --alignments"));
  const Lines best = lines_of(run("translate --model m --input in.txt --beam 3 --scores --alignments"));
  ASSERT_EQ(list.size(), 40U);
  for (size_t i = 0; i < 40; ++i) {
    const auto object = nlohmann::json::parse(list[i]);
    EXPECT_EQ(object["line"], i + 1);
    EXPECT_LE(object["hypotheses"].size(), 3U);
    for (const auto& hypothesis : object["hypotheses"]) {
      double sum = 0.0;
      for (const double p : hypothesis["token_log_probabilities"]) sum += p;
      EXPECT_NEAR(sum, hypothesis["log_probability"].get<double>(), 1e-6);
      EXPECT_EQ(hypothesis["token_log_probabilities"].size(), hypothesis["tokens"].size() + 1);
      EXPECT_EQ(hypothesis["alignment"].size(), hypothesis["tokens"].size());
    }
    const Lines fields = lines_of(best[i], '\t');
    ASSERT_EQ(fields.size(), 3U) << best[i];
    const auto& first = object["hypotheses"][0];
    EXPECT_NEAR(std::stod(fields[0]), first["score"].get<double>(), 1e-5);
    EXPECT_EQ(fields[1], first["text"]);
    std::string pharaoh;
    for (const auto& link : first["alignment"]) {
      pharaoh += (pharaoh.empty() ? "" : " ") + link[0].dump() + "-" + link[1].dump();
    }
    EXPECT_EQ(fields[2], pharaoh);
  }
  const std::string layers = " --alignments --alignment-layer ";
  EXPECT_NE(run("translate --model m --input in.txt" + layers + "1 --alignment-head 2"),
            run("translate --model m --input in.txt" + layers + "2 --alignment-head 1"));
}

TEST_F(Decoding, AnEnsembleOfAModelWithItselfIsTheModel) {
  const std::string rest = " --input in.txt --beam 4 --n-best 2";
  const Lines one = lines_of(run("translate --model m" + rest));
  const Lines two = lines_of(run("translate --model m --model m" + rest));
  ASSERT_EQ(two.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(fields_of(two[i])[1], fields_of(one[i])[1]);
    EXPECT_NEAR(std::stod(fields_of(two[i])[3]), std::stod(fields_of(one[i])[3]), 1e-4);
  }
  EXPECT_NE(run("translate --model m --model other" + rest), run("translate --model m" + rest));
}

TEST_F(Decoding, SamplingRepeatsWithItsSeed) {
  const auto sample = [](const std::string& more) {
    std::string texts;
    for (const std::string& line :
         lines_of(run("translate --model m --input in.txt --sample --n-best 4 --sampling-seed " + more))) {
      texts += fields_of(line)[1] + "\n";
    }
    return texts;
  };
  EXPECT_EQ(sample("1 --batch-size 3 --threads 1"), sample("1"));
  EXPECT_NE(sample("2"), sample("1"));
  EXPECT_EQ(run("translate --model m --input in.txt --sample --top-k 1"),
            run("translate --model m --input in.txt"));
}

TEST_F(Decoding, BlankLinesStayBlankAtTheirPlaces) {
  const Lines got = lines_of(run("translate --model m --batch-size 2 --beam 2", "abc\n\n  \t \nhg\n\n"));
  ASSERT_EQ(got.size(), 5U);
  for (const size_t blank : {1, 2, 4}) EXPECT_EQ(got[blank], "");
  for (const size_t text : {0, 3}) EXPECT_NE(got[text], "");
}

TEST_F(Decoding, AVeryLongLineIsCutAndNamedAndLeavesItsNeighboursAlone) {
  const std::string shorts = contents(*place_ / "in.txt");
  const Lines alone = lines_of(run("translate --model m --beam 3 --max-length 30", shorts));
  std::string with = shorts;
  with.insert(with.find('\n', 50) + 1, std::string(5000, 'a') + "\n");
  const auto place = static_cast<size_t>(std::count(shorts.begin(), shorts.begin() + 50, '\n')) + 1;
  const Result result = place_->run("translate --model m --beam 3 --max-length 30", with);
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(
      result.errors.find("line " + std::to_string(place + 1) + ": 5,000 source tokens were cut to 1,024"),
      std::string::npos)
      << result.errors;
  Lines got = lines_of(result.output);
  ASSERT_EQ(got.size(), alone.size() + 1);
  got.erase(got.begin() + static_cast<int64_t>(place));
  EXPECT_EQ(got, alone);
}

// A program on the other side of a pipe gets its answer before it says more.
TEST_F(Decoding, AnswersLinesAsTheyAreWritten) {
  const Result result = place_->run("translate --model m --help >help; mkfifo to from; '" TRANSDUCE_PROGRAM
                                    "' translate --model m <to >from & exec 3>to 4<from; for i in ab fgh; do "
                                    "echo $i >&3; read x <&4; "
                                    "echo \"got $x\"; done; exec 3>&-; wait");
  EXPECT_EQ(result.output, "got " + lines_of(run("translate --model m", "ab\n"))[0] + "\ngot " +
                               lines_of(run("translate --model m", "fgh\n"))[0] + "\n")
      << result.errors;
}

int64_t peak_of_children() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;  // KiB
}

TEST_F(Decoding, MemoryDoesNotGrowWithTheInput) {
  const auto translate = [&](size_t lines) {
    write(*place_ / "many.txt", made_lines(lines, 5));
    const std::string out = run("translate --model m --input many.txt --max-length 12 --batch-size 32");
    EXPECT_EQ(lines_of(out).size(), lines);
    return peak_of_children();
  };
  const int64_t few = translate(2000), many = translate(16000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(many - few, 4 << 10) << "KiB";
#else
  static_cast<void>(few);
  static_cast<void>(many);
#endif
}

TEST_F(Decoding, ScoresTokensAndTotals) {
  write(*place_ / "one.txt", "abc\n");
  write(*place_ / "two.txt", "cba\n");
  const Result result =
      place_->run("score --model m --source one.txt --target two.txt --per-token --length-penalty 0");
  ASSERT_EQ(result.status, 0) << result.errors;
  const Lines fields = lines_of(lines_of(result.output)[0], '\t');
  ASSERT_EQ(fields.size(), 2U);
  double sum = 0.0;
  for (const std::string& token : lines_of(fields[1], ' '))
    sum += std::stod(token.substr(token.find('=') + 1));
  EXPECT_NEAR(sum, std::stod(fields[0]), 1e-5);
  EXPECT_NE(fields[1].find("</s>="), std::string::npos);
  EXPECT_NE(result.errors.find("1 pairs, 4 tokens"), std::string::npos) << result.errors;
  const auto object = nlohmann::json::parse(
      run("score --model m --source one.txt --target two.txt --json --length-penalty 0"));
  EXPECT_EQ(object["line"], 1);
  EXPECT_NEAR(object["score"].get<double>(), sum, 1e-5);
}

// What a text holds must not be taken for the list's own bars.
TEST_F(Decoding, NBestListsMayHoldBars) {
  write(*place_ / "pairs.tsv", "x\ta ||| b\ny\t||| b |||\n");
  const Result trained = place_->run(
      "train --model bars --train pairs.tsv --source-tokenizer word --target-tokenizer word --encoder-layers "
      "1 "
      "--decoder-layers 1 --width 16 --heads 2 --feed-forward 16 --steps 60 --learning-rate 1e-2 --threads "
      "1");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  write(*place_ / "bars.txt", "x\ny\n");
  for (const char* with : {"", " --alignments"}) {
    write(*place_ / "bars.nbest",
          run("translate --model bars --input bars.txt --beam 3 --n-best 3" + std::string(with)));
    const Lines list = lines_of(contents(*place_ / "bars.nbest"));
    const Lines again = lines_of(run("score --model bars --source bars.txt --n-best bars.nbest"));
    ASSERT_EQ(again.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const auto cut = [](const std::string& line) {
        const size_t at = line.find(" ||| LogProbability= ");
        return std::pair(line.substr(0, at), std::stod(line.substr(at + 20)));
      };
      EXPECT_EQ(cut(again[i]).first, cut(list[i]).first);
      EXPECT_NEAR(cut(again[i]).second, cut(list[i]).second, 1e-4);
    }
  }
}

TEST_F(Decoding, PrefixesStandAsGivenAndAreBounded) {
  write(*place_ / "in2.txt", "abc\n\n");
  write(*place_ / "unknown.txt", "Z9\nab\n");
  const Lines got = lines_of(run("translate --model m --input in2.txt --target-prefix unknown.txt"));
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].find("Z9"), 0U) << got[0];
  EXPECT_EQ(got[1], "") << "a blank line stays blank";
  write(*place_ / "long.txt", "a\n" + std::string(2000, 'a') + "\n");
  write(*place_ / "in2.txt", "abc\nab\n");
  const Result refused = place_->run("translate --model m --input in2.txt --target-prefix long.txt");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.errors.find("line 2: its prefix has 2000 tokens"), std::string::npos) << refused.errors;
}

TEST_F(Decoding, BlankPairsScoreAsTheyTranslate) {
  write(*place_ / "blank.txt", "\nabc\n");
  write(*place_ / "blank.out", "\ncba\n");
  const Result result = place_->run("score --model m --source blank.txt --target blank.out");
  EXPECT_EQ(lines_of(result.output)[0], "0.000000");
  EXPECT_NE(result.errors.find("4 tokens"), std::string::npos) << result.errors;
}

TEST_F(Decoding, EightBitWeightsTranslateNearlyTheSame) {
  run("convert --quantize int8 --model m --output m8");
  const std::string whole = run("translate --model m --input in.txt"),
                    rounded = run("translate --model m8 --input in.txt");
  size_t same = 0;
  for (size_t i = 0; i < 40; ++i) same += lines_of(whole)[i] == lines_of(rounded)[i] ? 1 : 0;
  EXPECT_GE(same, 30U);
  EXPECT_EQ(run("translate --model m8 --input in.txt --batch-size 3 --threads 1"), rounded);
  const Result trained =
      place_->run("evaluate --model m8 --task reverse --task-alphabet 8 --task-max-length 9");
  EXPECT_EQ(trained.status, 0) << trained.errors;
}

TEST_F(Decoding, BenchCountsWhatItTranslates) {
  for (const char* with : {"", " --latency"}) {
    const auto result = nlohmann::json::parse(
        run("bench --model m --input in.txt --lines 20 --repeats 2 --json --beam 2" + std::string(with)));
    EXPECT_EQ(result["lines"], 20);
    EXPECT_GT(result["tokens"], 20);
    EXPECT_GT(result["seconds"], 0.0);
    EXPECT_EQ(result.contains("milliseconds_99"), with[0] != '\0');
  }
}

}  // namespace
}  // namespace transduce::testing
