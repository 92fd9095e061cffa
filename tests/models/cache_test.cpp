// Decoding token by token with a cache against decoding the whole prefix anew.

#include <gtest/gtest.h>

#include "tests/check.h"
#include "tests/models/made_up_models.h"

namespace transduce {
namespace {

using checks::expect_close;
using checks::values_of;
using model_tests::kRounding;
using model_tests::made_model;
using model_tests::made_sequences;
using model_tests::Sequences;
using model_tests::Variant;

// Slots of a cache beside the prefixes they stand for.
class Decoding {
 public:
  Decoding(const Transformer& model, const Sequences& sources, const std::vector<int32_t>& sentence)
      : model_(model), cache_(model.start()) {
    add(sources);
    reorder(sentence);
  }

  // New sentences, a slot for each.
  void add(const Sequences& sources) {
    const Tokens source = pack(sources);
    model_.add(model_.encode(source), source.layout, cache_);
    for (const auto& ids : sources) {
      sentence_.push_back(static_cast<int32_t>(sources_.size()));
      sources_.push_back(ids);
      prefixes_.emplace_back();
    }
    EXPECT_EQ(cache_.slots(), static_cast<int64_t>(sentence_.size()));
  }

  // Feeds one token to each slot and compares.
  void step(const std::vector<int32_t>& ids) {
    const Tensor got = model_.step(ids, cache_).value();  // (slots, C)
    ASSERT_EQ(got.shape(), (Shape{static_cast<int64_t>(ids.size()), model_.config().width}));
    for (size_t s = 0; s < ids.size(); ++s) {
      prefixes_[s].push_back(ids[s]);
      const Tokens source = pack({sources_[static_cast<size_t>(sentence_[s])]});
      const Tensor anew = model_.forward(source, pack({prefixes_[s]})).value();  // (T, C)
      const auto row = static_cast<int64_t>(s);
      expect_close(values_of(got.rows(row, row + 1)), values_of(anew.rows(anew.dim(0) - 1, anew.dim(0))),
                   kRounding, fmt::format("slot {} after {} tokens", s, prefixes_[s].size()));
      EXPECT_EQ(cache_.length(row), static_cast<int64_t>(prefixes_[s].size()));
    }
  }

  void reorder(const std::vector<int32_t>& from) {
    cache_.reorder(from);
    std::vector<int32_t> sentence;
    Sequences prefixes;
    for (const int32_t slot : from) {
      sentence.push_back(sentence_[static_cast<size_t>(slot)]);
      prefixes.push_back(prefixes_[static_cast<size_t>(slot)]);
    }
    sentence_ = sentence;
    prefixes_ = prefixes;
    EXPECT_EQ(cache_.slots(), static_cast<int64_t>(from.size()));
  }

  DecoderCache& cache() { return cache_; }

 private:
  const Transformer& model_;
  Sequences sources_;
  std::vector<int32_t> sentence_;
  Sequences prefixes_;
  DecoderCache cache_;
};

class CachedDecoding : public ::testing::TestWithParam<Variant> {
 protected:
  Transformer model_ = made_model(model_tests::config_of(GetParam()), 1);
  Sequences sources_ = made_sequences({5, 1, 8}, model_.config().source_vocabulary, 2);
};

INSTANTIATE_TEST_SUITE_P(Variants, CachedDecoding, ::testing::ValuesIn(model_tests::variants()),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(CachedDecoding, EqualsTheWholePrefixAtEveryStep) {
  Decoding decoding(model_, sources_, {0, 1, 2, 2});
  for (int32_t t = 0; t < 10; ++t) decoding.step({t % 9, (t * 2 + 1) % 9, (t * 5) % 9, (t * 7 + 3) % 9});
}

TEST_P(CachedDecoding, GrowsBeyondItsFirstRoom) {
  Decoding decoding(model_, sources_, {2, 0, 1, 2, 0, 1, 2, 0});
  for (int32_t t = 0; t < 9; ++t) {
    decoding.step({t % 9, (t * 4 + 2) % 9, 3, t / 2, 8 - t, (t * 5) % 9, 0, 1});  // 72 tokens
  }
  decoding.reorder({0});
  for (int32_t t = 0; t < 4; ++t) decoding.step({t});  // and shrinks
}

TEST_P(CachedDecoding, FollowsSlotsThatMoveLeaveAndComeBack) {
  Decoding decoding(model_, sources_, {0, 0, 1, 1, 2, 2});
  decoding.step({1, 2, 3, 4, 5, 6});
  decoding.reorder({1, 1, 2, 3, 5, 4});  // one copied over another, two swapped
  decoding.step({3, 4, 5, 6, 7, 8});
  decoding.reorder({0, 1, 2, 3, 4, 5});  // nobody moves
  decoding.step({8, 7, 6, 5, 4, 3});
  decoding.reorder({1, 2, 4});  // three leave
  decoding.step({2, 4, 6});
  decoding.step({1, 3, 5});
  decoding.reorder({0, 0, 1, 1, 2, 2});  // back to six
  decoding.step({1, 2, 3, 4, 5, 6});
  decoding.reorder({5, 0});
  for (int32_t t = 0; t < 6; ++t) decoding.step({t, t + 1});
}

TEST_P(CachedDecoding, TakesInNewSentencesWhileOthersGoOn) {
  Decoding decoding(model_, sources_, {0, 0, 2});
  decoding.step({1, 2, 3});
  decoding.add({{4, 5, 6, 7}, {1}});
  decoding.step({4, 5, 6, 7, 8});
  decoding.reorder({4, 1, 4, 3});  // the third sentence is done
  decoding.step({2, 3, 4, 5});
  decoding.add({{3, 3}});
  for (int32_t t = 0; t < 8; ++t) decoding.step({t % 9, 1, 2, (t * 4 + 2) % 9, 3});
  decoding.reorder({});
  decoding.add({{5}, {6, 7}});
  decoding.step({1, 2});
}

TEST_P(CachedDecoding, LeavesTheEncoderOutputAloneAndRecordsNothing) {
  Tape tape;
  const NoGradient inference;
  const Tokens source = pack(sources_);
  const Var encoded = model_.encode(source);
  const std::vector<float> before = encoded.value().to_vector<float>();
  DecoderCache cache = model_.start();
  model_.add(encoded, source.layout, cache);
  EXPECT_FALSE(model_.step({1, 2, 3}, cache).needs_gradient());
  EXPECT_EQ(encoded.value().to_vector<float>(), before);
}

TEST(DecoderCacheTest, RefusesWhatDoesNotFit) {
  const Transformer model = made_model(model_tests::small_config(), 1);
  Decoding decoding(model, {{1, 2}}, {0, 0});
  EXPECT_THROW(model.step({1}, decoding.cache()), InputError);
  EXPECT_THROW(decoding.cache().reorder({0, 2}), InputError);
  EXPECT_THROW(model.step({1, 9}, decoding.cache()), InputError) << "not in the vocabulary";
}

}  // namespace
}  // namespace transduce
