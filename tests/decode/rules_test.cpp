// What bends a search: bans, penalties, forced prefixes and phrases, diverse beams, ensembles, sampling.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/decode/plain_search.h"
#include "transduce/decode/alignment.h"
#include "transduce/decode/scorer.h"

namespace transduce {
namespace {

using namespace decode_tests;

SearchOptions options_of(int64_t beam, int64_t max_length = 12) {
  SearchOptions options;
  options.beam = options.n_best = beam;
  options.max_length = max_length;
  return options;
}

// Every hypothesis of the search against the plain search under the same rule.
void expect_plain(const Transformer& model, const SearchOptions& options, const Rule& rule,
                  const std::string& what) {
  const Sequences sources = made_sources(5, 3);
  const Results got = search_all(model, sources, options);
  for (size_t b = 0; b < sources.size(); ++b) {
    expect_same(got[b], plain_beam({&model}, sources[b], options, rule),
                fmt::format("{}, sentence {}", what, b));
  }
}

size_t last_length(const std::vector<int32_t>& tokens) { return tokens.size(); }

TEST(RulesTest, NoEndBeforeTheMinimumLength) {
  const Transformer model = talkative_model(1);
  output_bias(model)[Vocabulary::end] += 4.0f;
  for (const int64_t beam : {1, 4}) {
    SearchOptions options = options_of(beam);
    options.min_length = 5;
    expect_plain(
        model, options,
        [](const auto& tokens, auto& row) {
          if (last_length(tokens) < 5) row[Vocabulary::end] = kBanned;
        },
        "min length");
    for (const auto& hypotheses : search_all(model, made_sources(5, 3), options)) {
      for (const Hypothesis& hypothesis : hypotheses) EXPECT_GE(hypothesis.tokens.size(), 5u);
    }
  }
}

TEST(RulesTest, ForbiddenTokensAreNotGeneratedAndKeepTheOthersProbabilities) {
  const Transformer model = talkative_model(1);
  for (const int64_t beam : {1, 4}) {
    SearchOptions options = options_of(beam);
    options.forbidden = {5, 7, 8, 11};
    expect_plain(
        model, options,
        [](const auto&, auto& row) {
          for (const size_t token : {5, 7, 8, 11}) row[token] = kBanned;
        },
        "forbidden");
  }
}

// With every token forbidden there is nothing left to say.
TEST(RulesTest, AllForbiddenEndsAtOnce) {
  const Transformer model = talkative_model(1);
  SearchOptions options = options_of(3);
  for (int32_t token = Vocabulary::unknown; token < 12; ++token) options.forbidden.push_back(token);
  options.min_length = 4;  // not even the end
  for (const auto& hypotheses : search_all(model, made_sources(3, 1), options)) {
    ASSERT_EQ(hypotheses.size(), 1u);
    EXPECT_TRUE(hypotheses[0].tokens.empty());
    EXPECT_TRUE(std::isfinite(hypotheses[0].score));
  }
}

TEST(RulesTest, NGramsAreNotRepeated) {
  const Transformer model = talkative_model(4);
  output_bias(model)[Vocabulary::end] -= 4.0f;
  for (const int64_t n : {1, 2, 3}) {
    SearchOptions options = options_of(3, 14);
    options.no_repeat_ngram = n;
    const auto size = static_cast<size_t>(n);
    const auto grams = [size](const std::vector<int32_t>& tokens) {
      std::map<std::vector<int32_t>, int> counts;
      for (size_t i = 0; i + size <= tokens.size(); ++i) {
        ++counts[{tokens.begin() + static_cast<int64_t>(i), tokens.begin() + static_cast<int64_t>(i + size)}];
      }
      return counts;
    };
    const Rule rule = [&](const auto& tokens, auto& row) {
      for (int32_t v = 0; v < 12; ++v) {
        std::vector<int32_t> with = tokens;
        with.push_back(v);
        for (const auto& [gram, count] : grams(with)) {
          if (count > 1) row[static_cast<size_t>(v)] = kBanned;
        }
      }
    };
    expect_plain(model, options, rule, fmt::format("no repeated {}-gram", n));
  }
}

TEST(RulesTest, RepetitionPenaltyMultipliesLogProbabilitiesOfWhatWasSaid) {
  const Transformer model = talkative_model(4);
  for (const double penalty : {0.7, 1.5}) {
    SearchOptions options = options_of(3);
    options.repetition_penalty = penalty;
    const Rule rule = [&](const auto& tokens, auto& row) {
      for (const int32_t token : std::set<int32_t>(tokens.begin(), tokens.end())) {
        row[static_cast<size_t>(token)] *= penalty;
      }
    };
    expect_plain(model, options, rule, fmt::format("repetition penalty {}", penalty));
  }
}

TEST(RulesTest, LengthNormalizationByTheAverage) {
  const Transformer model = talkative_model(2);
  SearchOptions options = options_of(4);
  options.ranking.normalization = LengthNormalization::average;
  options.ranking.length_penalty = 1.0;
  for (const auto& hypotheses : search_all(model, made_sources(6, 8), options)) {
    for (const Hypothesis& hypothesis : hypotheses) {
      const auto length = static_cast<double>(hypothesis.token_log_probability.size());
      EXPECT_NEAR(hypothesis.score, hypothesis.log_probability / length, 1e-9);
    }
  }
}

TEST(RulesTest, MaximumLengthByFactor) {
  const Transformer model = talkative_model(1);
  output_bias(model)[Vocabulary::end] = -60.0f;
  const auto length = [&](int64_t most, double factor) {
    SearchOptions options = options_of(1, most);
    options.max_length_factor = factor;
    return search_all(model, {{4, 5, 6}}, options)[0][0].tokens.size();
  };
  EXPECT_EQ(length(0, 3.0), 3u * 4 + 50) << "the end symbol of the source counts";
  EXPECT_EQ(length(0, 0.5), 52u);
  EXPECT_EQ(length(20, 0.5), 20u);
  EXPECT_EQ(length(100, 0.5), 52u);
  EXPECT_EQ(length(100, 0.0), 100u);
}

TEST(RulesTest, OutputsContinueTheirPrefixes) {
  const Transformer model = talkative_model(2);
  const Sequences sources = made_sources(5, 6);
  const Sequences prefixes{{}, {7}, {4, 4, 9}, {11, 3}, {}};
  for (const int64_t beam : {1, 4}) {
    const SearchOptions options = options_of(beam, 9);
    std::vector<SearchRequest> requests;
    for (size_t b = 0; b < 5; ++b) requests.push_back({sources[b], prefixes[b], b});
    const Results got = run({&model}, requests, options);
    for (size_t b = 0; b < 5; ++b) {
      expect_same(got[b], plain_beam({&model}, sources[b], options, nullptr, prefixes[b]),
                  fmt::format("beam {}, prefix {}", beam, b));
      for (const Hypothesis& hypothesis : got[b]) {
        ASSERT_GE(hypothesis.tokens.size(), prefixes[b].size());
        EXPECT_TRUE(std::equal(prefixes[b].begin(), prefixes[b].end(), hypothesis.tokens.begin()));
        // The prefix has no probability and does not count as length.
        EXPECT_EQ(hypothesis.token_log_probability.size(), hypothesis.tokens.size() - prefixes[b].size() + 1);
      }
    }
  }
}

TEST(RulesTest, DiverseGroupsAgainstThePlainSearch) {
  const Transformer model = talkative_model(3);
  std::set<std::vector<int32_t>> plain, diverse;
  for (const int64_t groups : {1, 2, 4}) {
    SearchOptions options = options_of(4);
    options.groups = groups;
    options.diversity = 1.5;
    expect_plain(model, options, nullptr, fmt::format("{} groups", groups));
    if (groups == 2) continue;
    for (const auto& hypotheses : search_all(model, made_sources(5, 3), options)) {
      for (const Hypothesis& h : hypotheses) {
        (groups == 1 ? plain : diverse).insert({h.tokens.begin(), h.tokens.begin() + !h.tokens.empty()});
      }
    }
  }
  EXPECT_GT(diverse.size(), plain.size()) << "first tokens should differ more";
}

TEST(RulesTest, ForcedPhrasesOccur) {
  const Transformer model = talkative_model(1);
  const Sequences sources = made_sources(8, 2);
  const auto contains = [](const std::vector<int32_t>& tokens, const std::vector<int32_t>& phrase) {
    return std::search(tokens.begin(), tokens.end(), phrase.begin(), phrase.end()) != tokens.end();
  };
  size_t by_itself = 0;
  for (const Sequences& phrases : {Sequences{{9}}, Sequences{{10, 4}}, Sequences{{9}, {10, 4, 10}, {6}}}) {
    for (const int64_t beam : {1, 5}) {
      SearchOptions options = options_of(beam, 16);
      for (const auto& hypotheses : search_all(model, sources, options)) {
        by_itself += contains(hypotheses[0].tokens, phrases[0]) ? 1 : 0;
      }
      options.forced = phrases;
      for (const auto& hypotheses : search_all(model, sources, options)) {
        ASSERT_FALSE(hypotheses.empty());
        for (const auto& phrase : phrases) EXPECT_TRUE(contains(hypotheses[0].tokens, phrase));
      }
    }
  }
  EXPECT_LT(by_itself, 8u * 6) << "they occur anyway";
  SearchOptions options = options_of(3, 2);  // too short for the phrase: what came nearest
  options.forced = {{9, 10, 4}};
  for (const auto& hypotheses : search_all(model, sources, options)) {
    ASSERT_FALSE(hypotheses.empty());
    for (const Hypothesis& hypothesis : hypotheses) EXPECT_LE(hypothesis.tokens.size(), 2u);
  }
  options = options_of(5, 12);
  options.forced = {{9, 9}};
  options.no_repeat_ngram = 1;  // the ban is the stronger
  for (const auto& hypotheses : search_all(model, sources, options)) {
    for (const Hypothesis& hypothesis : hypotheses) EXPECT_FALSE(contains(hypothesis.tokens, {9, 9}));
  }
}

TEST(RulesTest, AnEnsembleOfAModelWithItselfIsTheModel) {
  const Transformer model = talkative_model(5), other = talkative_model(6);
  const Sequences sources = made_sources(6, 4);
  std::vector<SearchRequest> requests;
  for (size_t b = 0; b < sources.size(); ++b) requests.push_back({sources[b], {}, b});
  for (const int64_t beam : {1, 4}) {
    const SearchOptions options = options_of(beam);
    const Results one = run({&model}, requests, options), twice = run({&model, &model}, requests, options);
    const Results both = run({&model, &other}, requests, options);
    for (size_t b = 0; b < sources.size(); ++b) {
      expect_same(twice[b], one[b], "twice the same model");
      expect_same(both[b], plain_beam({&model, &other}, sources[b], options), "two models");
    }
  }
  TransformerConfig config = model.config();
  config.target_vocabulary = 13;
  const Transformer stranger(config);
  EXPECT_THROW(Search({&model, &stranger}, {}), InputError);
  EXPECT_THROW(Search({}, {}), InputError);
}

TEST(RulesTest, ScoresAreThoseOfTheSearch) {
  const Transformer model = talkative_model(5), other = talkative_model(6);
  const Sequences sources = made_sources(6, 4);
  for (const Models& models : {Models{&model}, Models{&model, &other}}) {
    for (const double coverage : {0.0, 0.4}) {
      SearchOptions options = options_of(4);
      options.ranking.coverage_penalty = coverage;
      std::vector<SearchRequest> requests;
      for (size_t b = 0; b < sources.size(); ++b) requests.push_back({sources[b], {6}, b});
      const Results results = run(models, requests, options);
      std::vector<ScoreRequest> pairs;
      std::vector<Hypothesis> expected;
      for (size_t b = 0; b < sources.size(); ++b) {
        for (const Hypothesis& hypothesis : results[b]) {
          pairs.push_back({sources[b], hypothesis.tokens, 1});
          expected.push_back(hypothesis);
        }
      }
      const std::vector<Hypothesis> scored = score(models, pairs, options.ranking);
      ASSERT_EQ(scored.size(), expected.size());
      for (size_t i = 0; i < scored.size(); ++i) {
        expect_same({scored[i]}, {expected[i]}, fmt::format("pair {}", i));
        checks::expect_close(scored[i].token_log_probability, expected[i].token_log_probability, 1e-5,
                             "tokens");
      }
    }
  }
}

// Wu et al. 2016, equation 14, from attention weights that are summed here.
TEST(RulesTest, CoveragePenaltyRanksOutputsThatSkipTheSourceLower) {
  const Transformer model = talkative_model(2);
  const Sequences sources = made_sources(6, 8);
  SearchOptions options = options_of(4);
  const Results without = search_all(model, sources, options);
  options.ranking.coverage_penalty = 0.5;
  const Results with = search_all(model, sources, options);
  for (size_t b = 0; b < sources.size(); ++b) {
    std::map<std::vector<int32_t>, double> scores;
    for (const Hypothesis& hypothesis : without[b]) scores[hypothesis.tokens] = hypothesis.score;
    ASSERT_EQ(with[b].size(), without[b].size());
    for (const Hypothesis& hypothesis : with[b]) {
      const AttentionMatrix attention = cross_attention(model, {sources[b]}, {hypothesis.tokens}, {})[0];
      ASSERT_EQ(attention.sources, static_cast<int64_t>(sources[b].size()) + 1);
      double penalty = 0.0;
      for (int64_t s = 0; s + 1 < attention.sources; ++s) {
        double sum = 0.0;
        for (int64_t t = 0; t < attention.targets; ++t) sum += static_cast<double>(attention.at(t, s));
        penalty += std::log(std::min(sum, 1.0));
      }
      EXPECT_NEAR(hypothesis.score, scores.at(hypothesis.tokens) + 0.5 * penalty, 1e-4);
    }
  }
}

TEST(RulesTest, AttentionRowsSumToOneWhateverIsChosen) {
  const Transformer model = talkative_model(2);
  for (const int64_t layer : {-1, 0, 1, 2}) {
    for (const int64_t head : {0, 1, 3}) {
      const auto all = cross_attention(model, {{4, 5, 6}, {7}}, {{4, 4}, {5, 6, 7, 8}}, {layer, head});
      for (const AttentionMatrix& attention : all) {
        for (int64_t t = 0; t < attention.targets; ++t) {
          double sum = 0.0;
          for (int64_t s = 0; s < attention.sources; ++s) sum += static_cast<double>(attention.at(t, s));
          EXPECT_NEAR(sum, 1.0, 1e-5);
        }
      }
      EXPECT_EQ(alignment(all[0], 3).size(), 2u);
    }
  }
  EXPECT_THROW(cross_attention(model, {{4}}, {{4}}, {3, 0}), InputError);
  EXPECT_THROW(cross_attention(model, {{4}}, {{4}}, {1, 4}), InputError);
}

// ---- sampling -----------------------------------------------------------------------------------------

SearchOptions sampling_of(int64_t samples, Sampling sampling) {
  SearchOptions options;
  options.n_best = samples;
  options.max_length = 1;
  options.sampling = sampling;
  return options;
}

// How often each first token is drawn, in `samples` draws; the end is an empty output.
std::vector<double> frequencies(const Transformer& model, const std::vector<int32_t>& source,
                                const SearchOptions& options) {
  std::vector<double> counts(12, 0.0);
  const auto samples = search_all(model, {source}, options)[0];
  for (const Hypothesis& sample : samples) {
    const int32_t token = sample.tokens.empty() ? Vocabulary::end : sample.tokens[0];
    counts[static_cast<size_t>(token)] += 1.0 / static_cast<double>(samples.size());
  }
  return counts;
}

TEST(SamplingTest, FollowsTheModelsDistribution) {
  const Transformer model = talkative_model(2);
  const std::vector<int32_t> source{4, 9, 6};
  for (const double temperature : {1.0, 0.5}) {
    const std::vector<double> row = next_token({&model}, make_source_batch({source}), {});
    std::vector<double> p(12, 0.0);
    double total = 0.0;
    for (size_t v = Vocabulary::end; v < 12; ++v) total += p[v] = std::exp(row[v] / temperature);
    const auto found = frequencies(model, source, sampling_of(1000, {.temperature = temperature}));
    for (size_t v = 0; v < 12; ++v) {
      const double expected = p[v] / total;
      // Four deviations, and three draws where the expected count is too small for a normal distribution.
      EXPECT_NEAR(found[v], expected, 4.0 * std::sqrt(expected * (1 - expected) / 1000) + 3e-3) << v;
    }
  }
}

TEST(SamplingTest, TopKAndTopPBoundWhatIsDrawn) {
  const Transformer model = talkative_model(2);
  const std::vector<int32_t> source{4, 9, 6};
  std::vector<double> row = next_token({&model}, make_source_batch({source}), {});
  std::vector<std::pair<double, size_t>> order;
  for (size_t v = Vocabulary::end; v < 12; ++v) order.emplace_back(-row[v], v);
  std::sort(order.begin(), order.end());
  const auto drawn = [&](Sampling sampling) {
    const auto found = frequencies(model, source, sampling_of(500, sampling));
    std::set<size_t> tokens;
    for (size_t v = 0; v < 12; ++v) {
      if (found[v] > 0.0) tokens.insert(v);
    }
    return tokens;
  };
  EXPECT_EQ(drawn({.top_k = 1}), (std::set<size_t>{order[0].second}));
  EXPECT_EQ(drawn({.temperature = 3.0, .top_k = 3}),
            (std::set<size_t>{order[0].second, order[1].second, order[2].second}));
  EXPECT_EQ(drawn({.top_p = 1e-9}), (std::set<size_t>{order[0].second})) << "the likeliest always stays";
  EXPECT_EQ(drawn({.temperature = 3.0, .top_k = 1000}).size(), drawn({.temperature = 3.0}).size());
}

TEST(SamplingTest, DependsOnSeedAndNumberOnly) {
  const Transformer model = talkative_model(2);
  const Sequences sources = made_sources(6, 5);
  SearchOptions options = sampling_of(3, {.seed = 7});
  options.max_length = 10;
  std::vector<SearchRequest> requests, backwards;
  for (size_t b = 0; b < 6; ++b) requests.push_back({sources[b], {}, b});
  backwards.assign(requests.rbegin(), requests.rend());
  const Results together = run({&model}, requests, options), reversed = run({&model}, backwards, options);
  for (size_t b = 0; b < 6; ++b) expect_same(reversed[b], together[b], "another order");
  options.sampling->seed = 8;
  const Results other = run({&model}, requests, options);
  size_t same = 0;
  for (size_t b = 0; b < 6; ++b) same += other[b][0].tokens == together[b][0].tokens ? 1 : 0;
  EXPECT_LT(same, 6u);
}

TEST(RulesTest, OptionsThatDoNotFitAreRefused) {
  const Transformer model = talkative_model(1);
  const auto refused = [&](void (*change)(SearchOptions&), const char* said) {
    SearchOptions options = options_of(4);
    change(options);
    try {
      Search({&model}, options);
      ADD_FAILURE() << "accepted: " << said;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  };
  refused([](SearchOptions& o) { o.groups = 3; }, "3 groups");
  refused([](SearchOptions& o) { o.sampling = Sampling(); }, "beam 4");
  refused([](SearchOptions& o) { o.forbidden = {12}; }, "12");
  refused([](SearchOptions& o) { o.forbidden = {Vocabulary::end}; }, "2");
  refused([](SearchOptions& o) { o.forced = {{}}; }, "no token");
  refused([](SearchOptions& o) { o.forced = {{5, 99}}; }, "99");
  refused([](SearchOptions& o) { o.repetition_penalty = 0.0; }, "repetition penalty");
  refused([](SearchOptions& o) { o.ranking.coverage_penalty = NAN; }, "coverage");
  refused([](SearchOptions& o) { o.min_length = -1; }, "-1");
  refused(
      [](SearchOptions& o) {
        o.forced = {{5, 7}};
        o.forbidden = {7};
      },
      "token 7");
  refused([](SearchOptions& o) { o.min_length = 20; }, "above max length");
  refused(
      [](SearchOptions& o) {
        o.beam = o.n_best = 1;
        o.sampling = Sampling{.temperature = 0.0};
      },
      "temperature");
}

}  // namespace
}  // namespace transduce
