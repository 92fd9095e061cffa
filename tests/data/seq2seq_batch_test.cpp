#include "transduce/data/seq2seq_batch.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using testing::error_of;
using Ids = std::vector<int32_t>;

TEST(Seq2SeqBatch, ShiftsTheTargetAndEndsBothSides) {
  const Seq2SeqBatch batch = make_seq2seq_batch({{{4, 5}, {6}}, {{7}, {}}}, {1, 0});
  EXPECT_EQ(batch.source.ids.to_vector<int32_t>(), (Ids{7, 2, 4, 5, 2}));
  EXPECT_EQ(batch.target.ids.to_vector<int32_t>(), (Ids{1, 1, 6}));
  EXPECT_EQ(batch.expected.to_vector<int32_t>(), (Ids{2, 6, 2}));
}

TEST(Seq2SeqBatch, LeavesTheSourceOpenWhereTheModelWantsIt) {
  const Seq2SeqBatch batch = make_seq2seq_batch({{{4, 5}, {6}}, {{7}, {}}}, {1, 0}, false);
  EXPECT_EQ(batch.source.ids.to_vector<int32_t>(), (Ids{7, 4, 5}));
  EXPECT_EQ(batch.source.layout.length, (Ids{1, 2}));
  EXPECT_EQ(batch.target.ids.to_vector<int32_t>(), (Ids{1, 1, 6}));
}

TEST(Seq2SeqBatch, AnEmptySourceNeedsItsEndSymbol) {
  EXPECT_EQ(make_source_batch({{}}).ids.to_vector<int32_t>(), Ids{2});
  EXPECT_EQ(
      error_of([] {
        make_source_batch({{4}, {}, {5}}, false);
      }),
      "source sentence 2 of 3 is empty, and this model's sources have no end symbol: there is nothing to "
      "translate");
}

TEST(MicroBatches, HoldEveryExampleOnceInOrder) {
  std::vector<Example> batch;
  Ids sources, expected;
  for (int32_t i = 0; i < 100; ++i) {
    batch.push_back(
        {Ids(static_cast<size_t>(i % 23), 100 + i), Ids(static_cast<size_t>(i % 17 + 1), 100 + i)});
  }
  const Seq2SeqBatch whole = make_seq2seq_batch(batch, [] {
    std::vector<int64_t> all(100);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    return all;
  }());
  const std::vector<Seq2SeqBatch> parts = make_micro_batches(batch);
  EXPECT_EQ(parts.size(), 8u);  // 1,140 source tokens: a power of two of parts, none above 256
  for (const Seq2SeqBatch& part : parts) {
    const Ids ids = part.source.ids.to_vector<int32_t>(), wanted = part.expected.to_vector<int32_t>();
    EXPECT_LT(ids.size(), 256u);
    sources.insert(sources.end(), ids.begin(), ids.end());
    expected.insert(expected.end(), wanted.begin(), wanted.end());
  }
  EXPECT_EQ(sources, whole.source.ids.to_vector<int32_t>());
  EXPECT_EQ(expected, whole.expected.to_vector<int32_t>());
}

TEST(MicroBatches, AreNeverEmpty) {
  EXPECT_EQ(make_micro_batches({{{4}, {5}}}).size(), 1u);
  EXPECT_EQ(make_micro_batches({{Ids(2000, 4), Ids(1, 5)}}).size(), 1u);
  EXPECT_EQ(make_micro_batches({{Ids(2000, 4), Ids(1, 5)}, {{6}, {7}}}).size(), 2u);
}

}  // namespace
}  // namespace transduce
