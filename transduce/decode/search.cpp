#include "transduce/decode/search.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "transduce/base/parallel.h"
#include "transduce/data/vocabulary.h"

namespace transduce {
namespace {

// A way to go on: hypothesis `beam` of a sentence followed by `token`.
struct Candidate {
  double log_probability;  // of the whole
  double step;             // of the token alone
  int32_t beam;
  int32_t token;

  // Equal scores are told apart by place, so that the order never depends on the batch.
  bool operator<(const Candidate& other) const {
    if (log_probability != other.log_probability) return log_probability > other.log_probability;
    return beam != other.beam ? beam < other.beam : token < other.token;
  }
};

// A sentence on its way: hypothesis k lies in slot first_slot + k of the cache.
struct Sentence {
  int64_t index = 0;       // in the batch
  int64_t max_length = 0;  // tokens before the end symbol
  std::vector<Hypothesis> alive;
  std::vector<Hypothesis> ended;
};

double ranked(double log_probability, size_t length, double penalty) {
  return log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, penalty);
}

// Adds the `wanted` best continuations of one hypothesis, scores in `logits` (V), to the list. Rows of the
// output layer beyond the vocabulary take part in the softmax, as in training, but are no candidates.
void add_candidates(std::span<const float> logits, int64_t vocabulary, double so_far, int32_t beam,
                    bool must_end, size_t wanted, std::vector<Candidate>& list) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (size_t v = 0; v < logits.size(); ++v) sum += static_cast<double>(std::exp(logits[v] - top));
  const double normaliser = static_cast<double>(top) + std::log(sum);
  if (!std::isfinite(normaliser))
    fail_run("the model's scores are not finite numbers: its parameters are damaged");
  const auto candidate = [&](int32_t token) {
    const double step = static_cast<double>(logits[static_cast<size_t>(token)]) - normaliser;
    return Candidate{so_far + step, step, beam, token};
  };
  if (must_end) {
    list.push_back(candidate(Vocabulary::end));
    return;
  }
  // `list` is kept as a heap whose front is the worst of the best.
  for (int32_t v = 0; v < static_cast<int32_t>(vocabulary); ++v) {
    if (v == Vocabulary::pad || v == Vocabulary::start) continue;
    const Candidate next = candidate(v);
    if (list.size() < wanted) {
      list.push_back(next);
      std::push_heap(list.begin(), list.end());
    } else if (next < list.front()) {
      std::pop_heap(list.begin(), list.end());
      list.back() = next;
      std::push_heap(list.begin(), list.end());
    }
  }
}

Hypothesis extended(const Hypothesis& from, const Candidate& by, double penalty) {
  Hypothesis next = from;
  next.token_log_probability.push_back(by.step);
  next.log_probability = by.log_probability;
  if (by.token != Vocabulary::end) next.tokens.push_back(by.token);
  next.score = ranked(next.log_probability, next.token_log_probability.size(), penalty);
  return next;
}

// One step for one sentence: what lives on, and in `from` the slot that each continues.
void advance(Sentence& sentence, const Tensor& logits, int64_t first_slot, const SearchOptions& options,
             std::vector<int32_t>& from) {
  const auto beam = static_cast<size_t>(options.beam);
  std::vector<Candidate> candidates;
  for (size_t k = 0; k < sentence.alive.size(); ++k) {
    const Hypothesis& hypothesis = sentence.alive[k];
    const bool must_end = static_cast<int64_t>(hypothesis.tokens.size()) >= sentence.max_length;
    const std::span<const float> row(logits.row<float>(first_slot + static_cast<int64_t>(k)),
                                     static_cast<size_t>(logits.dim(1)));
    add_candidates(row, options.vocabulary, hypothesis.log_probability, static_cast<int32_t>(k), must_end,
                   2 * beam, candidates);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<Hypothesis> alive;
  for (size_t rank = 0; rank < candidates.size() && alive.size() < beam; ++rank) {
    const Candidate& candidate = candidates[rank];
    const Hypothesis& parent = sentence.alive[static_cast<size_t>(candidate.beam)];
    if (candidate.token != Vocabulary::end) {
      alive.push_back(extended(parent, candidate, options.length_penalty));
      from.push_back(static_cast<int32_t>(first_slot) + candidate.beam);
    } else if (rank < beam && sentence.ended.size() < beam) {
      sentence.ended.push_back(extended(parent, candidate, options.length_penalty));
    }
  }
  sentence.alive = std::move(alive);
  if (sentence.ended.size() >= beam) {
    sentence.alive.clear();
    from.clear();
  }
}

int64_t length_limit(const TransformerConfig& config, int64_t source_length, int64_t wanted) {
  const int64_t limit = wanted > 0 ? wanted : 2 * source_length + 50;
  // The start symbol takes a position too.
  return config.positions == PositionKind::learned ? std::min(limit, config.max_positions - 1) : limit;
}

std::vector<Hypothesis> best_of(Sentence& sentence, int64_t n_best) {
  std::stable_sort(sentence.ended.begin(), sentence.ended.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  sentence.ended.resize(std::min(sentence.ended.size(), static_cast<size_t>(n_best)));
  return std::move(sentence.ended);
}

}  // namespace

void SearchOptions::validate() const {
  check_input(beam >= 1 && beam <= 1000, "beam {} is out of range: give 1 to 1000", beam);
  check_input(n_best >= 1 && n_best <= beam, "n-best {} is out of range: give 1 to the beam {}", n_best,
              beam);
  check_input(length_penalty >= -10.0 && length_penalty <= 10.0,
              "length penalty {} is out of range: give -10 to 10", length_penalty);
  check_input(max_length >= 0 && max_length <= 1000000, "max length {} is out of range: give 1 to 1000000",
              max_length);
}

std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Tokens& source,
                                                 const SearchOptions& requested) {
  requested.validate();
  SearchOptions options = requested;
  const int64_t rows = model.config().target_vocabulary;
  options.vocabulary = options.vocabulary > 0 ? std::min(options.vocabulary, rows) : rows;
  check_input(options.vocabulary > Vocabulary::end,
              "a target vocabulary of {} has no end symbol, which is id {}: search would never end",
              options.vocabulary, Vocabulary::end);
  options.beam = std::min(options.beam, options.vocabulary);
  const NoGradient inference;

  std::vector<Sentence> sentences(static_cast<size_t>(source.layout.sequences()));
  std::vector<int32_t> slot_sentence, ids;
  for (size_t b = 0; b < sentences.size(); ++b) {
    sentences[b].index = static_cast<int64_t>(b);
    sentences[b].max_length = length_limit(model.config(), source.layout.length[b], options.max_length);
    sentences[b].alive.resize(1);
    slot_sentence.insert(slot_sentence.end(), static_cast<size_t>(options.beam), static_cast<int32_t>(b));
  }
  DecoderCache cache = model.start(model.encode(source), source.layout, slot_sentence);
  // Every sentence begins with one hypothesis; the room for the others is filled at the first step.
  std::vector<int32_t> first;
  for (size_t b = 0; b < sentences.size(); ++b)
    first.push_back(static_cast<int32_t>(b) * static_cast<int32_t>(options.beam));
  cache.reorder(first);
  ids.assign(sentences.size(), Vocabulary::start);

  std::vector<std::vector<Hypothesis>> results(sentences.size());
  while (!sentences.empty()) {
    const Tensor logits = model.logits(model.step(ids, cache)).value();  // (slots, V)
    std::vector<int64_t> first_slot;
    int64_t slots = 0;
    for (const Sentence& sentence : sentences) {
      first_slot.push_back(slots);
      slots += static_cast<int64_t>(sentence.alive.size());
    }
    std::vector<std::vector<int32_t>> from(sentences.size());
    parallel_each(static_cast<int64_t>(sentences.size()), [&](int64_t i) {
      const auto b = static_cast<size_t>(i);
      advance(sentences[b], logits, first_slot[b], options, from[b]);
    });
    std::vector<Sentence> going_on;
    std::vector<int32_t> order;
    ids.clear();
    for (size_t b = 0; b < sentences.size(); ++b) {
      if (sentences[b].alive.empty()) {
        results[static_cast<size_t>(sentences[b].index)] = best_of(sentences[b], options.n_best);
        continue;
      }
      for (const Hypothesis& hypothesis : sentences[b].alive) ids.push_back(hypothesis.tokens.back());
      order.insert(order.end(), from[b].begin(), from[b].end());
      going_on.push_back(std::move(sentences[b]));
    }
    sentences = std::move(going_on);
    if (!sentences.empty()) cache.reorder(order);
  }
  return results;
}

}  // namespace transduce
