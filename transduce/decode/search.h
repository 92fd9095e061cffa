#pragma once

// Searching for the best output: beam search, of which greedy search is the beam of 1, diverse beams, and
// sampling.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transduce/decode/ensemble.h"

namespace transduce {

enum class LengthNormalization {
  gnmt,     // log probability / ((5 + length) / 6)^length_penalty: Wu et al. 2016, equation 14
  average,  // log probability / length^length_penalty; 1 gives the mean of the tokens
};

// From "gnmt" or "average". Errors: InputError that lists them.
LengthNormalization parse_length_normalization(const std::string& name);

// What finished outputs are ranked by. `length` is the number of generated tokens, the end symbol counted,
// what was forced as a prefix not.
struct Ranking {
  LengthNormalization normalization = LengthNormalization::gnmt;
  double length_penalty = 0.6;  // 0 ranks by the log probability itself
  // Wu et al. 2016, equation 14: this times the sum over source tokens of log(min(attention received, 1)) is
  // added, so that outputs that pass over source tokens rank lower. 0: off.
  double coverage_penalty = 0.0;

  double normalised(double log_probability, size_t length) const;
};

// Drawing tokens at random instead of taking the best.
struct Sampling {
  double temperature = 1.0;  // scores are divided by it: below 1 sharpens the distribution
  int64_t top_k = 0;         // draw from the k likeliest tokens; 0: from all
  double top_p = 1.0;        // draw from the fewest tokens that hold this much probability
  uint64_t seed = 1;
};

struct SearchOptions {
  int64_t beam = 1;    // hypotheses kept for each sentence; clamped to the vocabulary
  int64_t n_best = 1;  // hypotheses returned for each sentence, at most `beam`, or that many samples
  Ranking ranking;
  // Ids from here on are rows of the output layer that no token belongs to: never generated. 0: all are
  // tokens.
  int64_t vocabulary = 0;
  int64_t min_length = 0;  // no end symbol before so many generated tokens
  // Generated tokens before the end symbol; a hypothesis that gets there is ended. `max_length` 0: no such
  // bound; `max_length_factor` f > 0: f * source length + 50. Without either 2 * source length + 50; with
  // both, whichever is smaller.
  int64_t max_length = 0;
  double max_length_factor = 0.0;
  int64_t no_repeat_ngram = 0;  // no sequence of so many tokens occurs twice; 0: off
  // The log probability of a token that the hypothesis holds already is multiplied by it (Keskar et al. 2019,
  // 4.1, on log probabilities): above 1 discourages repeating.
  double repetition_penalty = 1.0;
  std::vector<int32_t> forbidden;            // tokens that are never generated
  std::vector<std::vector<int32_t>> forced;  // phrases that must all occur (Post and Vilar 2018)
  // Diverse beam search (Vijayakumar et al. 2016): groups of beam / groups hypotheses; the log probability of
  // a token is lowered by `diversity` for every time that earlier groups chose it in the same step.
  int64_t groups = 1;
  double diversity = 0.5;
  std::optional<Sampling> sampling;  // in place of the beam

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

struct Hypothesis {
  std::vector<int32_t> tokens;  // the prefix included, without start and end symbols
  // The model's own, whatever bans and penalties were in force: of each generated token and of the end symbol
  // at last; the prefix's tokens have none.
  std::vector<double> token_log_probability;
  double log_probability = 0.0;  // their sum
  // What hypotheses are ranked by: Ranking::normalised of the log probability, plus the coverage penalty.
  // Repetition penalty and diversity count here as well.
  double score = 0.0;
};

// A sentence to translate.
struct SearchRequest {
  std::vector<int32_t> source;  // without end symbol
  std::vector<int32_t> prefix;  // what the output must begin with
  uint64_t number = 0;          // tells sentences apart in results and in what is sampled
};

class SentenceSearch;

// Searches for many sentences at once: each step adds a token to every hypothesis, sentences that are done
// leave, others may come in at any time. A sentence's result does not depend on the others.
//
// As in fairseq, an end symbol counts when it is among the `beam` best continuations, and a sentence is done
// when it has `beam` ended hypotheses. Pad and start symbols are never generated.
class Search {
 public:
  struct Result {
    uint64_t number = 0;
    std::vector<Hypothesis> hypotheses;  // best first, never empty
  };

  // `models` share their vocabularies and must outlive the search. Errors: InputError on options or models
  // out of range.
  Search(std::vector<const Transformer*> models, const SearchOptions& options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Takes sentences in. Errors: InputError on an empty source where the model knows no end symbol, or on a
  // prefix longer than the model's positions.
  void add(std::vector<SearchRequest> requests);

  // Sentences in progress.
  int64_t size() const;

  // Adds a token to every hypothesis; returns the sentences that are done thereby. Errors: RunError when the
  // model's scores are not finite.
  std::vector<Result> step();

 private:
  // Rows of the cache lie sentence after sentence, those of `sentences_` in order.
  SearchOptions options_;
  Ensemble ensemble_;
  std::vector<std::unique_ptr<SentenceSearch>> sentences_;
};

// The best hypotheses of each source (ids without end symbol), in their order.
std::vector<std::vector<Hypothesis>> search_all(const Transformer& model,
                                                const std::vector<std::vector<int32_t>>& sources,
                                                const SearchOptions& options);

}  // namespace transduce
