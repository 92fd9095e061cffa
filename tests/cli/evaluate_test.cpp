// `transduce evaluate` from the outside. That the scores are right is tested in tests/eval.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/cli/program.h"

namespace transduce::testing {
namespace {

using nlohmann::json;

const std::string kHypotheses = "The dog bit the man.\nIt wasn't surprising.\nThe man had just bitten him.\n";
const std::string kReference = "The dog bit the man.\nIt was not unexpected.\nThe man bit him first.\n";
const std::string kOther = "The dog had bit the man.\nNo one was surprised.\nThe man had bitten the dog.\n";

// Three files that many tests read.
class Evaluate : public ::testing::Test {
 protected:
  void SetUp() override {
    write(place_ / "h", kHypotheses);
    write(place_ / "r", kReference);
    write(place_ / "r2", kOther);
  }
  std::string text(const std::string& arguments, const std::string& input = "") const {
    const Result result = place_.run("evaluate " + arguments, input);
    EXPECT_EQ(result.status, 0) << arguments << "\n" << result.errors;
    return result.output;
  }
  json scores(const std::string& arguments, const std::string& input = "") const {
    return json::parse(text(arguments + " --json", input));
  }
  Workplace place_;
};

TEST_F(Evaluate, GivesBleuChrfAndTheRatesUnlessAskedOtherwise) {
  const json all = scores("--hypothesis h --reference r");
  for (const char* key : {"sequences", "tokens", "token-accuracy", "exact-match", "sequence-error-rate",
                          "token-error-rate", "bleu", "chrf"}) {
    EXPECT_TRUE(all.contains(key)) << key;
  }
  const json rates = scores("--hypothesis h --reference r --tokenizer char");
  EXPECT_FALSE(rates.contains("bleu"));
  EXPECT_TRUE(rates.contains("token-error-rate"));
  const json chosen = scores("--hypothesis h --reference r --metrics ter,exact-match");
  EXPECT_EQ(chosen.size(), 5U) << chosen;  // these two, the numbers of lines and tokens, the rates' signature
}

TEST_F(Evaluate, PrintsScoreAndFullSignature) {
  // The score is sacreBLEU's, from its own tests.
  const std::string output = text("--hypothesis h --reference r --reference r2 --metrics bleu,chrf++,ter");
  EXPECT_NE(output.find("48.53    nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|impl:transduce-"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|impl:"), std::string::npos);
  EXPECT_NE(output.find("nrefs:2|case:lc|tok:tercom|norm:no|punct:yes|asian:no|impl:"), std::string::npos);
  EXPECT_NE(output.find("brevity penalty"), std::string::npos);
}

TEST_F(Evaluate, JsonHoldsWhatBleuIsMadeOf) {
  const json bleu = scores("--hypothesis h --reference r --reference r2 --metrics bleu")["bleu"];
  EXPECT_NEAR(bleu["score"].get<double>(), 48.530827, 1e-5);
  EXPECT_EQ(bleu["precisions"].size(), 4U);
  EXPECT_EQ(bleu["hypothesis-length"], 17);
  EXPECT_GT(bleu["reference-length"], 0);
  EXPECT_LE(bleu["brevity-penalty"], 1.0);
}

TEST_F(Evaluate, OptionsReachTheMetrics) {
  const auto signature = [&](const std::string& metric, const std::string& flags) {
    return scores("--hypothesis h --reference r --metrics " + metric + " " + flags)[metric]["signature"]
        .get<std::string>();
  };
  EXPECT_NE(signature("bleu", "--bleu-tokenize intl --bleu-smooth floor --bleu-smooth-value 0.5 --lowercase")
                .find("case:lc|eff:no|tok:intl|smooth:floor[0.50]|impl"),
            std::string::npos);
  EXPECT_NE(signature("bleu", "--bleu-max-order 2 --bleu-effective-order")
                .find("eff:yes|tok:13a|smooth:exp|order:2"),
            std::string::npos);
  EXPECT_NE(
      signature("chrf",
                "--chrf-char-order 4 --chrf-word-order 1 --chrf-whitespace --chrf-eps-smoothing --lowercase")
          .find("case:lc|eff:no|nc:4|nw:1|space:yes"),
      std::string::npos);
  EXPECT_NE(signature("ter", "--ter-normalized --ter-no-punct --ter-asian-support --ter-case-sensitive")
                .find("case:mixed|tok:tercom|norm:yes|punct:no|asian:yes"),
            std::string::npos);
  EXPECT_EQ(scores("--hypothesis h --reference r --metrics chrf --chrf-beta 3")["chrf"]["name"], "chrF3");
}

// A final line feed, CRLF, gzip and a pipe make no difference.
TEST_F(Evaluate, ReadsLinesHoweverTheyCome) {
  const std::string flags = " --reference r --metrics bleu,chrf,chrf++,ter,token-error-rate";
  const json plain = scores("--hypothesis h" + flags);
  write(place_ / "no-lf", kHypotheses.substr(0, kHypotheses.size() - 1));
  EXPECT_EQ(scores("--hypothesis no-lf" + flags), plain);
  std::string crlf;
  for (const char c : kHypotheses) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  write(place_ / "crlf", crlf);
  EXPECT_EQ(scores("--hypothesis crlf" + flags), plain);
  write(place_ / "zipped", kHypotheses);
  ASSERT_EQ(std::system(("gzip '" + (place_ / "zipped").string() + "'").c_str()), 0);
  EXPECT_EQ(scores("--hypothesis zipped.gz" + flags), plain);
  EXPECT_EQ(scores("--hypothesis -" + flags, kHypotheses), plain);
}

TEST_F(Evaluate, OneEmptyLineOfThreeCounts) {
  write(place_ / "one-empty", "The dog bit the man.\n\nThe man bit him first.\n");
  const json found = scores("--hypothesis one-empty --reference r --metrics bleu,ter,exact-match");
  EXPECT_EQ(found["sequences"], 3);
  EXPECT_EQ(found["bleu"]["reference-length"], 17);
  EXPECT_EQ(found["ter"]["edits"], 4);
}

// Lines that have lost their partners are never scored.
TEST_F(Evaluate, UnequalLineCountsAreRefusedWithBoth) {
  write(place_ / "two", "a\nb\n");
  write(place_ / "none", "");
  for (const char* arguments :
       {"--hypothesis two --reference r", "--hypothesis h --reference two",
        "--hypothesis h --reference r --reference two", "--hypothesis h --reference r --baseline two",
        "--hypothesis none --reference r"}) {
    for (const char* more : {"", " --json"}) {
      const Result result = place_.run(std::string("evaluate ") + arguments + more);
      EXPECT_EQ(result.status, 2) << arguments;
      EXPECT_EQ(result.output, "") << arguments;
      EXPECT_NE(result.errors.find(" has 3"), std::string::npos) << result.errors;
      const bool none = std::string(arguments).find("none") != std::string::npos;
      EXPECT_NE(result.errors.find(none ? " 0 lines" : " 2 lines"), std::string::npos) << result.errors;
      EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1);
    }
  }
}

TEST_F(Evaluate, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--hypothesis h", "--reference"},
      {"--hypothesis h --reference r --metrics blue", "blue"},
      {"--hypothesis h --reference r --metrics bleu,bleu", "twice"},
      {"--hypothesis h --reference r --bleu-tokenize 14a", "14a"},
      {"--hypothesis h --reference r --bleu-smooth more", "more"},
      {"--hypothesis h --reference r --bleu-smooth-value 1", "takes no value"},
      {"--hypothesis h --reference r --bleu-max-order 0", "0"},
      {"--hypothesis h --reference r --chrf-beta 0", "beta 0"},
      {"--hypothesis h --reference r --bootstrap 0", "0 trials"},
      {"--hypothesis h --reference r --significance bootstrap", "--baseline"},
      {"--hypothesis h --reference r --baseline r2 --significance luck", "luck"},
      {"--hypothesis h --reference r --baseline r2 --significance randomization --bootstrap 5",
       "--bootstrap"},
      {"--hypothesis h --reference r --baseline r2 --sentence-level", "--sentence-level"},
      {"--hypothesis - --reference -", "standard input"},
      {"--hypothesis missing --reference r", "missing"},
      {"--hypothesis /dev/null --reference /dev/null", "no line"},
      {"--model m --hypothesis h --reference r", "--model"},
  };
  for (const auto& [arguments, says] : mistakes) {
    const Result result = place_.run("evaluate " + arguments);
    EXPECT_EQ(result.status, 2) << arguments << "\n" << result.errors;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_NE(result.errors.find(says), std::string::npos) << arguments << "\n" << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  }
}

TEST_F(Evaluate, EachLineHasItsScores) {
  const std::string output = text("--hypothesis h --reference r --metrics bleu,ter --sentence-level");
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 3);
  EXPECT_EQ(output.substr(0, output.find('\n')), "100.0000\t0.0000");
  const std::string objects = text("--hypothesis h --reference r --metrics bleu,ter --sentence-level --json");
  EXPECT_EQ(json::parse(objects.substr(0, objects.find('\n')))["ter"], 0.0);
}

TEST_F(Evaluate, ComparesTwoSystems) {
  std::string good, bad, right;
  for (int i = 0; i < 60; ++i) {
    right += "a b c d e f " + std::to_string(i) + "\n";
    good += (i % 5 == 0 ? "a b x d e f " : "a b c d e f ") + std::to_string(i) + "\n";
    bad += (i % 2 == 0 ? "a b x d e f " : "a b c d e f ") + std::to_string(i) + "\n";
  }
  write(place_ / "good", good);
  write(place_ / "bad", bad);
  write(place_ / "right", right);
  const std::string files = "--hypothesis good --baseline bad --reference right --metrics bleu,exact-match ";
  const json result = scores(files + "--bootstrap 500 --seed 5")["resampling"];
  EXPECT_EQ(result["trials"], 500);
  for (const char* key : {"bleu", "exact-match"}) {
    const json& metric = result[key];
    EXPECT_LT(metric["p-value"], 0.01) << result;
    EXPECT_GT(metric["system"]["score"], metric["baseline"]["score"]);
    EXPECT_LT(metric["system"]["interval"][0], metric["system"]["mean"]);
    EXPECT_LT(metric["system"]["mean"], metric["system"]["interval"][1]);
  }
  EXPECT_NEAR(result["exact-match"]["system"]["score"].get<double>(), 0.8, 1e-12);
  EXPECT_NE(result["bleu"]["signature"].get<std::string>().find("nrefs:1|bs:500|seed:5|case:mixed"),
            std::string::npos);
  const std::string one = text(files + "--threads 1 --json"), three = text(files + "--threads 3 --json");
  EXPECT_EQ(one, three);
  EXPECT_NE(one.find("bs:1000|seed:12345"), std::string::npos);
  const std::string table = text(files + "--significance randomization --randomization 300");
  EXPECT_NE(table.find("ar:300|seed:12345"), std::string::npos) << table;
  EXPECT_NE(text("--hypothesis good --reference right --metrics bleu --bootstrap 100").find("\u00B1"),
            std::string::npos);
}

TEST(EvaluateModel, ScoresTheTextItGenerates) {
  const Workplace place;
  ASSERT_EQ(
      place
          .run("train --model m --task reverse --task-alphabet 8 --task-max-length 6 --encoder-layers 1 "
               "--decoder-layers 1 --width 32 --heads 4 --feed-forward 64 --steps 60 --batch-size 32")
          .status,
      0);
  const std::string sources = "abc\nhgf\nab\ncdefg\n", targets = "cba\nfgh\nba\ngfedc\n";
  write(place / "pairs.tsv", "abc\tcba\nhgf\tfgh\nab\tba\ncdefg\tgfedc\n");
  write(place / "right", targets);
  write(place / "out", place.run("translate --model m", sources).output);
  const std::string flags = " --metrics bleu,chrf,ter,token-error-rate --bleu-tokenize char --json";
  const Result model = place.run("evaluate --model m --test pairs.tsv" + flags);
  ASSERT_EQ(model.status, 0) << model.errors;
  const Result files = place.run("evaluate --hypothesis out --reference right --tokenizer char" + flags);
  EXPECT_EQ(json::parse(model.output)["bleu"], json::parse(files.output)["bleu"]);
  EXPECT_EQ(json::parse(model.output)["token-error-rate"], json::parse(files.output)["token-error-rate"]);
  EXPECT_TRUE(json::parse(place.run("evaluate --model m --test pairs.tsv --json").output).contains("chrf"));
  const Result task =
      place.run("evaluate --model m --task reverse --task-alphabet 8 --task-max-length 6 --json");
  EXPECT_FALSE(json::parse(task.output).contains("bleu"));
  const Result short_baseline = place.run("evaluate --model m --test pairs.tsv --baseline pairs.tsv" + flags);
  EXPECT_EQ(short_baseline.status, 0) << short_baseline.errors;
  write(place / "two", "a\nb\n");
  const Result refused = place.run("evaluate --model m --test pairs.tsv --baseline two");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.errors.find("2 lines"), std::string::npos) << refused.errors;
}

}  // namespace
}  // namespace transduce::testing
