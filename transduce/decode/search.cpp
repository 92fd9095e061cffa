#include "transduce/decode/search.h"

#include <algorithm>
#include <cmath>

#include "transduce/base/names.h"
#include "transduce/base/parallel.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/decode/alignment.h"
#include "transduce/decode/sentence_search.h"

namespace transduce {
namespace {

void check_tokens(const std::vector<int32_t>& tokens, const char* what, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    check_input(token > Vocabulary::end && token < vocabulary,
                "{} token {} is not one that can be generated: give ids from {} to {}", what, token,
                Vocabulary::end + 1, vocabulary - 1);
  }
}

int64_t length_limit(const SearchOptions& options, int64_t source_length) {
  if (options.max_length == 0 && options.max_length_factor == 0.0) return 2 * source_length + 50;
  int64_t limit = options.max_length > 0 ? options.max_length : INT64_MAX;
  if (options.max_length_factor > 0.0) {
    const double most = options.max_length_factor * static_cast<double>(source_length) + 50.0;
    limit = std::min(limit, static_cast<int64_t>(most));
  }
  return limit;
}

}  // namespace

LengthNormalization parse_length_normalization(const std::string& name) {
  constexpr Name<LengthNormalization> names[] = {{LengthNormalization::gnmt, "gnmt"},
                                                 {LengthNormalization::average, "average"}};
  return value_in(names, "length normalization", name);
}

double Ranking::normalised(double log_probability, size_t length) const {
  const auto tokens = static_cast<double>(length);
  const double base = normalization == LengthNormalization::gnmt ? (5.0 + tokens) / 6.0 : tokens;
  return log_probability / std::pow(base, length_penalty);
}

void SearchOptions::validate() const {
  const auto check = [](const char* name, auto value, auto low, auto high) {
    check_input(value >= low && value <= high, "{} {} is out of range: give {} to {}", name, value, low,
                high);
  };
  check("beam", beam, 1, 1000);
  check_input(n_best >= 1 && (n_best <= beam || (sampling && n_best <= 1000)),
              "n-best {} is out of range: give 1 to {}", n_best,
              sampling ? "1000" : fmt::format("the beam, which is {} (--beam)", beam));
  check("length penalty", ranking.length_penalty, -10.0, 10.0);
  check("coverage penalty", ranking.coverage_penalty, 0.0, 100.0);
  check("min length", min_length, 0, 1000000);
  check("max length", max_length, 0, 1000000);
  check("max length factor", max_length_factor, 0.0, 1000.0);
  check("no-repeat n-gram", no_repeat_ngram, 0, 1000);
  check("repetition penalty", repetition_penalty, 0.01, 100.0);
  check("diversity", diversity, 0.0, 1000.0);
  check_input(groups >= 1 && beam % groups == 0,
              "a beam of {} cannot be shared by {} groups of one size: give a divisor of the beam", beam,
              groups);
  check_input(forced.size() <= 64, "{} phrases are forced; at most 64 can be", forced.size());
  for (const auto& phrase : forced) {
    check_input(!phrase.empty(), "a forced phrase holds no token");
    for (const int32_t token : phrase) {
      check_input(std::find(forbidden.begin(), forbidden.end(), token) == forbidden.end(),
                  "token {} is forced and forbidden at once", token);
    }
  }
  check_input(max_length == 0 || min_length <= max_length, "min length {} is above max length {}", min_length,
              max_length);
  if (!sampling) return;
  check_input(beam == 1 && groups == 1,
              "sampling takes the place of the beam: leave beam {} and groups {} at 1", beam, groups);
  check_input(forced.empty(), "phrases can be forced in beam search only, not while sampling");
  check("temperature", sampling->temperature, 0.001, 1000.0);
  check_input(sampling->top_k >= 0, "top-k {} is out of range: give 1 or more, or 0 for all tokens",
              sampling->top_k);
  check_input(sampling->top_p > 0.0 && sampling->top_p <= 1.0,
              "top-p {} is out of range: give a probability above 0, at most 1", sampling->top_p);
}

Search::Search(std::vector<const Transformer*> models, const SearchOptions& options)
    : options_(options), ensemble_(std::move(models)) {
  options_.validate();
  const int64_t rows = ensemble_.config().target_vocabulary;
  options_.vocabulary = options_.vocabulary > 0 ? std::min(options_.vocabulary, rows) : rows;
  check_input(options_.vocabulary > Vocabulary::end,
              "a target vocabulary of {} has no end symbol, which is id {}: search would never end",
              options_.vocabulary, Vocabulary::end);
  check_tokens(options_.forbidden, "forbidden", options_.vocabulary);
  for (const auto& phrase : options_.forced) check_tokens(phrase, "forced", options_.vocabulary);
  if (options_.groups == 1) options_.beam = std::min(options_.beam, options_.vocabulary);
}

Search::~Search() = default;

void Search::add(std::vector<SearchRequest> requests) {
  if (requests.empty()) return;
  const NoGradient inference;
  std::vector<std::vector<int32_t>> sources;
  for (const SearchRequest& request : requests) sources.push_back(request.source);
  const Tokens source = make_source_batch(sources, ensemble_.config().source_end);
  const int64_t positions = ensemble_.max_positions();
  std::vector<int32_t> from;
  for (const auto& sentence : sentences_) {
    for (int64_t k = 0; k < sentence->slots(); ++k) from.push_back(static_cast<int32_t>(from.size()));
  }
  const auto known = static_cast<int32_t>(from.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    SearchRequest& request = requests[i];
    check_tokens(request.prefix, "prefix", options_.vocabulary);
    int64_t limit = length_limit(options_, source.layout.length[i]);
    if (positions > 0) {
      // The start symbol takes a position too.
      const int64_t left = positions - 1 - static_cast<int64_t>(request.prefix.size());
      check_input(left >= 0, "a prefix of {} tokens does not fit the model's {} positions",
                  request.prefix.size(), positions);
      limit = std::min(limit, left);
    }
    sentences_.push_back(std::make_unique<SentenceSearch>(std::move(request), limit, options_));
    for (int64_t k = 0; k < sentences_.back()->slots(); ++k) from.push_back(known + static_cast<int32_t>(i));
  }
  ensemble_.add(source);
  ensemble_.reorder(from);
}

int64_t Search::size() const { return static_cast<int64_t>(sentences_.size()); }

std::vector<Search::Result> Search::step() {
  const NoGradient inference;
  std::vector<int32_t> ids;
  std::vector<int64_t> first_row;
  for (const auto& sentence : sentences_) {
    first_row.push_back(static_cast<int64_t>(ids.size()));
    sentence->add_last_tokens(ids);
  }
  if (ids.empty()) return {};
  const NextScores scores = ensemble_.step(ids);
  parallel_each(size(), [&](int64_t i) {
    const auto b = static_cast<size_t>(i);
    sentences_[b]->advance(scores, first_row[b]);
  });
  std::vector<Result> results;
  std::vector<int32_t> from;
  size_t going_on = 0;
  for (size_t b = 0; b < sentences_.size(); ++b) {
    SentenceSearch& sentence = *sentences_[b];
    if (!sentence.done()) {
      for (const int32_t slot : sentence.from()) from.push_back(static_cast<int32_t>(first_row[b]) + slot);
      sentences_[going_on++] = std::move(sentences_[b]);
      continue;
    }
    if (options_.ranking.coverage_penalty > 0.0) {
      for (Hypothesis* hypothesis : sentence.ended()) {
        const double penalty = coverage(ensemble_.models(), sentence.request().source, hypothesis->tokens);
        hypothesis->score += options_.ranking.coverage_penalty * penalty;
      }
    }
    results.push_back({sentence.request().number, sentence.best()});
  }
  sentences_.resize(going_on);
  ensemble_.reorder(from);
  return results;
}

std::vector<std::vector<Hypothesis>> search_all(const Transformer& model,
                                                const std::vector<std::vector<int32_t>>& sources,
                                                const SearchOptions& options) {
  Search search({&model}, options);
  std::vector<SearchRequest> requests;
  for (const auto& source : sources) requests.push_back({source, {}, requests.size()});
  search.add(std::move(requests));
  std::vector<std::vector<Hypothesis>> results(sources.size());
  while (search.size() > 0) {
    for (Search::Result& result : search.step()) results[result.number] = std::move(result.hypotheses);
  }
  return results;
}

}  // namespace transduce
