#include "transduce/eval/error_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "transduce/base/random.h"

namespace transduce {
namespace {

using Tokens = std::vector<std::string>;

TEST(EditDistance, EqualsTheTextbookExamples) {
  const auto letters = [](const std::string& word) {
    return units_of(word, {TokenizerKind::character, NormalForm::none});
  };
  EXPECT_EQ(edit_distance(letters("kitten"), letters("sitting")), 3);  // Levenshtein's usual illustration
  EXPECT_EQ(edit_distance(letters("saturday"), letters("sunday")), 3);
  EXPECT_EQ(edit_distance(letters(""), letters("abc")), 3);
  EXPECT_EQ(edit_distance(letters("abc"), letters("")), 3);
  EXPECT_EQ(edit_distance(letters("abc"), letters("abc")), 0);
}

// The textbook's matrix, row by row.
int64_t plain_distance(const Tokens& a, const Tokens& b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

TEST(EditDistance, EqualsThePlainMatrixOnRandomTokens) {
  Random random({17, 0});
  const auto tokens = [&](uint64_t length, uint64_t alphabet) {
    Tokens result;
    for (uint64_t i = 0; i < length; ++i)
      result.push_back(std::string(1, static_cast<char>('a' + random.below(alphabet))));
    return result;
  };
  for (int trial = 0; trial < 500; ++trial) {
    const uint64_t alphabet = 1 + random.below(20);
    const Tokens a = tokens(random.below(200), alphabet);
    Tokens b = trial % 2 == 0 ? tokens(random.below(200), alphabet) : a;
    if (trial % 2 == 1) {  // a few changes: most of it is cut off at either end
      for (uint64_t i = 0; i < random.below(4) && !b.empty(); ++i)
        b.erase(b.begin() + static_cast<int64_t>(random.below(b.size())));
    }
    EXPECT_EQ(edit_distance(a, b), plain_distance(a, b)) << trial;
  }
  for (const size_t length : {63, 64, 65, 127, 128, 129}) {  // the edges of blocks
    const Tokens a = tokens(length, 3), b = tokens(length + 1, 3);
    EXPECT_EQ(edit_distance(a, b), plain_distance(a, b)) << length;
    EXPECT_EQ(edit_distance(b, a), plain_distance(a, b)) << length;
  }
}

// 100,000 tokens a side: a matrix of 10^10 cells is neither held nor gone through one by one.
TEST(EditDistance, TakesVeryLongSequences) {
  Tokens a, b;
  for (int i = 0; i < 100000; ++i) {
    a.push_back(std::to_string(i * 7919 % 1000));
    b.push_back(i % 10 == 0 ? "x" : a.back());
  }
  EXPECT_EQ(edit_distance(a, b), 10000);
}

TEST(ErrorRates, CountWhatTheirNamesSay) {
  ErrorRates rates;
  rates.add(Tokens{"a", "b", "c"}, Tokens{"a", "b", "c"});
  rates.add(Tokens{"d", "e"}, Tokens{"d", "f", "g"});
  rates.add(Tokens{}, Tokens{"x"});
  EXPECT_EQ(rates.sequences, 3);
  EXPECT_DOUBLE_EQ(rates.exact_match(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(rates.sequence_error_rate(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(rates.token_error_rate(), 3.0 / 7.0);
  EXPECT_DOUBLE_EQ(rates.token_accuracy(), 4.0 / 7.0);
}

TEST(ErrorRates, ATokenTooManyIsWrong) {
  ErrorRates rates;
  rates.add(Tokens{"a", "a"}, Tokens{"a"});
  EXPECT_DOUBLE_EQ(rates.token_accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(rates.token_error_rate(), 1.0);
}

TEST(ErrorRates, NothingIsNoError) {
  const ErrorRates rates;
  EXPECT_EQ(rates.token_accuracy(), 0.0);
  EXPECT_EQ(rates.sequence_error_rate(), 0.0);
}

TEST(ErrorRates, TokensThatNoReferenceHasAreWrong) {
  ErrorRates rates;
  rates.add(Tokens{"a"}, Tokens{});
  EXPECT_EQ(rates.token_error_rate(), 1.0);
  EXPECT_EQ(rates.token_accuracy(), 0.0);
}

TEST(Rate, TakesTheReferenceWithTheFewestEdits) {
  const Rate rate(RateKind::exact_match, {TokenizerKind::word, NormalForm::none});
  const std::vector<std::string> hypotheses = {"a b", "a b"};
  const std::vector<std::vector<std::string>> references = {{"a c d", "c"}, {"a b", "a b c"}};
  const ErrorRates rates = Rate::rates(collect_statistics(rate, hypotheses, references).sums());
  EXPECT_EQ(rates.sequences, 2);
  EXPECT_EQ(rates.exact, 1);
  EXPECT_EQ(rates.edits, 1);
  EXPECT_EQ(rates.tokens, 5);
  EXPECT_EQ(signature(rate, 2), "nrefs:2|case:mixed|tok:word|norm:none");
}

TEST(Units, ComposedAndDecomposedTextAgreeInOneNormalForm) {
  const TokenizerSpec nfd{TokenizerKind::character, NormalForm::nfd};
  EXPECT_EQ(units_of("\xED\x95\x9C", nfd), units_of("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", nfd));  // 한
  EXPECT_EQ(units_of("\xED\x95\x9C", nfd).size(), 3U);
  EXPECT_EQ(units_of(" a\tb ", {TokenizerKind::word, NormalForm::none}), (Tokens{"a", "b"}));
}

}  // namespace
}  // namespace transduce
