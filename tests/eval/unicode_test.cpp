#include "transduce/eval/unicode.h"

#include <gtest/gtest.h>

#include "transduce/eval/ngrams.h"
#include "transduce/eval/text_rules.h"

namespace transduce {
namespace {

using Words = std::vector<std::u32string>;

Words words_of(const std::u32string& text) {
  const auto words = split_words(text);
  return {words.begin(), words.end()};
}

TEST(Unicode, DecodesAndKeepsWhatIsNoUtf8Apart) {
  EXPECT_EQ(decode_utf8("a\u00E9\uD55C\U0001F44D"), U"a\u00E9\uD55C\U0001F44D");
  const std::u32string broken = decode_utf8("\xE9\xFF");
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_NE(broken[0], broken[1]);
  EXPECT_NE(broken[0], U'\u00E9');
  for (const char32_t c : broken) {
    EXPECT_FALSE(is_space(c) || is_number(c) || is_punctuation(c) || is_symbol(c));
  }
  EXPECT_EQ(lower_case(broken), broken);
}

TEST(Unicode, LowerCaseIsFull) {
  EXPECT_EQ(lower_case(U"\u00C4Ab1"), U"\u00E4ab1");
  EXPECT_EQ(lower_case(U"\u0130"), U"i\u0307");                                     // I with dot
  EXPECT_EQ(lower_case(U"\u039F\u0394\u039F\u03A3"), U"\u03BF\u03B4\u03BF\u03C2");  // final sigma
  EXPECT_EQ(lower_case(U"\u03A3\u0391"), U"\u03C3\u03B1");
  EXPECT_EQ(lower_case(U"\u03A3"), U"\u03C3");                            // alone, it ends no word
  EXPECT_EQ(lower_case(U"\u0391\u03A3'\u0391"), U"\u03B1\u03C3'\u03B1");  // within a word
  EXPECT_EQ(lower_case(U"\u0391\u03A3. "), U"\u03B1\u03C2. ");
}

TEST(Unicode, WhiteSpaceIsPythons) {
  EXPECT_EQ(words_of(U" a\u00A0b\u3000c\u2028d\u001Fe\u0085f\u200Bg "),
            (Words{U"a", U"b", U"c", U"d", U"e", U"f\u200Bg"}));
  EXPECT_EQ(trim_end(U" a \u3000\t"), U" a");
  EXPECT_TRUE(words_of(U" \t").empty());
}

TEST(BleuTokens, Of13aSplitPunctuationButNotNumbers) {
  const auto tokens = [](const std::u32string& text) {
    return words_of(tokenize_for_bleu(text, BleuTokenizer::v13a));
  };
  EXPECT_EQ(tokens(U"It cost 1,000.50, he said."),
            (Words{U"It", U"cost", U"1,000.50", U",", U"he", U"said", U"."}));
  EXPECT_EQ(tokens(U"(a/b) \u201Cq\u201D it's 3-4 a-b"),
            (Words{U"(", U"a", U"/", U"b", U")", U"\u201Cq\u201D", U"it's", U"3", U"-", U"4", U"a-b"}));
  EXPECT_EQ(tokens(U"&quot;&amp;lt;<skipped>x"), (Words{U"\"", U"<", U"x"}));
  EXPECT_EQ(tokens(U"..."), (Words{U".", U".", U"."}));
}

TEST(BleuTokens, OfIntlGoByCategories) {
  const auto tokens = [](const std::u32string& text) {
    return words_of(tokenize_for_bleu(text, BleuTokenizer::intl));
  };
  EXPECT_EQ(tokens(U"\u201Cq\u201D 1,5\u20AC \u00ABa\u00BB."),
            (Words{U"\u201C", U"q", U"\u201D", U"1,5", U"\u20AC", U"\u00AB", U"a", U"\u00BB", U"."}));
  EXPECT_EQ(tokens(U"in 1999."), (Words{U"in", U"1999."}));  // as mteval-v14.pl
  EXPECT_EQ(words_of(tokenize_for_bleu(U"\uD55C b", BleuTokenizer::character)), (Words{U"\uD55C", U"b"}));
}

TEST(TerTokens, ByOption) {
  const auto tokens = [](const std::u32string& text, const TercomRules& rules) {
    return words_of(tokenize_for_ter(text, rules));
  };
  EXPECT_EQ(tokens(U"Bob's (dog).", {}), (Words{U"bob's", U"(dog)."}));
  EXPECT_EQ(tokens(U"Bob's (dog).", {.normalized = true}), (Words{U"bob", U"'s", U"(", U"dog", U")", U"."}));
  EXPECT_EQ(tokens(U"Bob's (dog).", {.no_punctuation = true}), (Words{U"bob's", U"dog"}));
  EXPECT_EQ(tokens(U"\u4E2D\u6587\u3002", {.normalized = true, .asian_support = true}),
            (Words{U"\u4E2D", U"\u6587", U"\u3002"}));
  EXPECT_EQ(tokens(U"\u4E2D\u6587\u3002", {.no_punctuation = true, .asian_support = true}),
            (Words{U"\u4E2D\u6587"}));
}

TEST(Ngrams, AreMultisets) {
  const auto a = ngrams_of(U"abab", 3), b = ngrams_of(U"abba", 3);
  EXPECT_EQ(a[0], (Ngrams{U"a", U"a", U"b", U"b"}));
  EXPECT_EQ(a[1], (Ngrams{U"ab", U"ab", U"ba"}));
  EXPECT_EQ(a[2], (Ngrams{U"aba", U"bab"}));
  EXPECT_EQ(count_common(a[1], b[1]), 2);
  EXPECT_EQ(unite(a[1], b[1]), (Ngrams{U"ab", U"ab", U"ba", U"bb"}));
  EXPECT_TRUE(ngrams_of(U"a", 2)[1].empty());
}

}  // namespace
}  // namespace transduce
