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

}  // namespace
}  // namespace transduce
