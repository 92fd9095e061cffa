#include "transduce/data/pair_inputs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::TemporaryDirectory;

std::vector<TextPair> all(PairReader reader) {
  std::vector<TextPair> pairs;
  for (TextPair pair; reader.next(pair);) pairs.push_back(pair);
  return pairs;
}

TEST(PairInputs, AreReadAgainAndAgain) {
  const TemporaryDirectory place;
  const std::string pairs = place.file("pairs.tsv", "a\tb\n\tc\n");
  const PairInputs inputs({{pairs, pairs}, {}, {}}, place.path());
  const std::vector<TextPair> expected{{"a", "b"}, {"", "c"}, {"a", "b"}, {"", "c"}};
  EXPECT_EQ(all(inputs.reader()), expected);
  EXPECT_EQ(all(inputs.reader()), expected);
  EXPECT_EQ(inputs.bytes(), 14);
  PairReader reader = inputs.reader();
  for (TextPair pair; reader.next(pair);) {
  }
  EXPECT_EQ(reader.bytes_read(), inputs.bytes());
}

// A pipe gives its content once.
TEST(PairInputs, APipeToo) {
  const TemporaryDirectory place;
  const std::string pipe = place / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "a\tb\nc\td\nbad\n"; });
  const PairInputs inputs({{pipe}, {}, {}}, place.path());
  writer.join();
  for (int i = 0; i < 2; ++i) {
    PairReader reader = inputs.reader();
    TextPair pair;
    EXPECT_TRUE(reader.next(pair) && reader.next(pair));
    const std::string error = error_of([&] { reader.next(pair); });
    EXPECT_NE(error.find("pipe\", line 3"), std::string::npos) << error;  // by its own name
  }
  const std::string same = place.file("same", "a\tb\nc\td\nbad\n");
  EXPECT_EQ(inputs.fingerprint(), PairInputs({{same}, {}, {}}, place.path()).fingerprint());
}

// Whatever its time says, and its size.
TEST(PairInputs, AChangedFileIsNeverMissed) {
  const TemporaryDirectory place;
  const std::string a = place.file("a", "a\tb\n"), b = place.file("b", "c\td\n");
  const auto fingerprint = [&](const PairFiles& files) {
    return PairInputs(files, place.path()).fingerprint();
  };
  const uint64_t before = fingerprint({{a, b}, {}, {}});
  const auto time = std::filesystem::last_write_time(a);
  place.file("a", "a\tB\n");
  std::filesystem::last_write_time(a, time);
  EXPECT_NE(fingerprint({{a, b}, {}, {}}), before);
  place.file("a", "a\tb\n");
  EXPECT_EQ(fingerprint({{a, b}, {}, {}}), before);
  // What matters is the content: which files it is in, their order, and what they are.
  EXPECT_NE(fingerprint({{b, a}, {}, {}}), before);
  EXPECT_NE(fingerprint({{}, {a}, {b}}), before);
  EXPECT_NE(fingerprint({{place.file("c", "a\tb\nc\td\n")}, {}, {}}), before);
  std::filesystem::rename(a, place / "elsewhere");
  EXPECT_EQ(fingerprint({{place / "elsewhere", b}, {}, {}}), before);

  const PairInputs inputs({{b}, {}, {}}, place.path());
  inputs.check_unchanged();
  place.file("b", "c\tdd\n");
  EXPECT_NE(error_of<RunError>([&] { inputs.check_unchanged(); }).find("changed while"), std::string::npos);
}

}  // namespace
}  // namespace transduce
