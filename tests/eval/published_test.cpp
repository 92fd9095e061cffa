// The scores that sacreBLEU's own tests publish: small cases, and sixteen WMT17 systems scored by the scripts
// that defined the metrics (mteval-v13a.pl, mteval-v14.pl, chrF++.py, tercom 7.25, Moses, multeval).

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <map>

#include "tests/eval/outside.h"
#include "transduce/base/error.h"
#include "transduce/base/file.h"
#include "transduce/base/text.h"
#include "transduce/eval/bleu.h"
#include "transduce/eval/chrf.h"
#include "transduce/eval/significance.h"
#include "transduce/eval/ter.h"

namespace transduce {
namespace {

using Lines = std::vector<std::string>;
using Sets = std::vector<Lines>;
using nlohmann::json;
using testing::read_json;
using testing::sacrebleu_cases;

BleuOptions raw_bleu(double floor) {
  BleuOptions options;
  options.tokenizer = BleuTokenizer::none;
  options.smoothing = BleuSmoothing::floor;
  options.smoothing_value = floor;
  options.effective_order = true;
  return options;
}

BleuCounts counts_of(const json& stated) {
  return {stated[1], stated[2], stated[0]["common"], stated[0]["total"]};
}

TEST(PublishedBleu, RawCases) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_bleu"];
  for (const json& c : cases["test_raw_bleu_cases"]) {
    EXPECT_NEAR(corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), raw_bleu(0.01)).score,
                100 * c[2].get<double>(), 1e-6)
        << c;
  }
  for (const json& c : cases["test_case_effective_order"]) {
    EXPECT_NEAR(corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), raw_bleu(0.01)).score,
                100 * c[2].get<double>(), 1e-6)
        << c;
  }
  for (const json& c : cases["test_case_offset"]) {
    EXPECT_NEAR(corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), raw_bleu(0.1)).score,
                100 * c[2].get<double>(), 1e-6);
    EXPECT_NEAR(corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), raw_bleu(0.0)).score,
                100 * c[3].get<double>(), 1e-6);
  }
}

TEST(PublishedBleu, CorpusCases) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_bleu"];
  for (const json& c : cases["test_corpus_bleu_cases"]) {
    BleuOptions options;
    options.tokenizer = parse_bleu_tokenizer(c[2].value("tokenize", "13a"));
    options.smoothing = parse_bleu_smoothing(c[2].value("smooth_method", "exp"));
    EXPECT_NEAR(corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), options).score, c[3].get<double>(), 1e-6)
        << c[2];
  }
  for (const json& c : cases["test_bleu_max_order"]) {
    BleuOptions options;
    options.max_order = c[0];
    EXPECT_EQ(fmt::format("{:.2f}", corpus_bleu(c[1].get<Lines>(), c[2].get<Sets>(), options).score),
              c[3].get<std::string>());
  }
}

TEST(PublishedBleu, Counts) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_bleu"];
  for (const json& c : cases["test_case_statistics"]) {
    const BleuScore score = corpus_bleu(c[0].get<Lines>(), c[1].get<Sets>(), raw_bleu(0.0));
    EXPECT_EQ(score.counts.matches, c[2]["common"].get<std::vector<int64_t>>());
    EXPECT_EQ(score.counts.totals, c[2]["total"].get<std::vector<int64_t>>());
  }
  BleuOptions plain;
  plain.smoothing = BleuSmoothing::none;
  for (const json& c : cases["test_case_scoring"]) {
    EXPECT_NEAR(bleu_of(counts_of(c[0]), plain).score, 100 * c[1].get<double>(), 1e-6);
  }
  for (const json& c : cases["test_case_degenerate_stats"]) {
    BleuOptions floor;
    floor.smoothing = BleuSmoothing::floor;
    floor.smoothing_value = c[1].get<double>();
    EXPECT_EQ(bleu_of(counts_of(c[0]), floor).score, c[2].get<double>()) << c;
  }
}

TEST(PublishedBleu, SentenceCases) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_sentence_bleu"];
  const auto check = [](const json& c, const json& hypothesis, const json& reference) {
    BleuOptions options;
    options.smoothing = parse_bleu_smoothing(c[0].get<std::string>());
    if (!c[1].is_null()) options.smoothing_value = c[1].get<double>();
    options.lowercase = c[2];
    options.tokenizer = parse_bleu_tokenizer(c[3].get<std::string>());
    const Lines references{reference.get<std::string>()};
    EXPECT_NEAR(sentence_bleu(hypothesis, references, options).score, c[4].get<double>(), 1e-3) << c;
  };
  for (const json& c : cases["test_cases"]) check(c, cases["SYS"], cases["REF"]);
  for (const json& c : cases["test_cases_zero_bleu"]) check(c, cases["SYS_0"], cases["REF_0"]);
}

TEST(PublishedChrf, Cases) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_chrf"];
  const auto check = [](const json& group, const ChrfOptions& options) {
    for (const json& c : group) {
      const auto texts = [](const json& j) { return j.is_string() ? Lines{j} : j.get<Lines>(); };
      EXPECT_NEAR(corpus_chrf(texts(c[0]), texts(c[1]), options), c[2].get<double>(), 1e-4) << c;
    }
  };
  ChrfOptions options;
  options.epsilon_smoothing = true;
  check(cases["test_sentence_level_chrf"], options);
  options.beta = 3;
  check(cases["test_cases"], options);
  options.epsilon_smoothing = false;
  check(cases["test_cases_effective_order"], options);
  options.whitespace = true;
  check(cases["test_cases_keep_whitespace"], options);
}

TEST(PublishedTer, Cases) {
  SKIP_WITHOUT_CASES();
  const json cases = read_json(sacrebleu_cases() / "cases.json")["test_ter"];
  for (const json& c : cases["test_cases"]) {
    EXPECT_NEAR(corpus_ter(c[0].get<Lines>(), c[1].get<Lines>()).score, 100 * c[2].get<double>(), 0.1) << c;
  }
}

// One row of expected.tsv, by the names of its columns; empty where nothing was published.
using Row = std::map<std::string, std::string>;

std::filesystem::path wmt17() { return sacrebleu_cases() / "wmt17-en-de"; }

std::vector<Row> published() {
  const Lines table = read_lines((wmt17() / "expected.tsv").string());
  const auto names = split(table[0], '\t');
  std::vector<Row> rows;
  for (size_t i = 1; i < table.size(); ++i) {
    const auto fields = split(table[i], '\t');
    Row row;
    for (size_t f = 0; f < fields.size(); ++f) row[std::string(names[f])] = fields[f];
    rows.push_back(row);
  }
  return rows;
}

Lines output_of(const std::string& system) {
  Lines lines = read_lines((wmt17() / (system + ".gz")).string());
  // The published scores include the byte-order mark that this file begins with, which readers drop.
  if (system == "newstest2017.online-A.0.en-de") lines[0] = "\uFEFF" + lines[0];
  return lines;
}

Lines wmt17_reference() { return read_lines((wmt17() / "newstest2017-ende-ref.de.gz").string()); }

// Compares with what is published, where something is, and keeps the largest deviation.
class Deviation {
 public:
  Deviation(std::string column, double scale, double tolerance)
      : column_(std::move(column)), scale_(scale), tolerance_(tolerance) {}
  ~Deviation() {
    std::cout << column_ << ": " << count_ << " scores, largest deviation " << largest_ << "\n";
  }

  void check(const Row& row, const std::function<double()>& score) {
    const std::string& expected = row.at(column_);
    if (expected.empty()) return;
    const double deviation = std::abs(score() - scale_ * std::stod(expected));
    EXPECT_LE(deviation, tolerance_) << column_ << " of " << row.at("system");
    largest_ = std::max(largest_, deviation);
    ++count_;
  }
  int count() const { return count_; }

 private:
  std::string column_;
  double scale_, tolerance_, largest_ = 0.0;
  int count_ = 0;
};

TEST(PublishedWmt17, EveryScore) {
  SKIP_WITHOUT_CASES();
  const Lines reference = wmt17_reference();
  BleuOptions international;
  international.tokenizer = BleuTokenizer::intl;
  ChrfOptions chrf;
  chrf.epsilon_smoothing = true;  // as chrF++.py
  ChrfOptions chrf_words = chrf;
  chrf_words.word_order = 2;
  // BLEU is published with two decimals, chrF with four, TER as a fraction with three: half a unit of the
  // last one is what rounding takes.
  Deviation bleu("bleu_13a_mteval", 1, 0.0051), bleu_intl("bleu_intl_mteval14", 1, 0.0051);
  Deviation chrf_6("chrf", 1, 0.0001), chrf_6_2("chrf++", 1, 0.0001), ter("ter_tercom", 100, 0.0501);
  for (const Row& row : published()) {
    const Lines lines = output_of(row.at("system"));
    ASSERT_EQ(lines.size(), 3004U);
    bleu.check(row, [&] { return corpus_bleu(lines, reference).score; });
    bleu_intl.check(row, [&] { return corpus_bleu(lines, reference, international).score; });
    chrf_6.check(row, [&] { return corpus_chrf(lines, reference, chrf); });
    chrf_6_2.check(row, [&] { return corpus_chrf(lines, reference, chrf_words); });
    ter.check(row, [&] { return corpus_ter(lines, reference).score; });
  }
  EXPECT_EQ(bleu.count(), 16);
  EXPECT_EQ(ter.count(), 16);
}

// Every published p-value of a column, against the first system. Both sides are estimates: they may differ by
// four standard deviations of `published_trials` and of ours. (Seeds are fixed, so this never flickers.)
void expect_published_p_values(const std::string& column, const Metric& metric,
                               decltype(paired_bootstrap) test, int64_t trials, double published_trials) {
  const std::vector<Lines> reference{wmt17_reference()};
  const Statistics baseline =
      collect_statistics(metric, output_of("newstest2017.LIUM-NMT.4900.en-de"), reference);
  int count = 0;
  for (const Row& row : published()) {
    if (row.at(column).empty()) continue;
    const double p = std::stod(row.at(column));
    const Statistics system = collect_statistics(metric, output_of(row.at("system")), reference);
    const double found = test(metric, system, baseline, {trials, 12345}).p_value;
    const double spread = p * (1 - p) * (1 / published_trials + 1 / static_cast<double>(trials));
    EXPECT_NEAR(found, p, 4 * std::sqrt(spread) + 0.002) << column << " of " << row.at("system");
    std::cout << fmt::format("{:<45} {} published {:.5f} found {:.5f}\n", row.at("system"), column, p, found);
    ++count;
  }
  EXPECT_EQ(count, 15);
}

// The p-values are those of text that counts as tokenized.
Bleu untokenized() {
  BleuOptions options;
  options.tokenizer = BleuTokenizer::none;
  return Bleu(options);
}

TEST(PublishedWmt17, BootstrapPValues) {
  SKIP_WITHOUT_CASES();
  expect_published_p_values("p_bootstrap_moses", untokenized(), paired_bootstrap, 2000, 3 * 2000);
}

TEST(PublishedWmt17, RandomizationPValues) {
  SKIP_WITHOUT_CASES();
  expect_published_p_values("p_AR_bleu_multeval", untokenized(), paired_randomization, 4000, 10000);
}

TEST(PublishedWmt17, RandomizationPValuesOfTer) {
  SKIP_WITHOUT_CASES();
  expect_published_p_values("p_AR_ter_multeval", Ter(), paired_randomization, 4000, 10000);
}

}  // namespace
}  // namespace transduce
