#include "transduce/eval/error_rates.h"

#include <gtest/gtest.h>

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

TEST(Units, ComposedAndDecomposedTextAgreeInOneNormalForm) {
  const TokenizerSpec nfd{TokenizerKind::character, NormalForm::nfd};
  EXPECT_EQ(units_of("\xED\x95\x9C", nfd), units_of("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", nfd));  // 한
  EXPECT_EQ(units_of("\xED\x95\x9C", nfd).size(), 3U);
  EXPECT_EQ(units_of(" a\tb ", {TokenizerKind::word, NormalForm::none}), (Tokens{"a", "b"}));
}

}  // namespace
}  // namespace transduce
