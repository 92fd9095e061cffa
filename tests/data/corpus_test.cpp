#include "transduce/data/corpus.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using testing::TemporaryDirectory;
using Pairs = std::vector<TextPair>;

TEST(ReadPairs, ReadsFilesInOrder) {
  const TemporaryDirectory directory;
  const std::string first = directory.file("a", "\uFEFFein Haus\ta house\n\teine\rZeile\0\n"s);
  const std::string second = directory.file("b", "\uFEFFletzte\t");
  EXPECT_EQ(read_pairs({first, second}),
            (Pairs{{"ein Haus", "a house"}, {"", "eine\rZeile\0"s}, {"letzte", ""}}));
}

TEST(ReadPairs, TwinsAreTheSame) {  // flores PR#9; ONMT PR#1318
  const TemporaryDirectory directory;
  std::string content, twin;
  for (int i = 0; i < 100000; ++i) {
    const std::string line = "source " + std::to_string(i) + "\ttarget\r" + std::to_string(i);
    content += line + "\n";
    twin += line + "\r\n";
  }
  const std::string plain = directory.file("plain", content), crlf = directory.file("crlf", twin);
  const gzFile out = gzopen((directory / "packed.gz").c_str(), "wb");
  gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
  gzclose(out);
  const Pairs pairs = read_pairs({plain});
  ASSERT_EQ(pairs.size(), 100000u);
  EXPECT_EQ(pairs.back(), (TextPair{"source 99999", "target\r99999"}));
  EXPECT_TRUE(read_pairs({crlf}) == pairs);
  EXPECT_TRUE(read_pairs({directory / "packed.gz"}) == pairs);
}

TEST(ReadPairs, NamesTheLineThatIsNoPair) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", "a\tb\nno tab\n");
  EXPECT_EQ(error_of([&] { read_pairs({path}); }),
            "\"" + path +
                "\", line 2: expected source<TAB>target with one tab, found none in \"no tab\"; correct or "
                "remove the line");
  directory.file("a", "a\tb\tc\n");
  EXPECT_EQ(error_of([&] { read_pairs({path}); }),
            "\"" + path +
                "\", line 1: expected source<TAB>target with one tab, found 2 in \"a\\tb\\tc\"; correct or "
                "remove the line");
  directory.file("a", "a\tb\n\n");
  EXPECT_NE(error_of([&] { read_pairs({path}); }), "");
}

TEST(ReadPairs, RefusesAnEmptySet) {
  const TemporaryDirectory directory;
  const std::string a = directory.file("a", ""), b = directory.file("b", "\uFEFF");
  EXPECT_EQ(error_of([&] {
              read_pairs({a, b});
            }),
            "no sentence pair in \"" + a + "\", \"" + b + "\"; give files with lines source<TAB>target");
  EXPECT_NE(error_of([] { read_pairs({}); }), "");
  EXPECT_EQ(read_pairs({a, directory.file("c", "x\ty")}).size(), 1u);
}

TEST(ReadParallel, PairsLineWithLine) {
  const TemporaryDirectory directory;
  const auto pairs = read_parallel({directory.file("a.de", "ein\tHaus\n\n"), directory.file("b.de", "x\r\n")},
                                   {directory.file("a.en", "a\thouse\nempty"), directory.file("b.en", "y")});
  EXPECT_EQ(pairs, (Pairs{{"ein\tHaus", "a\thouse"}, {"", "empty"}, {"x", "y"}}));
}

TEST(ReadParallel, RefusesUnequalCounts) {  // modernmt#245, sockeye PR#119
  const TemporaryDirectory directory;
  const std::string three = directory.file("3", "a\nb\nc"), five = directory.file("5", "a\nb\nc\nd\ne\n");
  EXPECT_EQ(error_of([&] { read_parallel({three}, {five}); }),
            "\"" + three + "\" has 3 lines but \"" + five +
                "\" has 5; line i of one must belong to line i of the "
                "other");
  EXPECT_EQ(error_of([&] { read_parallel({five}, {three}); }),
            error_of([&] { read_parallel({three}, {five}); }));                   // the shorter one first
  EXPECT_NE(error_of([&] { read_parallel({five, three}, {three, five}); }), "");  // equal in sum only
  EXPECT_EQ(error_of([&] {
              read_parallel({five, three}, {five});
            }),
            "2 files on one side but 1 on the other: each file needs the one that belongs to it");
}

TEST(ReadParallel, RefusesAnEmptySet) {
  const TemporaryDirectory directory;
  const std::string empty = directory.file("a", "");
  EXPECT_EQ(
      error_of([&] { read_parallel({empty}, {empty}); }),
      "no sentence pair in \"" + empty + "\" and \"" + empty + "\"; give files with one sentence a line");
  EXPECT_NE(error_of([] { read_parallel({}, {}); }), "");
}

TEST(EncodePairs, KeepsTheOrder) {
  Pairs pairs;
  for (int i = 0; i < 5000; ++i) pairs.push_back({std::to_string(i), std::to_string(i * 2) + " x"});
  const auto source = train_tokenizer({TokenizerKind::character, NormalForm::none}, sources_of(pairs));
  const auto target = train_tokenizer({TokenizerKind::word, NormalForm::none}, targets_of(pairs));
  const auto examples = encode_pairs(pairs, *source, *target);
  ASSERT_EQ(examples.size(), pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(source->decode(examples[i].source), pairs[i].source);
    EXPECT_EQ(target->decode(examples[i].target), pairs[i].target);
  }
}

}  // namespace
}  // namespace transduce
