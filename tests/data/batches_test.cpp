#include "transduce/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/base/temporary_directory.h"
#include "transduce/base/random.h"

namespace transduce {
namespace {

using testing::error_of;
using Indices = std::vector<std::vector<int64_t>>;

// The batches of an epoch, with indices as the other functions have them.
Indices shuffled(const std::vector<Example>& examples, const BatchOptions& options, uint64_t epoch) {
  const Batches batches = make_batches(lengths_of(examples), options, epoch);
  Indices indices;
  for (int64_t i = 0; i < batches.size(); ++i) indices.emplace_back(batches[i].begin(), batches[i].end());
  return indices;
}

// Examples of 0 to 39 ids a side; one target has 500.
std::vector<Example> made_up(size_t count) {
  Random random({9, 0});
  std::vector<Example> examples(count);
  for (auto& example : examples) {
    example.source.resize(random.below(40));
    example.target.resize(random.below(40));
  }
  examples[count / 2].target.resize(500);
  return examples;
}

void expect_each_once(const Indices& batches, size_t count) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) {
    EXPECT_FALSE(batch.empty());
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(Batches, CoverEveryExampleOnceWithinTheBounds) {
  const auto examples = made_up(5000);
  for (const BatchOptions& options :
       {BatchOptions{7, 0, 1}, BatchOptions{0, 300, 1}, BatchOptions{7, 120, 1}, BatchOptions{0, 1, 1},
        BatchOptions{100000, 0, 1}, BatchOptions{0, 1 << 30, 1}}) {
    for (const auto& batches : {shuffled(examples, options, 0), shuffled(examples, options, 1),
                                make_batches_in_order(examples, options)}) {
      expect_each_once(batches, examples.size());
      for (const auto& batch : batches) {
        if (options.batch_size > 0) {
          EXPECT_LE(static_cast<int64_t>(batch.size()), options.batch_size);
        }
        if (options.batch_tokens > 0 && batch.size() > 1) {
          EXPECT_LE(tokens_of(examples, batch), options.batch_tokens);
        }
      }
    }
  }
}

TEST(Batches, CountTheLargerSideWithEndSymbols) {
  const std::vector<Example> examples = {{{5, 6, 7}, {5}}, {{5}, {5, 6, 7, 8}}, {{}, {}}};
  EXPECT_EQ(tokens_of(examples, {0}), 4);
  EXPECT_EQ(tokens_of(examples, {0, 1}), 7);  // source 4 + 2, target 2 + 5
  EXPECT_EQ(tokens_of(examples, {0, 1, 2}), 8);
  EXPECT_EQ(make_batches_in_order(examples, {0, 7, 0}), (Indices{{1, 0}, {2}}));
  EXPECT_EQ(make_batches_in_order(examples, {0, 8, 0}), (Indices{{1, 0, 2}}));
}

TEST(Batches, AreFull) {
  const auto examples = made_up(5000);
  EXPECT_EQ(shuffled(examples, {10, 0, 1}, 0).size(), 500u);
  int64_t tokens = 0;
  const auto batches = shuffled(examples, {0, 1000, 1}, 0);
  for (const auto& batch : batches) tokens += tokens_of(examples, batch);
  EXPECT_GT(static_cast<double>(tokens) / static_cast<double>(batches.size()), 900);
}

TEST(Batches, HoldSimilarLengths) {
  const auto examples = made_up(20000);
  const auto spread = [&](const std::vector<int64_t>& batch) {
    const auto [low, high] = std::minmax_element(batch.begin(), batch.end(), [&](int64_t a, int64_t b) {
      return examples[static_cast<size_t>(a)].target.size() < examples[static_cast<size_t>(b)].target.size();
    });
    return examples[static_cast<size_t>(*high)].target.size() -
           examples[static_cast<size_t>(*low)].target.size();
  };
  for (const BatchOptions& options : {BatchOptions{32, 0, 1}, BatchOptions{0, 500, 1}}) {
    const auto batches = shuffled(examples, options, 0);
    size_t sum = 0;
    for (const auto& batch : batches) sum += spread(batch);
    EXPECT_LT(static_cast<double>(sum) / static_cast<double>(batches.size()), 4.0);
  }
}

TEST(Batches, DependOnSeedAndEpochOnly) {
  const auto examples = made_up(2000);
  const BatchOptions options{0, 300, 1};
  const auto batches = shuffled(examples, options, 3);
  EXPECT_EQ(batches, shuffled(examples, options, 3));
  EXPECT_NE(batches, shuffled(examples, options, 4));
  EXPECT_NE(batches, shuffled(examples, {0, 300, 2}, 3));
  EXPECT_EQ(make_batches_in_order(examples, options), make_batches_in_order(examples, {0, 300, 2}));
  // Which examples share a batch changes from epoch to epoch, not the order of the batches only.
  auto one = batches, other = shuffled(examples, options, 4);
  for (auto* some : {&one, &other}) {
    for (auto& batch : *some) std::sort(batch.begin(), batch.end());
    std::sort(some->begin(), some->end());
  }
  EXPECT_NE(one, other);
}

TEST(Batches, AreInRandomOrder) {
  const auto examples = made_up(5000);
  const auto batches = shuffled(examples, {10, 0, 1}, 0);
  int longer = 0;
  for (size_t i = 1; i < batches.size(); ++i) {
    longer += tokens_of(examples, batches[i]) > tokens_of(examples, batches[i - 1]);
  }
  EXPECT_NEAR(longer, 250, 60);
}

TEST(Batches, InOrderBeginWithTheLongest) {
  const auto examples = made_up(100);
  const auto batches = make_batches_in_order(examples, {1, 0, 0});
  EXPECT_EQ(batches[0], std::vector<int64_t>{50});
  for (size_t i = 1; i < batches.size(); ++i) {
    EXPECT_LE(tokens_of(examples, batches[i]), tokens_of(examples, batches[i - 1]));
  }
}

TEST(Batches, OfNothingAreNone) {
  EXPECT_TRUE(shuffled({}, {0, 10, 1}, 0).empty());
  EXPECT_TRUE(make_batches_in_order({}, {10, 0, 1}).empty());
}

TEST(Batches, NeedABound) {
  EXPECT_EQ(error_of([] { shuffled({}, {}, 0); }),
            "a batch has no bound: give a batch size in sentences or in tokens");
  EXPECT_EQ(error_of([] {
              shuffled({}, {-1, 0, 0}, 0);
            }),
            "a batch size of -1 sentences is negative; give 1 or more");
  EXPECT_EQ(error_of([] {
              make_batches_in_order({}, {0, -5, 0});
            }),
            "a batch size of -5 tokens is negative; give 1 or more");
}

}  // namespace
}  // namespace transduce
