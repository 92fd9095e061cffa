#include "transduce/data/corpus_index.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/base/temporary_directory.h"
#include "tests/data/odd_texts.h"
#include "transduce/base/file.h"
#include "transduce/base/random.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::TemporaryDirectory;

// Pairs of random length, some empty, among them the texts that have gone wrong for somebody.
std::vector<TextPair> made_up(size_t count) {
  const std::vector<std::string> odd = testing::odd_texts();
  std::vector<TextPair> pairs(count);
  Random random({4, 0});
  for (size_t i = 0; i < count; ++i) {
    for (std::string* side : {&pairs[i].source, &pairs[i].target}) {
      if (i % 997 == 5) *side = odd[i % odd.size()];
      for (auto k = random.below(9); k > 0; --k) *side += static_cast<char>('a' + random.below(20));
    }
  }
  return pairs;
}

PairSource source_of(const std::vector<TextPair>& pairs) {
  return [&pairs, next = size_t{0}](TextPair& pair) mutable {
    if (next == pairs.size()) return false;
    pair = pairs[next++];
    return true;
  };
}

class Indices : public ::testing::Test {
 protected:
  IndexSettings settings(const std::vector<TextPair>& pairs, LengthLimit limit = {},
                         bool as_text = false) const {
    return {train_tokenizer({TokenizerKind::character, NormalForm::none, ""}, sources_of(pairs)),
            train_tokenizer({TokenizerKind::character, NormalForm::none, ""}, targets_of(pairs)), limit,
            as_text};
  }

  std::string write(const std::vector<TextPair>& pairs, const IndexSettings& how) const {
    std::string bytes;
    write_index(source_of(pairs), how, 77, [&](std::string_view some) { bytes += some; });
    return bytes;
  }

  CorpusIndex open(const std::string& bytes) const { return CorpusIndex(place_.file("index", bytes)); }

  TemporaryDirectory place_;
};

// More than two blocks, and more than two parts that are encoded at a time.
TEST_F(Indices, HoldWhatEncodingInMemoryGives) {
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{140000}}) {
    std::vector<TextPair> pairs = made_up(count);
    const IndexSettings how = settings(pairs, {7, count == 1000});
    const std::string bytes = write(pairs, how);
    std::vector<Example> examples = encode_pairs(pairs, *how.source, *how.target);
    const LengthReport report = limit_lengths(how.limit, examples, &pairs);
    const CorpusIndex index(place_.file("index", bytes));
    ASSERT_EQ(index.size(), std::ssize(examples));
    EXPECT_EQ(index.fingerprint(), fingerprint(examples));
    EXPECT_EQ(index.lengths(), lengths_of(examples));
    for (int64_t i = 0; i < index.size(); ++i) {
      ASSERT_EQ(index.example(i), examples[static_cast<size_t>(i)]) << i;
    }
    EXPECT_EQ(index.report().pairs, report.pairs);
    EXPECT_EQ(index.report().over, report.over);
    EXPECT_EQ(index.report().longest, report.longest);
    EXPECT_EQ(index.report().longest_pair, report.longest_pair);
    EXPECT_EQ(index.summary().inputs, 77U);
    EXPECT_EQ(index.summary().settings, how.fingerprint());
    EXPECT_EQ(index_examples(examples, place_.path())->fingerprint(), index.fingerprint());
  }
}

TEST_F(Indices, OfTextsHoldTheTexts) {
  std::vector<TextPair> pairs = made_up(3000);
  const IndexSettings how = settings(pairs, {7, false}, true);
  const CorpusIndex index(place_.file("index", write(pairs, how)));
  std::vector<Example> examples = encode_pairs(pairs, *how.source, *how.target);
  limit_lengths(how.limit, examples, &pairs);
  ASSERT_TRUE(index.holds_text());
  ASSERT_EQ(index.size(), std::ssize(pairs));
  for (int64_t i = 0; i < index.size(); ++i) ASSERT_EQ(index.text(i), pairs[static_cast<size_t>(i)]);
}

TEST_F(Indices, SettingsAreToldApart) {
  const std::vector<TextPair> pairs = made_up(100), others = made_up(900);
  const uint64_t fingerprint = settings(pairs).fingerprint();
  EXPECT_EQ(settings(pairs).fingerprint(), fingerprint);
  EXPECT_NE(settings(others).fingerprint(), fingerprint);
  EXPECT_NE(settings(pairs, {7, false}).fingerprint(), fingerprint);
  EXPECT_NE(settings(pairs, {7, true}).fingerprint(), settings(pairs, {7, false}).fingerprint());
  EXPECT_NE(settings(pairs, {}, true).fingerprint(), fingerprint);
  IndexSettings swapped = settings(pairs);
  std::swap(swapped.source, swapped.target);
  EXPECT_NE(swapped.fingerprint(), fingerprint);
}

// Every byte that is changed and every length that is cut is seen; nothing is read outside (under ASan too).
TEST_F(Indices, DamageIsSeenBeforeUse) {
  const std::vector<TextPair> pairs = made_up(9);
  for (const bool as_text : {false, true}) {
    const std::string bytes = write(pairs, settings(pairs, {}, as_text));
    const IndexSummary whole = open(bytes).summary();
    // But for the fingerprints and the report, which are compared with others or shown.
    const size_t summary = bytes.size() - 8 - sizeof(IndexSummary);
    const auto matters = [&](size_t at) {
      return at < summary || at >= summary + offsetof(IndexSummary, content) ||
             at / 8 == (summary + offsetof(IndexSummary, pairs)) / 8;
    };
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (const char bits : {'\x01', '\xC0'}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ bits);
        const std::string error = error_of([&] {
          const CorpusIndex index = open(damaged);
          for (int64_t i = 0; i < index.size(); ++i) as_text ? (void)index.text(i) : (void)index.example(i);
        });
        EXPECT_TRUE(!matters(at) || !error.empty()) << at;
      }
    }
    for (size_t length = 0; length < bytes.size(); length += 7) {
      EXPECT_NE(error_of([&] { open(bytes.substr(0, length)); }), "") << length;
    }
    EXPECT_NE(error_of([&] { open(bytes + bytes); }), "");
    EXPECT_NE(error_of([&] { open(std::string(5000, '\0')); }).find("no index"), std::string::npos);
  }
}

TEST_F(Indices, IdsOutsideTheVocabularyAreRefused) {
  std::string bytes;
  IndexWriter writer([&](std::string_view some) { bytes += some; }, 4);
  writer.add(Example{{4, 9}, {5}});
  IndexSummary summary;
  summary.source_vocabulary = 9;
  summary.target_vocabulary = 9;
  writer.finish(summary);
  EXPECT_NE(error_of([&] { open(bytes); }).find("the id 9 of 9"), std::string::npos);
}

TEST_F(Indices, AnErrorOfTheTextEndsTheWriting) {
  const std::vector<TextPair> pairs = made_up(10);
  const PairSource broken = [](TextPair&) -> bool { fail_input("line 3 is bad"); };
  EXPECT_EQ(error_of([&] { write_index(broken, settings(pairs), 0, [](std::string_view) {}); }),
            "line 3 is bad");
}

}  // namespace
}  // namespace transduce
