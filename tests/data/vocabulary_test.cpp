#include "transduce/data/vocabulary.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"
#include "transduce/base/file.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using testing::TemporaryDirectory;

const std::string specials = "<pad>\n<s>\n</s>\n<unk>\n";

std::vector<std::string> ordinary_tokens(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (int32_t id = Vocabulary::special_symbols; id < vocabulary.size(); ++id)
    tokens.push_back(vocabulary.token(id));
  return tokens;
}

TEST(Vocabulary, BeginsWithTheSpecialSymbols) {
  const Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.size(), 4);
  EXPECT_EQ(vocabulary.token(Vocabulary::pad), "<pad>");
  EXPECT_EQ(vocabulary.token(Vocabulary::start), "<s>");
  EXPECT_EQ(vocabulary.token(Vocabulary::end), "</s>");
  EXPECT_EQ(vocabulary.token(Vocabulary::unknown), "<unk>");
  EXPECT_EQ(error_of([&] { vocabulary.token(4); }),
            "there is no token with the id 4: the vocabulary has 4 (ids 0 to 3)");
  EXPECT_NE(error_of([&] { vocabulary.token(-1); }), "");
}

TEST(Vocabulary, OrdersByCountThenBytes) {
  const TokenCounts counts = {{"b", 2}, {"a", 2}, {"\xFF", 2}, {"often", 9}, {"rare", 1}};
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(ordinary_tokens(Vocabulary::from_counts(counts)), (Tokens{"often", "a", "b", "\xFF", "rare"}));
  EXPECT_EQ(ordinary_tokens(Vocabulary::from_counts(counts, 6)), (Tokens{"often", "a"}));
  EXPECT_EQ(ordinary_tokens(Vocabulary::from_counts(counts, 0, 2)), (Tokens{"often", "a", "b", "\xFF"}));
  EXPECT_EQ(ordinary_tokens(Vocabulary::from_counts(counts, 100, 3)), Tokens{"often"});
  EXPECT_EQ(
      error_of([&] { Vocabulary::from_counts(counts, 4); }),
      "a vocabulary of size 4 leaves no room beside the 4 special symbols; give at least 5, or 0 for no "
      "bound");
  EXPECT_NE(error_of([&] { Vocabulary::from_counts(counts, -1); }), "");
  EXPECT_NE(error_of([&] { Vocabulary::from_counts(counts, 0, -1); }), "");
}

TEST(Vocabulary, LeavesOutTokensBeyondTheBound) {
  const std::string longest(Vocabulary::max_token_bytes, '\1'), longer = longest + "a";
  const Vocabulary vocabulary = Vocabulary::from_counts({{longest, 1}, {longer, 5}});
  EXPECT_EQ(ordinary_tokens(vocabulary), std::vector<std::string>{longest});
  const TemporaryDirectory directory;
  vocabulary.write(directory / "v");
  EXPECT_EQ(Vocabulary::read(directory / "v"), vocabulary);
  EXPECT_NE(error_of([&] { Vocabulary::from_tokens({longer}); }), "");
}

TEST(Vocabulary, TextNeverBecomesASpecialSymbol) {  // spm#102, #667
  EXPECT_EQ(Vocabulary().id("</s>"), Vocabulary::unknown);
  const Vocabulary vocabulary = Vocabulary::from_tokens({"</s>", "<pad>", "<unk>", "a"});
  EXPECT_EQ(vocabulary.id("</s>"), 4);
  EXPECT_EQ(vocabulary.id("<pad>"), 5);
  EXPECT_EQ(vocabulary.id("<unk>"), 6);
  EXPECT_EQ(vocabulary.id("<s>"), Vocabulary::unknown);
  EXPECT_EQ(vocabulary.token(4), "</s>");
  const TemporaryDirectory directory;
  vocabulary.write(directory / "v");
  EXPECT_EQ(Vocabulary::read(directory / "v"), vocabulary);
  EXPECT_EQ(read_file(directory / "v", 1000), specials + "\\</s>\n\\<pad>\n\\<unk>\na\n");
}

const std::vector<std::string> odd_tokens = {
    "",   " ",      "  a ", "\t",     "\n",     "\r",         "\r\n",         "\0"s,    "a\0b"s,
    "\\", "\\s",    "\\e",  "\uFEFF", "\u200D", "\u00A0",     "\u3000",       "\u2028", "\u0301",
    "한", "\u1112", "👍",    "\xFF",   "\xC3",   "\xA9",       "\xED\xA0\x80", "<pad>",  "\\<pad>",
    "<s", "\u0085", "#",    "\"",     "a,b",    "\U0010FFFF", "\x7F",         "<unk>",  "\\u{61}",
};

TEST(Vocabulary, AnyTokenSurvivesARoundTrip) {
  const Vocabulary vocabulary = Vocabulary::from_tokens(odd_tokens);
  const TemporaryDirectory directory;
  vocabulary.write(directory / "v");
  EXPECT_EQ(Vocabulary::read(directory / "v"), vocabulary);
  EXPECT_EQ(read_lines(directory / "v").size(), static_cast<size_t>(vocabulary.size()));
  for (const auto& token : odd_tokens) EXPECT_EQ(unescape_token(escape_token(token)), token);
}

TEST(Vocabulary, AFileThatWentThroughAnEditorIsTheSame) {
  const TemporaryDirectory directory;
  const std::string end = "\r\n";
  const std::string path = directory.file(
      "v", "\uFEFF<pad>" + end + "<s>" + end + "</s>" + end + "<unk>" + end + "\\s" + end + "한");
  EXPECT_EQ(Vocabulary::read(path), Vocabulary::from_tokens({" ", "한"}));
}

TEST(EscapeToken, StaysReadable) {
  EXPECT_EQ(escape_token("한"), "한");
  EXPECT_EQ(escape_token("a b\t\\\r\n"), "a\\sb\\t\\\\\\r\\n");
  EXPECT_EQ(escape_token(""), "\\e");
  EXPECT_EQ(escape_token("\0\uFEFF\xFF\u00A0"s), "\\u{0000}\\u{FEFF}\\xFF\\u{00A0}");
  EXPECT_EQ(escape_token("<s>"), "\\<s>");
  EXPECT_EQ(escape_token("<b>"), "<b>");
  EXPECT_EQ(unescape_token("\\u{1F44D}\\xff\\<b>"), "👍\xFF<b>");
}

TEST(EscapeToken, RefusesUnknownEscapes) {
  for (const auto* line : {"\\", "a\\q", "\\x", "\\xF", "\\xFG", "\\x-1", "\\u", "\\u{", "\\u{}", "\\u{D800}",
                           "\\u{110000}", "\\u{-1}", "\\u{12345678901}", "\\uFEFF", ""}) {
    EXPECT_NE(error_of([&] { unescape_token(line); }), "") << line;
  }
  EXPECT_EQ(
      error_of([] { unescape_token("a\\q"); }),
      "unknown escape at \"\\\\q\"; known are \\s \\t \\n \\r \\\\ \\e \\< \\u{...} \\x.. (write \\\\ for a "
      "backslash)");
}

TEST(Vocabulary, RefusesATokenThatOccursTwice) {  // fairseq#1309, gluon-nlp PR#749
  const TemporaryDirectory directory;
  const std::string path = directory.file("v", specials + "a\nb\na\n");
  EXPECT_EQ(error_of([&] { Vocabulary::read(path); }),
            "\"" + path + "\", line 7: the token \"a\" occurs twice, on line 5 and on line 7; remove one");
  directory.file("v", specials + "a\n<pad>\n");
  EXPECT_EQ(error_of([&] { Vocabulary::read(path); }),
            "\"" + path +
                "\", line 6: the token \"<pad>\" occurs twice, on line 1 and on line 6; remove one, or "
                "write \\ before an ordinary token that is spelled so");
  directory.file("v", specials + "<unk>\n");
  EXPECT_TRUE(error_of([&] { Vocabulary::read(path); }).find("on line 4 and on line 5") != std::string::npos);
  directory.file("v", specials + "\\s\n \n");  // the same token, spelled in two ways
  EXPECT_TRUE(error_of([&] { Vocabulary::read(path); }).find("on line 5 and on line 6") != std::string::npos);
  EXPECT_EQ(error_of([] {
              Vocabulary::from_tokens({"a", "b", "a"});
            }),
            "the token \"a\" occurs twice in the vocabulary, as token 1 and as token 3; remove one");
}

TEST(Vocabulary, RefusesFilesThatAreNone) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("v", "<pad>\n<s>\na\n");
  EXPECT_EQ(error_of([&] { Vocabulary::read(path); }),
            "\"" + path +
                "\" is not a vocabulary: line 3 must be </s>, found \"a\"; the first lines are <pad>, <s>, "
                "</s>, <unk>");
  directory.file("v", "<pad>\n");
  EXPECT_EQ(error_of([&] { Vocabulary::read(path); }),
            "\"" + path +
                "\" is not a vocabulary: line 2 must be <s>, found the end of the file; the first lines "
                "are <pad>, <s>, </s>, <unk>");
  directory.file("v", specials + "a\n\nb\n");
  EXPECT_EQ(error_of([&] { Vocabulary::read(path); }),
            "\"" + path + "\", line 6: empty line; write \\e for the empty token");
  EXPECT_NE(error_of([] { Vocabulary::read("/dev/zero"); }), "");
  EXPECT_NE(error_of([&] { Vocabulary::read(directory / "none"); }), "");
}

}  // namespace
}  // namespace transduce
