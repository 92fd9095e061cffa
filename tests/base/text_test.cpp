#include "transduce/base/text.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using Views = std::vector<std::string_view>;

const std::string composed = "한국어";
const std::string decomposed = "\u1112\u1161\u11AB\u1100\u116E\u11A8\u110B\u1165";

TEST(Utf8Characters, AreScalarValues) {
  EXPECT_EQ(utf8_characters(""), Views{});
  EXPECT_EQ(utf8_characters("aé한👍"), (Views{"a", "é", "한", "👍"}));
  EXPECT_EQ(utf8_characters("a\0b"s), (Views{"a", "\0"s, "b"}));
}

TEST(Utf8Characters, AreSingleBytesWhereInvalid) {
  EXPECT_EQ(utf8_characters("a\xFF\xC3"), (Views{"a", "\xFF", "\xC3"}));        // never valid; cut off
  EXPECT_EQ(utf8_characters("\xE2\x82z"), (Views{"\xE2", "\x82", "z"}));        // cut off by a letter
  EXPECT_EQ(utf8_characters("\xC0\xAF"), (Views{"\xC0", "\xAF"}));              // overlong
  EXPECT_EQ(utf8_characters("\xED\xA0\x80"), (Views{"\xED", "\xA0", "\x80"}));  // a surrogate
  EXPECT_EQ(utf8_characters("\xF4\x90\x80\x80").size(), 4u);                    // above U+10FFFF
}

TEST(Utf8, ValidityAndRepair) {
  EXPECT_TRUE(is_valid_utf8("aé한👍\0"s));
  EXPECT_FALSE(is_valid_utf8("a\xFFz"));
  EXPECT_EQ(to_valid_utf8("a\xFFz\xC3"), "a\uFFFDz\uFFFD");
  EXPECT_EQ(to_valid_utf8("한\0"s), "한\0"s);
}

TEST(Normalize, ComposesAndDecomposes) {
  EXPECT_EQ(normalize(composed, NormalForm::nfd), decomposed);
  EXPECT_EQ(normalize(decomposed, NormalForm::nfc), composed);
  EXPECT_EQ(normalize(decomposed, NormalForm::none), decomposed);
  EXPECT_EQ(normalize("ﬁ①é", NormalForm::nfkc), "fi1é");
  EXPECT_EQ(normalize("ﬁ①e\u0301", NormalForm::nfc), "ﬁ①é");
  EXPECT_EQ(normalize("\u212B", NormalForm::nfc), "\u00C5");        // a singleton
  EXPECT_EQ(normalize("\u0958", NormalForm::nfc), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(normalize("\uFDFA", NormalForm::nfkc).size(), 33u);     // the longest decomposition there is
}

TEST(Normalize, OrdersMarks) {
  EXPECT_EQ(normalize("a\u0315\u0300\u05AE\u0062", NormalForm::nfd), "a\u05AE\u0300\u0315b");
  EXPECT_EQ(normalize("a\u0315\u0300\u05AE\u0062", NormalForm::nfc), "\u00E0\u05AE\u0315b");
}

TEST(Normalize, KeepsTheVowelJustBelowTheFinalConsonants) {
  for (const auto form : {NormalForm::nfc, NormalForm::nfkc}) {
    EXPECT_EQ(normalize("\uC138\u11A7\u0301", form), "\uC138\u11A7\u0301");
    EXPECT_EQ(normalize("\u1109\u1166\u11A7\u11A8", form), "\uC138\u11A7\u11A8");
  }
}

TEST(Normalize, KeepsNulAndInvalidBytes) {
  EXPECT_EQ(normalize("e\u0301\0e\u0301"s, NormalForm::nfc), "é\0é"s);
  EXPECT_EQ(normalize("e\xFF\u0301 e\u0301\xC3", NormalForm::nfc), "e\xFF\u0301 é\xC3");
}

TEST(Normalize, TakesManyMarksInReasonableTime) {
  std::string marks = "a";
  for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\u0316" : "\u0301";
  const auto begin = std::chrono::steady_clock::now();
  const std::string normal = normalize(marks, NormalForm::nfd);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(normal.size(), marks.size());
  EXPECT_EQ(normal.substr(0, 5), "a\u0316\u0316");
}

TEST(NormalForm, Names) {
  for (const auto* name : {"none", "nfc", "nfd", "nfkc"})
    EXPECT_STREQ(name_of(parse_normal_form(name)), name);
  EXPECT_EQ(error_of([] { parse_normal_form("NFC"); }),
            "unknown normal form \"NFC\": give none, nfc, nfd or nfkc");
}

TEST(SplitWhitespace, OnlyAsciiWhiteSpaceSeparates) {
  EXPECT_EQ(split_whitespace(" \ta  b\tc\r\v\fd\n"), (Views{"a", "b", "c", "d"}));
  EXPECT_EQ(split_whitespace("a\u00A0b\u3000c"), Views{"a\u00A0b\u3000c"});
  EXPECT_EQ(split_whitespace("a\0b"s), Views{"a\0b"s});
  EXPECT_EQ(split_whitespace(" \t"), Views{});
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r"));
  EXPECT_FALSE(is_blank(" a"));
  EXPECT_FALSE(is_blank("\u3000"));
}

TEST(Split, GivesOneFieldMoreThanSeparators) {
  EXPECT_EQ(split("a,b,,c", ','), (Views{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), Views{""});
  EXPECT_EQ(split(",", ','), (Views{"", ""}));
  EXPECT_EQ(join(split("a,b,,c", ','), ","), "a,b,,c");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, " "), "a b");
}

TEST(InQuotes, IsOneLineOfValidText) {
  const auto quoted = [](std::string_view text, size_t max_bytes = 200) {
    const std::string shown = in_quotes(text, max_bytes);
    EXPECT_EQ(fmt::format("{}", in_quotes(text, max_bytes)), shown);
    return shown;
  };
  EXPECT_EQ(quoted("한 \"a\"\n\t\0\xFF\\"s), "\"한 \\\"a\\\"\\x0A\\t\\x00\\xFF\\\\\"");
  EXPECT_EQ(quoted(std::string(1000, 'a'), 10), "\"aaaaaaaaaa\"...");
  EXPECT_EQ(quoted("\u2028"), "\"\\u{2028}\"");
}

TEST(JoinPieces, JoinsWordsAsSubwordNmtDoes) {  // sed -r 's/(@@ )|(@@ ?$)//g'
  EXPECT_EQ(join_pieces("ein Hau@@ s am Fl@@ u@@ ss", "@@"), "ein Haus am Fluss");
  EXPECT_EQ(join_pieces("a@@", "@@"), "a");
  EXPECT_EQ(join_pieces("a@@ ", "@@"), "a");
  EXPECT_EQ(join_pieces("@@@ b", "@@"), "@b");
  EXPECT_EQ(join_pieces("a@@b @@c @@ d", "@@"), "a@@b @@c d");
  EXPECT_EQ(join_pieces("un\uFFED told", "\uFFED"), "untold");
  EXPECT_EQ(join_pieces("a@@ b", ""), "a@@ b");
  EXPECT_EQ(join_pieces("", "@@"), "");
}

}  // namespace
}  // namespace transduce
