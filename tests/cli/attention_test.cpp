// attention from the outside: the three forms of output agree with what translate says, whatever the tokens
// are made of nothing of them becomes markup, and the page draws itself in a browser where there is one.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cli/program.h"
#include "tests/page/xml.h"

namespace transduce::testing {
namespace {

const std::string kSmall =
    " --encoder-layers 1 --decoder-layers 2 --width 32 --heads 4 --feed-forward 64 --norm pre "
    "--learning-rate 3e-3 "
    "--batch-size 32 --threads 2 --valid-examples 0 ";

class Attention : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const Result trained = place_->run(
        "train --model m --task reverse --task-alphabet 8 --task-max-length 9 --steps 60" + kSmall);
    ASSERT_EQ(trained.status, 0) << trained.errors;
    // Words that would be markup, invisible, of other scripts, or not even UTF-8.
    write(
        *place_ / "words.tsv",
        "</script><script>alert(1)</script> & \"a\" 'b' <!--\t<img/src=x/onerror=alert(1)> ]]> \\ \x01 \xFF\n"
        "나는 학교에 \u1112\u1161\u11AB \u0301 \u202E간다\tשלום العربية \U0001F44D\u200D \u11AB </s> <s>\n");
    const Result words = place_->run(
        "train --model w --train words.tsv --source-tokenizer word --target-tokenizer word "
        "--steps 2" +
        kSmall);
    ASSERT_EQ(words.status, 0) << words.errors;
    const std::string text = contents(*place_ / "words.tsv");
    for (const std::string& line : {text.substr(0, text.find('\n')), text.substr(text.find('\n') + 1)}) {
      std::string target = line.substr(line.find('\t') + 1);
      pairs_.emplace_back(line.substr(0, line.find('\t')), target.substr(0, target.find('\n')));
    }
  }
  static void TearDownTestSuite() { delete place_; }

  static std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
  }
  // The file that is written for a pair, given as it stands.
  static std::string file_for(const std::string& model, const std::string& source, const std::string& target,
                              const std::string& name, const std::string& more = "") {
    const Result result =
        place_->run("attention --model " + model + " --source " + quoted(source) +
                    (target.empty() ? "" : " --target " + quoted(target)) + " --output " + name + more);
    EXPECT_EQ(result.status, 0) << result.errors;
    return contents(*place_ / name);
  }

  static Workplace* place_;
  static std::vector<std::pair<std::string, std::string>> pairs_;  // of words.tsv
};
Workplace* Attention::place_ = nullptr;
std::vector<std::pair<std::string, std::string>> Attention::pairs_;

TEST_F(Attention, JsonHoldsEveryWeight) {
  const auto json = nlohmann::json::parse(file_for("m", "abcdef", "", "a.json"));
  const Result translated = place_->run("translate --model m --json", "abcdef\n");
  EXPECT_EQ(json["output_text"], nlohmann::json::parse(translated.output)["hypotheses"][0]["text"]);
  EXPECT_EQ(json["forced"], false);
  EXPECT_EQ(json["source"].dump(), "[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"</s>\"]");
  EXPECT_EQ(json["read"][0], "<s>");
  EXPECT_EQ(json["encoder"].size(), 4U);
  EXPECT_EQ(json["decoder"].size(), 8U);
  ASSERT_EQ(json["cross"].size(), 8U);
  for (const char* kind : {"encoder", "decoder", "cross"}) {
    for (const auto& map : json[kind]) {
      for (const auto& row : map["weights"]) {
        double sum = 0.0;
        for (const double weight : row) sum += weight;
        EXPECT_NEAR(sum, 1.0, 1e-5);
      }
    }
  }
}

// The alignments of translate are where these weights are largest.
TEST_F(Attention, AgreesWithAlignments) {
  const auto json = nlohmann::json::parse(file_for("m", "habcdefg", "", "b.json"));
  for (const auto& map : json["cross"]) {
    const Result result = place_->run("translate --model m --json --alignments --alignment-layer " +
                                          map["layer"].dump() + " --alignment-head " + map["head"].dump(),
                                      "habcdefg\n");
    for (const auto& link : nlohmann::json::parse(result.output)["hypotheses"][0]["alignment"]) {
      const auto& row = map["weights"][link[1].get<size_t>()];
      for (size_t s = 0; s + 1 < row.size(); ++s) {
        EXPECT_LE(row[s].get<double>(), row[link[0].get<size_t>()].get<double>() + 2e-6);
      }
    }
  }
}

TEST_F(Attention, PrintsHowStraightItGoes) {
  const Result result = place_->run("attention --model m --source abcd --target dcba --output c.json");
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto json = nlohmann::json::parse(contents(*place_ / "c.json"));
  double best = 0.0;
  for (const auto& map : json["cross"]) {
    double anti = 0.0;
    for (size_t t = 0; t < 4; ++t) anti += map["weights"][t][3 - t].get<double>() / 4.0;
    EXPECT_NEAR(map["anti_diagonal"].get<double>(), anti, 1e-5);
    best = std::max(best, anti);
  }
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.output, found,
                                std::regex("best anti-diagonal +layer \\d, head \\d: ([0-9.]+) %")))
      << result.output;
  EXPECT_NEAR(std::stod(found[1]), 100.0 * best, 0.051);
  EXPECT_NE(result.output.find("source  a b c d </s>\noutput  d c b a </s>\n"), std::string::npos)
      << result.output;
}

TEST_F(Attention, ShowsWhatIsAskedFor) {
  const auto json = nlohmann::json::parse(
      file_for("m", "abc", "cba", "d.json", " --kind cross --kind encoder --layer 1 --head 3"));
  EXPECT_EQ(json["encoder"].size(), 1U);
  EXPECT_EQ(json["decoder"].size(), 0U);
  ASSERT_EQ(json["cross"].size(), 1U);
  EXPECT_EQ(json["cross"][0]["head"], 3);
  const std::string svg = file_for("m", "abc", "cba", "d.svg", " --kind decoder --layer 2");
  EXPECT_EQ(count_of(svg, ">layer 2, head "), 4U);
  EXPECT_EQ(svg.find("Cross"), std::string::npos);
}

TEST_F(Attention, PicturesAreWellFormedWhateverTheTokens) {
  for (const auto& [source, target] : pairs_) {
    const std::string svg = file_for("w", source, target, "e.svg");
    expect_well_formed(svg);
    EXPECT_EQ(svg.find("<script"), std::string::npos);
    EXPECT_EQ(count_of(svg, ">layer "), 4U + 8U + 8U);
  }
  expect_well_formed(file_for("m", "abc", "", "f.svg"));
}

TEST_F(Attention, PagesHoldNoMarkupOfTheTokensAndAskNothing) {
  for (const auto& [source, target] : pairs_) {
    const std::string page = file_for("w", source, target, "e.html");
    EXPECT_EQ(count_of(page, "<script"), 2U) << "the data and the page's own";
    EXPECT_EQ(count_of(page, "</script"), 2U);
    EXPECT_EQ(page.find("<img"), std::string::npos);
    EXPECT_EQ(page.find("<!--"), std::string::npos);
    EXPECT_FALSE(
        std::regex_search(page, std::regex("https?:|(src|href)=\"?[/h]|@import|url\\(|fetch|XMLHttp")));
    EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
    // The data is what the JSON file has, in ten-thousandths.
    const size_t begin = page.find(">", page.find("<script type=\"application/json\"")) + 1;
    const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    const auto json = nlohmann::json::parse(file_for("w", source, target, "e.json"));
    ASSERT_EQ(data["sections"].size(), 3U);
    for (const auto& section : data["sections"]) {
      const auto& maps = json[section["id"].get<std::string>()];
      ASSERT_EQ(section["maps"].size(), maps.size());
      for (size_t i = 0; i < maps.size(); ++i) {
        size_t at = 0;
        for (const auto& row : maps[i]["weights"]) {
          for (const double weight : row)
            EXPECT_NEAR(section["maps"][i]["weights"][at++], 1e4 * weight, 0.51);
        }
        EXPECT_EQ(section["maps"][i]["weights"].size(), at);
      }
    }
  }
}

TEST_F(Attention, TokensAreReadable) {
  const std::string page = file_for("w", pairs_[1].first, pairs_[1].second, "g.html");
  const size_t begin = page.find(">", page.find("<script type=\"application/json\"")) + 1;
  const auto tokens =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin))["tokens"];
  const auto& source = tokens["source"];
  ASSERT_EQ(source.size(), 6U);
  EXPECT_EQ(source[0], "나는");
  EXPECT_EQ(source[2], "한") << "letters come together";
  EXPECT_EQ(source[3], "\u25CC\u0301") << "a mark has something to sit on";
  EXPECT_EQ(source[4], "\\u{202E}간다") << "what would turn the line around is shown";
  EXPECT_EQ(source[5], "</s>");
  const auto& chosen = tokens["chosen"];
  EXPECT_EQ(chosen[0], "שלום");
  EXPECT_EQ(chosen[3], "ㄴ") << "a letter alone";
  EXPECT_EQ(chosen[4], "\\</s>") << "text that is spelled like a special symbol";
  EXPECT_EQ(chosen[6], "</s>");
  EXPECT_EQ(tokens["read"][0], "<s>");
}

TEST_F(Attention, RefusesWithOneLineAndWritesNothing) {
  write(*place_ / "long", std::string(1025, 'a'));
  write(*place_ / "wide", std::string(300, 'a'));
  for (const char* arguments :
       {"--source abc --output x.png", "--source abc --output x.svg --layer 3",
        "--source abc --output x.svg --head 5", "--source abc --output x.svg --head -1",
        "--source abc --output x.html --kind self", "--source abc --output nowhere/x.html",
        "--source \"$(cat long)\" --output x.html", "--source \"$(cat wide)\" --target a --output x.svg",
        "--source \"$(printf 'a\\nb')\" --output x.html", "--output x.html", "--source '' --output x.html"}) {
    const Result result = place_->run(std::string("attention --model m ") + arguments);
    EXPECT_EQ(result.status, 2) << arguments << "\n" << result.output << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_EQ(result.output, "");
    for (const char* file : {"x.png", "x.svg", "x.html"})
      EXPECT_FALSE(std::filesystem::exists(*place_ / file));
  }
}

// Whether a browser draws every head: it runs the page and prints what became of it.
TEST_F(Attention, APageDrawsItselfInABrowser) {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
  file_for("w", pairs_[0].first, pairs_[0].second, "h.html");
  const Result result = place_->run(
      "attention --help >/dev/null; timeout 60 chromium --headless=new --no-sandbox --disable-gpu "
      "--user-data-dir=profile "
      "--virtual-time-budget=3000 --window-size=1280,9000 --dump-dom \"file://$PWD/h.html\"");
  if (result.status != 0) GTEST_SKIP() << "chromium does not run here: " << result.errors.substr(0, 300);
  EXPECT_EQ(count_of(result.output, "aria-label=\"Cross-attention, layer "), 8U);
  EXPECT_EQ(count_of(result.output, "aria-label=\"Encoder self-attention, layer "), 4U);
  EXPECT_EQ(count_of(result.output, "aria-label=\"Decoder self-attention, layer "), 8U);
  EXPECT_FALSE(
      std::regex_search(result.output, std::regex("<canvas (?![^>]*style=\"width: [1-9])[^>]*aria-label")));
}

}  // namespace
}  // namespace transduce::testing
