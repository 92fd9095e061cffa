#include "transduce/data/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using Ids = std::vector<int32_t>;

constexpr TokenizerSpec characters = {TokenizerKind::character, NormalForm::none};
constexpr TokenizerSpec jamo = {TokenizerKind::character, NormalForm::nfd};
constexpr TokenizerSpec words = {TokenizerKind::word, NormalForm::none};

const std::string composed = "한국어";
const std::string decomposed = "\u1112\u1161\u11AB\u1100\u116E\u11A8\u110B\u1165";

std::unique_ptr<Tokenizer> trained(const TokenizerSpec& spec, const std::vector<std::string_view>& lines) {
  return train_tokenizer(spec, lines);
}

std::string round_trip(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.decode(tokenizer.encode(text));
}

TEST(CharTokenizer, GivesBackWhatItHasSeen) {
  const std::string text = "Well done 👍, 한국어 a\0b\rc \xFF\xC3 </s>"s;
  const auto tokenizer = trained(characters, {text});
  EXPECT_EQ(round_trip(*tokenizer, text), text);
  EXPECT_EQ(tokenizer->encode(text).size(), utf8_characters(text).size());
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_EQ(tokenizer->spec(), characters);
}

TEST(CharTokenizer, ATabIsWhiteSpace) {  // argos-translate-files#11
  const auto tokenizer = trained(characters, {"a b"});
  EXPECT_EQ(tokenizer->encode("a\tb"), tokenizer->encode("a b"));
  EXPECT_EQ(round_trip(*tokenizer, "a\tb"), "a b");
}

TEST(WordTokenizer, SplitsAtAsciiWhiteSpace) {
  const auto tokenizer = trained(words, {"ein Haus", "ein\tHund"});
  EXPECT_EQ(tokenizer->vocabulary().size(), 7);
  EXPECT_EQ(tokenizer->vocabulary().token(4), "ein");
  EXPECT_EQ(tokenizer->encode("  ein\t Hund "), (Ids{4, 6}));
  EXPECT_EQ(round_trip(*tokenizer, "  ein\t Hund "), "ein Hund");
  EXPECT_EQ(tokenizer->encode("ein\u00A0Hund"), Ids{Vocabulary::unknown});
  EXPECT_EQ(tokenizer->encode(" "), Ids{});
}

TEST(Tokenizer, NulDoesNotEndText) {  // spm#331, #1308
  const auto tokenizer = trained(words, {"a\0b c"s});
  EXPECT_EQ(round_trip(*tokenizer, "a\0b c"s), "a\0b c"s);
}

TEST(Tokenizer, AnUnknownTokenIsVisibleAndCostsNothingElse) {  // argos-translate#77
  EXPECT_EQ(round_trip(*trained(words, {"Well done"}), "Well done 👍 Well"), "Well done <unk> Well");
  EXPECT_EQ(round_trip(*trained(characters, {"abc"}),
                       "a👍b\xFF"
                       "c"),
            "a<unk>b<unk>c");
}

TEST(Tokenizer, TextNeverBecomesASpecialSymbol) {  // spm#102, #667
  const auto by_words = trained(words, {"a </s> <pad>"});
  for (const auto id : by_words->encode("a </s> <pad> <s> <unk>")) {
    EXPECT_TRUE(id == Vocabulary::unknown || !Vocabulary::is_special(id));
  }
  EXPECT_EQ(round_trip(*by_words, "a </s> <pad>"), "a </s> <pad>");
  EXPECT_EQ(trained(characters, {"</s>"})->encode("</s>").size(), 4u);
}

TEST(Tokenizer, ComposedAndDecomposedTextIsTheSame) {  // huggingface/tokenizers#1975
  const auto tokenizer = trained(jamo, {composed});
  EXPECT_EQ(tokenizer->encode(composed), tokenizer->encode(decomposed));
  EXPECT_EQ(tokenizer->encode(composed).size(), 8u);
  EXPECT_EQ(tokenizer->vocabulary(), trained(jamo, {decomposed})->vocabulary());
  EXPECT_EQ(round_trip(*tokenizer, composed), composed);
  EXPECT_EQ(round_trip(*tokenizer, decomposed), composed);
  for (const auto form : {NormalForm::nfc, NormalForm::nfkc}) {
    const auto by_syllables = trained({TokenizerKind::character, form}, {decomposed});
    EXPECT_EQ(by_syllables->encode(composed), by_syllables->encode(decomposed));
    EXPECT_EQ(by_syllables->encode(decomposed).size(), 3u);
  }
  const auto by_words = trained({TokenizerKind::word, NormalForm::nfd}, {composed});
  EXPECT_EQ(by_words->encode(composed), by_words->encode(decomposed));
  EXPECT_EQ(round_trip(*by_words, decomposed), composed);
}

TEST(Tokenizer, DecodesWithoutSpecialSymbols) {
  const auto tokenizer = trained(words, {"a b"});
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 0, 5, 2, 0}), "a b");
  EXPECT_EQ(tokenizer->decode(Ids{4, 3}), "a <unk>");
  EXPECT_EQ(error_of([&] {
              tokenizer->decode(Ids{4, 6});
            }),
            "there is no token with the id 6: the vocabulary has 6 (ids 0 to 5)");
}

TEST(Tokenizer, DecodesToValidTextWhateverTheOrder) {
  const auto tokenizer = trained(jamo, {"한국어 e\u0301 👍"});
  Ids ids;
  for (int32_t i = 0; i < 3000; ++i)
    ids.push_back(static_cast<int32_t>(i * 7919 % tokenizer->vocabulary().size()));
  EXPECT_TRUE(is_valid_utf8(tokenizer->decode(ids)));
}

TEST(Tokenizer, VocabularyIsBounded) {
  const std::vector<std::string_view> lines = {"aaabbc"};
  EXPECT_EQ(train_tokenizer(characters, lines, {6})->vocabulary(), Vocabulary::from_tokens({"a", "b"}));
  EXPECT_EQ(train_tokenizer(characters, lines, {0, 3})->vocabulary(), Vocabulary::from_tokens({"a"}));
  EXPECT_EQ(error_of([&] {
              train_tokenizer(characters, lines, {0, 4});
            }),
            "the vocabulary would be empty: 1 lines with 3 different tokens (char), none seen 4 times; give "
            "more text "
            "or a smaller minimum count");
}

TEST(TokenizerKind, Names) {
  for (const auto* name : {"char", "word", "sentencepiece"})
    EXPECT_STREQ(name_of(parse_tokenizer_kind(name)), name);
  EXPECT_EQ(error_of([] { parse_tokenizer_kind("bpe"); }),
            "unknown tokenizer \"bpe\": give char, word or sentencepiece");
}

}  // namespace
}  // namespace transduce
