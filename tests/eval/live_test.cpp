// Random text, scored here and by sacreBLEU: every metric, every option, every line. Skipped where Python has
// no sacreBLEU (TRANSDUCE_PYTHON names the interpreter).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/base/temporary_directory.h"
#include "tests/eval/outside.h"
#include "transduce/base/random.h"
#include "transduce/base/text.h"
#include "transduce/eval/bleu.h"
#include "transduce/eval/chrf.h"
#include "transduce/eval/ter.h"

namespace transduce {
namespace {

using Lines = std::vector<std::string>;
using nlohmann::json;

// Words that metrics treat specially.
const std::string kSpecialWords =
    ". , ... 1,000.50 3-4 a-b - 's Bob's (hi) \"q\" &amp; &quot;x&quot; &amp;lt; <skipped> "
    "\u00ABa\u00BB \u201Cq\u201D \u2026 \u20AC5 $3.50 \u00A9 + = \u4E2D\u6587 \u3002 \uFF0C "
    "\u304B\u306A \u30AB\u30FB\u30CA \uD55C\uAD6D\uC5B4 \u1112\u1161\u11AB e\u0301 "
    "\u039F\u0394\u039F\u03A3 \u03A3\u0391. \u0391\u03A3'\u0391 \u0130I \u00C4\u00D6 \U0001F44D "
    "x\u200By \u00AD 1999. 1999, ,5 \u0661\u0662,\u0663 \u00BD A\u00A0B c\u3000d \u2028 \u0085 "
    "\u001F e.g., !? [a] {b} ~ @x \\ \u01C5 \u2160\u216B";

// One of those or, more often, an ordinary one.
std::string random_word(Random& random) {
  static const auto special = split(kSpecialWords, ' ');
  if (random.below(4) == 0) return std::string(special[random.below(special.size())]);
  // Few words in all, so that they repeat and shift.
  std::string word;
  for (uint64_t letters = 1 + random.below(2); letters > 0; --letters) {
    word += static_cast<char>((random.below(12) == 0 ? 'A' : 'a') + static_cast<char>(random.below(5)));
  }
  return word;
}

std::string random_line(Random& random, uint64_t words) {
  std::string line = random.below(10) == 0 ? " " : "";
  for (uint64_t i = 0; i < words; ++i)
    line += (i == 0 ? "" : random.below(15) == 0 ? "  " : " ") + random_word(random);
  return line + (random.below(10) == 0 ? " \t" : "");
}

// A line with words dropped, replaced, doubled and stretches moved.
std::string disturbed(Random& random, const std::string& line) {
  std::vector<std::string> words{""};
  for (const char c : line) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  for (uint64_t changes = random.below(6); changes > 0 && words.size() > 2; --changes) {
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(random.below(words.size()));
    switch (random.below(4)) {
      case 0:
        words.erase(at);
        break;
      case 1:
        *at = random_word(random);
        break;
      case 2:
        words.insert(at, random_word(random));
        break;
      default:
        std::rotate(
            words.begin(), at,
            words.begin() + (at - words.begin()) +
                static_cast<std::ptrdiff_t>(random.below(static_cast<uint64_t>(words.end() - at) + 1)));
    }
  }
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

struct Texts {
  Lines hypotheses;
  std::vector<Lines> references;
};

Texts random_texts(uint64_t seed, size_t sets) {
  Random random({seed, 0});
  Texts texts{{}, std::vector<Lines>(sets)};
  for (int i = 0; i < 40; ++i) {
    const std::string line = random_line(random, random.below(16));
    for (Lines& set : texts.references) {
      set.push_back(random.below(12) == 0 ? random_line(random, random.below(10)) : disturbed(random, line));
    }
    texts.hypotheses.push_back(random.below(12) == 0 ? random_line(random, random.below(20))
                                                     : disturbed(random, line));
  }
  texts.hypotheses[1] = "";
  texts.references[0][2] = "";
  texts.hypotheses[3] = texts.references[0][3] = "";
  texts.hypotheses[4] = "a\n-b c-\nd's\n";  // not from a file, but a caller may have it
  return texts;
}

// Lines beyond the limits of the search for shifts: its band, its 1,000 tries, lengths far apart.
Texts long_texts(uint64_t seed) {
  Random random({seed, 0});
  Texts texts{{}, std::vector<Lines>(1)};
  const std::string line = random_line(random, 110);
  texts.references[0] = {disturbed(random, line), random_line(random, 2), random_line(random, 160),
                         random_line(random, 60)};
  texts.hypotheses = {disturbed(random, line), random_line(random, 150), random_line(random, 2),
                      random_line(random, 12)};
  return texts;
}

// What sacreBLEU says. `requests`: metrics with options.
json ask_sacrebleu(const std::string& python, const Texts& texts, const json& requests) {
  const testing::TemporaryDirectory folder;
  const std::string in = folder / "in.json", out = folder / "out.json";
  std::ofstream(in) << json{
      {"hypotheses", texts.hypotheses}, {"references", texts.references}, {"metrics", requests}};
  const std::string command = golden::quoted(python) + " " TRANSDUCE_TESTS "/eval/sacrebleu_scores.py " +
                              golden::quoted(in) + " > " + golden::quoted(out);
  EXPECT_EQ(std::system(command.c_str()), 0);
  return testing::read_json(out);
}

std::unique_ptr<Metric> make(const json& request, bool one_line) {
  const json& o = request["options"];
  const std::string kind = request["metric"];
  if (kind == "BLEU") {
    BleuOptions options;
    options.tokenizer = parse_bleu_tokenizer(o.value("tokenize", "13a"));
    options.smoothing = parse_bleu_smoothing(o.value("smooth_method", "exp"));
    if (o.contains("smooth_value")) options.smoothing_value = o["smooth_value"].get<double>();
    options.max_order = o.value("max_ngram_order", 4);
    options.lowercase = o.value("lowercase", false);
    options.effective_order = one_line;
    return std::make_unique<Bleu>(options);
  }
  if (kind == "CHRF") {
    ChrfOptions options;
    options.char_order = o.value("char_order", 6);
    options.word_order = o.value("word_order", 0);
    options.beta = o.value("beta", 2);
    options.lowercase = o.value("lowercase", false);
    options.whitespace = o.value("whitespace", false);
    options.epsilon_smoothing = o.value("eps_smoothing", false);
    return std::make_unique<Chrf>(options);
  }
  return std::make_unique<Ter>(TercomRules{o.value("normalized", false), o.value("no_punct", false),
                                           o.value("asian_support", false),
                                           o.value("case_sensitive", false)});
}

json requests() {
  json all;
  const auto add = [&](const char* metric, json options) {
    all.push_back({{"metric", metric}, {"options", std::move(options)}});
  };
  for (const char* tokenizer : {"13a", "intl", "char", "none"}) {
    add("BLEU", {{"tokenize", tokenizer}});
    add("BLEU", {{"tokenize", tokenizer}, {"lowercase", true}, {"smooth_method", "floor"}});
  }
  add("BLEU", {{"smooth_method", "none"}});
  add("BLEU", {{"smooth_method", "floor"}, {"smooth_value", 0.37}, {"max_ngram_order", 7}});
  add("BLEU", {{"smooth_method", "add-k"}});
  add("BLEU", {{"smooth_method", "add-k"}, {"smooth_value", 2.5}, {"max_ngram_order", 2}});
  add("CHRF", json::object());
  add("CHRF", {{"word_order", 2}});
  add("CHRF", {{"word_order", 2}, {"eps_smoothing", true}, {"lowercase", true}});
  add("CHRF", {{"whitespace", true}, {"beta", 3}, {"char_order", 4}, {"word_order", 1}});
  for (int bits = 0; bits < 16; ++bits) {
    add("TER", {{"normalized", (bits & 1) != 0},
                {"no_punct", (bits & 2) != 0},
                {"asian_support", (bits & 4) != 0},
                {"case_sensitive", (bits & 8) != 0}});
  }
  return all;
}

// Scores of all lines together and of each line, names and signatures.
void expect_same(const std::string& python, const Texts& texts, const json& asked) {
  const json answers = ask_sacrebleu(python, texts, asked);
  ASSERT_EQ(answers.size(), asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    SCOPED_TRACE(asked[i].dump());
    const auto metric = make(asked[i], false), single = make(asked[i], true);
    const Statistics statistics = collect_statistics(*metric, texts.hypotheses, texts.references);
    EXPECT_NEAR(metric->score(statistics.sums()), answers[i]["score"].get<double>(), 1e-9);
    EXPECT_EQ(metric->name(), answers[i]["name"].get<std::string>());
    // sacreBLEU's ends with its version; ours shows BLEU's order too where it is not 4.
    const std::string theirs = answers[i]["signature"];
    const std::string ours = signature(*metric, texts.references.size());
    EXPECT_EQ(ours.substr(0, ours.find("|order:")), theirs.substr(0, theirs.find("|version:")));
    for (size_t line = 0; line < texts.hypotheses.size(); ++line) {
      EXPECT_NEAR(single->score(statistics.row(line)), answers[i]["lines"][line].get<double>(), 1e-9)
          << "line " << line << ": " << texts.hypotheses[line] << " | " << texts.references[0][line];
    }
  }
}

TEST(Live, EveryMetricOptionAndLineEqualsSacrebleu) {
  const std::string python = testing::python_with_sacrebleu();
  if (python.empty()) GTEST_SKIP() << "no Python with sacreBLEU 2; name one in TRANSDUCE_PYTHON";
  for (const size_t sets : {1, 3}) expect_same(python, random_texts(100 + sets, sets), requests());
}

TEST(Live, LongLinesEqualSacrebleu) {
  const std::string python = testing::python_with_sacrebleu();
  if (python.empty()) GTEST_SKIP() << "no Python with sacreBLEU 2; name one in TRANSDUCE_PYTHON";
  expect_same(python, long_texts(7), {{{"metric", "TER"}, {"options", json::object()}}});
}

}  // namespace
}  // namespace transduce
