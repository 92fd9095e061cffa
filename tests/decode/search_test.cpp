// Search against a plain one, and the rules that hold for every search.

#include "transduce/decode/search.h"

#include <gtest/gtest.h>

#include "tests/decode/plain_search.h"

namespace transduce {
namespace {

using namespace decode_tests;

Results search(const Transformer& model, const Sequences& sources, const SearchOptions& options) {
  return search_all(model, sources, options);
}

std::vector<int32_t> plain_greedy(const Transformer& model, const Tokens& source, size_t max_length) {
  std::vector<int32_t> tokens;
  while (tokens.size() < max_length) {
    std::vector<double> row = next_token({&model}, source, tokens);
    row[Vocabulary::pad] = row[Vocabulary::start] = kBanned;
    const auto best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    if (best == Vocabulary::end) break;
    tokens.push_back(best);
  }
  return tokens;
}

// ---- against them -------------------------------------------------------------------------------------

TEST(SearchTest, BeamOfOneEqualsGreedySearch) {
  size_t different = 0;
  for (const uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    const Transformer model = talkative_model(seed, seed % 2 == 0 ? NormPlacement::post : NormPlacement::pre);
    const Sequences sources = made_sources(12, seed);
    SearchOptions options;
    options.max_length = 15;
    const Results got = search(model, sources, options);
    for (size_t b = 0; b < sources.size(); ++b) {
      ASSERT_EQ(got[b].size(), 1u);
      EXPECT_EQ(got[b][0].tokens, plain_greedy(model, make_source_batch({sources[b]}), 15))
          << "seed " << seed << ", sentence " << b;
      std::vector<int32_t> kinds = got[b][0].tokens;
      std::sort(kinds.begin(), kinds.end());
      different += static_cast<size_t>(std::unique(kinds.begin(), kinds.end()) - kinds.begin());
    }
  }
  EXPECT_GT(different, 5u * 12 * 2) << "the models say too little for this test to mean anything";
}

TEST(SearchTest, CachedBeamEqualsFullRecomputationOnEveryEntry) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const Transformer model = talkative_model(seed);
    const Sequences sources = made_sources(6, seed);
    for (const int64_t beam : {2, 4, 5}) {
      SearchOptions options;
      options.beam = options.n_best = beam;
      options.max_length = 10;
      options.ranking.length_penalty = seed == 1 ? 0.0 : 0.6;
      const Results got = search(model, sources, options);
      for (size_t b = 0; b < sources.size(); ++b) {
        expect_same(got[b], plain_beam({&model}, sources[b], options),
                    fmt::format("seed {}, beam {}, sentence {}", seed, beam, b));
      }
    }
  }
}

TEST(SearchTest, ASentenceDoesNotDependOnItsBatch) {
  const Transformer model = talkative_model(1);
  const Sequences sources = made_sources(64, 3);
  SearchOptions options;
  options.beam = options.n_best = 3;
  options.max_length = 20;
  Results alone;
  for (const auto& source : sources) alone.push_back(search(model, {source}, options)[0]);
  const auto expect_batches = [&](size_t size, size_t stride) {
    for (size_t begin = 0; begin < 64; begin += size) {
      Sequences some;
      const size_t count = std::min(size, 64 - begin);
      for (size_t i = 0; i < count; ++i) some.push_back(sources[(begin + i) * stride % 64]);
      const Results got = search(model, some, options);
      ASSERT_EQ(got.size(), count);
      for (size_t i = 0; i < count; ++i) {
        expect_same(got[i], alone[(begin + i) * stride % 64],
                    fmt::format("batches of {}, order {}", size, stride));
      }
    }
  };
  expect_batches(7, 1);
  expect_batches(64, 1);
  expect_batches(64, 27);  // shuffled: 27 is coprime to 64
}

// The score of an output under teacher forcing is the score that the search gave.
TEST(SearchTest, ScoresAreThoseOfTheModel) {
  const Transformer model = talkative_model(2);
  const Sequences sources = made_sources(8, 4);
  SearchOptions options;
  options.beam = options.n_best = 4;
  options.max_length = 12;
  const Results results = search(model, sources, options);
  for (size_t b = 0; b < sources.size(); ++b) {
    for (const Hypothesis& hypothesis : results[b]) {
      const Seq2SeqBatch batch = make_seq2seq_batch({{sources[b], hypothesis.tokens}}, {0});
      const auto loss = model.loss(model.forward(batch.source, batch.target), batch.expected, 0.1);
      checks::expect_close(hypothesis.token_log_probability, checks::values_of(loss.likelihood), 1e-5,
                           "likelihood");
    }
  }
}

// ---- rules --------------------------------------------------------------------------------------------

TEST(SearchTest, PadAndStartAreNeverGenerated) {
  const Transformer model = talkative_model(1);
  output_bias(model)[Vocabulary::pad] = output_bias(model)[Vocabulary::start] = 30.0f;
  const Sequences sources = made_sources(10, 5);
  for (const int64_t beam : {1, 5}) {
    SearchOptions options;
    options.beam = options.n_best = beam;
    options.max_length = 8;
    size_t tokens = 0;
    for (const auto& hypotheses : search(model, sources, options)) {
      for (const Hypothesis& hypothesis : hypotheses) {
        tokens += hypothesis.tokens.size();
        for (const int32_t token : hypothesis.tokens) EXPECT_GT(token, Vocabulary::end);
      }
    }
    EXPECT_GT(tokens, 10u) << "empty outputs would pass too";
  }
}

TEST(SearchTest, AskingForFiveBestDoesNotChangeTheBest) {
  const Transformer model = talkative_model(3);
  const Sequences sources = made_sources(10, 6);
  SearchOptions options;
  options.beam = 5;
  options.max_length = 12;
  const Results one = search(model, sources, options);
  options.n_best = 5;
  const Results five = search(model, sources, options);
  for (size_t b = 0; b < sources.size(); ++b) {
    ASSERT_EQ(one[b].size(), 1u);
    EXPECT_EQ(five[b][0].tokens, one[b][0].tokens);
    EXPECT_EQ(five[b][0].score, one[b][0].score);
    for (size_t i = 1; i < five[b].size(); ++i) {
      EXPECT_LE(five[b][i].score, five[b][i - 1].score) << "best first";
      EXPECT_NE(five[b][i].tokens, five[b][i - 1].tokens);
    }
  }
}

TEST(SearchTest, ABeamAboveTheVocabularyIsClamped) {
  const Transformer model = talkative_model(1);
  const Sequences sources = made_sources(3, 7);
  SearchOptions options;
  options.max_length = 4;
  options.beam = options.n_best = 1000;
  const Results got = search(model, sources, options);
  options.beam = options.n_best = 12;
  for (size_t b = 0; b < sources.size(); ++b) {
    EXPECT_FALSE(got[b].empty());
    EXPECT_LE(got[b].size(), 12u);
    expect_same(got[b], plain_beam({&model}, sources[b], options), "beam 12 of 12");
  }
}

// Rows of the output layer that no token belongs to (a matrix padded to a round size).
TEST(SearchTest, RowsAboveTheVocabularyAreNeverGenerated) {
  const Transformer model = talkative_model(1);
  for (int32_t row = 9; row < 12; ++row) output_bias(model)[row] = 30.0f;
  const Sequences sources = made_sources(10, 5);
  SearchOptions options;
  options.vocabulary = 9;
  options.beam = options.n_best = 3;
  options.max_length = 8;
  for (const auto& hypotheses : search(model, sources, options)) {
    for (const Hypothesis& hypothesis : hypotheses) {
      for (const int32_t token : hypothesis.tokens) EXPECT_LT(token, 9);
    }
  }
}

TEST(SearchTest, VocabulariesWithNothingToSay) {
  TransformerConfig c = model_tests::small_config();
  c.target_vocabulary = Vocabulary::end + 1;  // pad, start and end alone: only the end can be said
  SearchOptions options;
  options.beam = 4;
  const Results got = search(model_tests::made_model(c, 1), {{4, 5}, {6}}, options);
  for (const auto& hypotheses : got) {
    ASSERT_EQ(hypotheses.size(), 1u);
    EXPECT_TRUE(hypotheses[0].tokens.empty());
  }
  c.target_vocabulary = Vocabulary::end;  // no end symbol
  EXPECT_THROW(search(model_tests::made_model(c, 1), {{4, 5}}, options), InputError);
}

TEST(SearchTest, AHypothesisAtTheLengthLimitIsEnded) {
  const Transformer model = talkative_model(1);
  output_bias(model)[Vocabulary::end] = -60.0f;  // would never end
  const Sequences sources{{4, 5, 6}, {7}};
  SearchOptions options;
  for (const int64_t beam : {1, 3}) {
    options.beam = options.n_best = beam;
    options.max_length = 6;
    for (const auto& hypotheses : search(model, sources, options)) {
      ASSERT_EQ(hypotheses.size(), static_cast<size_t>(beam));
      for (const Hypothesis& hypothesis : hypotheses) {
        EXPECT_EQ(hypothesis.tokens.size(), 6u);
        EXPECT_EQ(hypothesis.token_log_probability.size(), 7u) << "the end symbol's probability counts";
      }
    }
  }
  options.beam = options.n_best = 1;
  options.max_length = 0;  // 2 * source length + 50, the end symbol of the source included
  const Results open = search(model, sources, options);
  EXPECT_EQ(open[0][0].tokens.size(), 2u * 4 + 50);
  EXPECT_EQ(open[1][0].tokens.size(), 2u * 2 + 50);
}

TEST(SearchTest, LearnedPositionsLimitTheLength) {
  TransformerConfig c = model_tests::small_config();
  c.positions = PositionKind::learned;
  c.max_positions = 9;
  c.output_bias = true;
  const Transformer model = model_tests::made_model(c, 1);
  output_bias(model)[Vocabulary::end] = -60.0f;
  for (const int64_t max_length : {0, 5, 1000}) {
    SearchOptions options;
    options.max_length = max_length;
    EXPECT_EQ(search(model, {{4, 5, 6}}, options)[0][0].tokens.size(), max_length == 5 ? 5u : 8u);
  }
}

// Wu et al. 2016, equation 14, over the tokens that were generated: not the source, not the start symbol.
TEST(SearchTest, LengthPenaltyCountsGeneratedTokensOnly) {
  const Transformer model = talkative_model(2);
  const Sequences sources = made_sources(6, 8);
  for (const double penalty : {-0.5, 0.0, 0.6, 1.0, 2.0}) {
    SearchOptions options;
    options.beam = options.n_best = 4;
    options.max_length = 12;
    options.ranking.length_penalty = penalty;
    for (const auto& hypotheses : search(model, sources, options)) {
      for (const Hypothesis& hypothesis : hypotheses) {
        double sum = 0.0;
        for (const double step : hypothesis.token_log_probability) sum += step;
        const double length = static_cast<double>(hypothesis.tokens.size()) + 1;
        EXPECT_NEAR(hypothesis.log_probability, sum, 1e-9);
        EXPECT_NEAR(hypothesis.score, sum / std::pow((5 + length) / 6, penalty), 1e-9);
      }
    }
  }
}

TEST(SearchTest, DamagedParametersEndWithAnErrorNotACrash) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (const char* name :
       {"source_embedding.weight", "target_embedding.weight", "output.weight", "output.bias",
        "decoder.layers.0.cross_attention.key_value.bias", "encoder.norm.weight"}) {
    for (const float value : bad) {
      const Transformer model = talkative_model(1);
      const Tensor values = model.parameters().find(name)->variable.value();
      std::fill_n(values.data<float>(), values.size(), value);
      SearchOptions options;
      options.beam = 3;
      options.max_length = 5;
      EXPECT_THROW(search(model, {{4, 5}, {6}}, options), RunError) << name << " = " << value;
    }
  }
}

TEST(SearchTest, NoSentencesGiveNoResults) { EXPECT_TRUE(search(talkative_model(1), {}, {}).empty()); }

TEST(SearchTest, OptionsOutOfRangeAreRefusedWithTheValue) {
  const Transformer model = talkative_model(1);
  const auto refused = [&](void (*change)(SearchOptions&), const char* said) {
    SearchOptions options;
    change(options);
    try {
      search(model, {{4}}, options);
      ADD_FAILURE() << "accepted: " << said;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  };
  refused([](SearchOptions& o) { o.beam = 0; }, "beam 0");
  refused([](SearchOptions& o) { o.beam = 1001; }, "beam 1001");
  refused([](SearchOptions& o) { o.n_best = 2; }, "n-best 2");
  refused([](SearchOptions& o) { o.max_length = -1; }, "-1");
  refused([](SearchOptions& o) { o.ranking.length_penalty = NAN; }, "nan");
}

}  // namespace
}  // namespace transduce
