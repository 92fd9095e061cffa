#pragma once

// Plain searches that know no cache, no batch and no heap: every step runs the whole model anew.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tests/check.h"
#include "tests/models/made_up_models.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/decode/search.h"

namespace transduce::decode_tests {

using model_tests::made_sequences;
using model_tests::Sequences;
using Results = std::vector<std::vector<Hypothesis>>;
using Models = std::vector<const Transformer*>;

constexpr double kBanned = -std::numeric_limits<double>::infinity();

// A model that has opinions: random ones tend to say one token for ever, so the embeddings and the output are
// scaled up until what is said depends on what was said. Ends about once in ten tokens.
inline Transformer talkative_model(uint64_t seed, NormPlacement norm = NormPlacement::pre) {
  TransformerConfig c = model_tests::small_config();
  c.source_vocabulary = 13;
  c.target_vocabulary = 12;
  c.norm = norm;
  c.output_bias = true;
  Transformer model(c);
  model_tests::randomise(model.parameters(), seed);
  const auto scale = [&](const char* name, float by) {
    const Tensor values = model.parameters().find(name)->variable.value();
    for (int64_t i = 0; i < values.size(); ++i) values.data<float>()[i] *= by;
  };
  scale("source_embedding.weight", 2.0f);
  scale("target_embedding.weight", 2.0f);
  scale("output.weight", 2.5f);
  return model;
}

inline float* output_bias(const Transformer& model) {
  return model.parameters().find("output.bias")->variable.value().data<float>();
}

// Sentences without special symbols.
inline Sequences made_sources(size_t count, uint64_t seed) {
  std::vector<int32_t> lengths;
  for (size_t b = 0; b < count; ++b) lengths.push_back(1 + static_cast<int32_t>((b * 7 + seed) % 9));
  return made_sequences(lengths, 13, seed, Vocabulary::special_symbols);
}

// All of several requests through a Search, by number.
inline Results run(const Models& models, std::vector<SearchRequest> requests, const SearchOptions& options) {
  Results results(requests.size());
  Search search(models, options);
  search.add(std::move(requests));
  while (search.size() > 0) {
    for (Search::Result& result : search.step()) results.at(result.number) = std::move(result.hypotheses);
  }
  return results;
}

// log p of every next token, the prefix decoded anew; of several models the log of the mean probability.
inline std::vector<double> next_token(const Models& models, const Tokens& source,
                                      const std::vector<int32_t>& prefix) {
  std::vector<int32_t> target{Vocabulary::start};
  target.insert(target.end(), prefix.begin(), prefix.end());
  std::vector<double> mean;
  for (const Transformer* model : models) {
    const Tensor logits = model->logits(model->forward(source, pack({target}))).value();
    const std::vector<double> row = checks::values_of(logits.rows(logits.dim(0) - 1, logits.dim(0)));
    double total = 0.0;
    for (const double logit : row) total += std::exp(logit);
    mean.resize(row.size());
    for (size_t v = 0; v < row.size(); ++v) {
      mean[v] += std::exp(row[v]) / total / static_cast<double>(models.size());
    }
  }
  for (double& p : mean) p = std::log(p);
  return mean;
}

// Changes the log probabilities of what may follow `tokens`.
using Rule = std::function<void(const std::vector<int32_t>& tokens, std::vector<double>& row)>;

struct PlainHypothesis : Hypothesis {
  double total = 0.0;  // what it is ranked by on the way
};

// Beam search as fairseq's: of the 2k best continuations of all hypotheses, ends count among the first k, the
// k best others go on; done with k ended ones, or when the length forces the end.
inline std::vector<Hypothesis> plain_beam(const Models& models, const std::vector<int32_t>& source_ids,
                                          const SearchOptions& options, const Rule& rule = nullptr,
                                          const std::vector<int32_t>& prefix = {}) {
  const Tokens source = make_source_batch({source_ids});
  const auto width = static_cast<size_t>(options.beam / options.groups);
  const auto max_length = static_cast<size_t>(options.max_length) + prefix.size();
  struct Group {
    std::vector<PlainHypothesis> alive{PlainHypothesis()}, ended;
  };
  std::vector<Group> groups(static_cast<size_t>(options.groups));
  for (Group& group : groups) group.alive[0].tokens = prefix;
  const auto going = [&] {
    return std::any_of(groups.begin(), groups.end(), [](const Group& g) { return !g.alive.empty(); });
  };
  while (going()) {
    std::vector<int32_t> chosen;
    for (Group& group : groups) {
      std::vector<PlainHypothesis> next;  // an end symbol still stands in `tokens`
      for (const PlainHypothesis& hypothesis : group.alive) {
        const std::vector<double> own = next_token(models, source, hypothesis.tokens);
        std::vector<double> row = own;
        row[Vocabulary::pad] = row[Vocabulary::start] = kBanned;
        if (rule) rule(hypothesis.tokens, row);
        for (const int32_t token : chosen) row[static_cast<size_t>(token)] -= options.diversity;
        for (int32_t v = 0; v < static_cast<int32_t>(row.size()); ++v) {
          const bool end = v == Vocabulary::end, forced = hypothesis.tokens.size() == max_length;
          if (forced ? !end : row[static_cast<size_t>(v)] == kBanned) continue;
          next.push_back(hypothesis);
          next.back().tokens.push_back(v);
          next.back().token_log_probability.push_back(own[static_cast<size_t>(v)]);
          next.back().log_probability += own[static_cast<size_t>(v)];
          next.back().total += forced ? own[static_cast<size_t>(v)] : row[static_cast<size_t>(v)];
        }
      }
      std::stable_sort(next.begin(), next.end(),
                       [](const auto& a, const auto& b) { return a.total > b.total; });
      group.alive.clear();
      for (size_t rank = 0; rank < next.size() && group.alive.size() < width; ++rank) {
        PlainHypothesis& hypothesis = next[rank];
        if (hypothesis.tokens.back() != Vocabulary::end) {
          group.alive.push_back(hypothesis);
        } else if (rank < width && group.ended.size() < width) {
          hypothesis.tokens.pop_back();
          hypothesis.score =
              options.ranking.normalised(hypothesis.total, hypothesis.token_log_probability.size());
          group.ended.push_back(hypothesis);
        }
      }
      if (group.ended.size() >= width) group.alive.clear();
      for (const PlainHypothesis& hypothesis : group.alive) chosen.push_back(hypothesis.tokens.back());
    }
  }
  std::vector<Hypothesis> all;
  for (const Group& group : groups) all.insert(all.end(), group.ended.begin(), group.ended.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  std::vector<Hypothesis> best;
  for (const Hypothesis& one : all) {
    const bool known =
        std::any_of(best.begin(), best.end(), [&](const auto& h) { return h.tokens == one.tokens; });
    if (!known && best.size() < static_cast<size_t>(options.n_best)) best.push_back(one);
  }
  return best;
}

inline void expect_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& expected,
                        const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << what << ", entry " << i;
    EXPECT_NEAR(got[i].score, expected[i].score, 1e-4) << what << ", entry " << i;
    EXPECT_NEAR(got[i].log_probability, expected[i].log_probability, 1e-4) << what << ", entry " << i;
    EXPECT_EQ(got[i].token_log_probability.size(), expected[i].token_log_probability.size())
        << what << ", entry " << i;
  }
}

}  // namespace transduce::decode_tests
