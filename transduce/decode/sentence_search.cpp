#include "transduce/decode/sentence_search.h"

#include <algorithm>

#include "transduce/base/random.h"
#include "transduce/data/vocabulary.h"

namespace transduce {
namespace {

// Bans tokens that would make an n-gram occur twice.
void ban_repeated_ngrams(const std::vector<int32_t>& tokens, int64_t n, NextTokens& next) {
  if (n == 0 || static_cast<int64_t>(tokens.size()) < n) return;
  const auto last = tokens.end() - (n - 1);
  for (auto at = tokens.begin(); at + n <= tokens.end(); ++at) {
    if (std::equal(last, tokens.end(), at)) next.ban(at[n - 1]);
  }
}

std::vector<int32_t> kinds_of(std::vector<int32_t> tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

SentenceSearch::SentenceSearch(SearchRequest request, int64_t max_length, const SearchOptions& options)
    : request_(std::move(request)), max_length_(max_length), options_(options) {
  // Samples know nothing of one another: each is a group of its own.
  const int64_t groups = options.sampling ? options.n_best : options.groups;
  width_ = options.sampling ? 1 : static_cast<size_t>(options.beam / options.groups);
  groups_.resize(static_cast<size_t>(groups));
  for (Group& group : groups_) group.alive.resize(1);
}

int64_t SentenceSearch::slots() const {
  size_t count = 0;
  for (const Group& group : groups_) count += group.alive.size();
  return static_cast<int64_t>(count);
}

void SentenceSearch::add_last_tokens(std::vector<int32_t>& ids) const {
  for (const Group& group : groups_) {
    for (const Path& path : group.alive) {
      const std::vector<int32_t>& tokens = path.hypothesis.tokens;
      ids.push_back(tokens.empty() ? Vocabulary::start : tokens.back());
    }
  }
}

void SentenceSearch::advance(const NextScores& scores, int64_t first_row) {
  from_.clear();
  chosen_.clear();
  int32_t first_slot = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const auto slots = static_cast<int32_t>(group.alive.size());
    if (slots == 0) continue;
    if (group.alive[0].hypothesis.tokens.size() < request_.prefix.size()) {
      follow_prefix(group, first_slot);
    } else {
      std::vector<Candidate> candidates, wanted;
      for (int32_t k = 0; k < slots; ++k) {
        const Path& path = group.alive[static_cast<size_t>(k)];
        NextTokens next(scores, first_row + first_slot + k, options_.vocabulary, path.total, k);
        add_candidates(path, g, next, candidates);
        if (must_end(path)) continue;
        for (const int32_t token : path.phrases.wanted(options_.forced)) {
          if (!next.banned(token)) wanted.push_back(next.with(token));
        }
      }
      for (const Candidate& candidate : wanted) {
        const bool there = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
          return other.path == candidate.path && other.token == candidate.token;
        });
        if (!there) candidates.push_back(candidate);
      }
      std::sort(candidates.begin(), candidates.end());
      if (!options_.forced.empty()) take_turns(group.alive, candidates);
      select(group, candidates, first_slot);
    }
    first_slot += slots;
  }
}

void SentenceSearch::follow_prefix(Group& group, int32_t first_slot) {
  Path& path = group.alive[0];  // there is no other yet
  const int32_t token = request_.prefix[path.hypothesis.tokens.size()];
  path.hypothesis.tokens.push_back(token);
  if (!options_.forced.empty()) path.phrases.add(options_.forced, token);
  from_.push_back(first_slot);
}

void SentenceSearch::add_candidates(const Path& path, size_t group, NextTokens& next,
                                    std::vector<Candidate>& candidates) const {
  if (must_end(path)) {
    candidates.push_back(next.with(Vocabulary::end));
    std::push_heap(candidates.begin(), candidates.end());
    return;
  }
  apply_rules(path, next);
  if (options_.sampling) {
    // Counters of their own for up to 2^20 tokens of 1000 samples, each with a vocabulary of up to 2^24.
    const uint64_t draw = (static_cast<uint64_t>(group) << 20) + path.generated();
    candidates.push_back(
        next.drawn(*options_.sampling, {options_.sampling->seed, request_.number}, draw << 22));
    return;
  }
  next.best(2 * width_, candidates);
}

void SentenceSearch::apply_rules(const Path& path, NextTokens& next) const {
  const std::vector<int32_t>& tokens = path.hypothesis.tokens;
  if (options_.repetition_penalty != 1.0) {
    for (const int32_t token : kinds_of(tokens)) next.scale(token, options_.repetition_penalty);
  }
  for (const int32_t token : chosen_) next.lower(token, options_.diversity);
  for (const int32_t token : options_.forbidden) next.ban(token);
  ban_repeated_ngrams(tokens, options_.no_repeat_ngram, next);
  if (static_cast<int64_t>(path.generated()) < options_.min_length ||
      !path.phrases.complete(options_.forced)) {
    next.ban(Vocabulary::end);
  }
}

// Brings candidates into an order that takes turns between banks, which are those with equally many tokens of
// forced phrases, so that hypotheses that have come far are not crowded out (Post and Vilar 2018, 3.2).
void SentenceSearch::take_turns(const std::vector<Path>& alive, std::vector<Candidate>& candidates) const {
  struct Place {
    size_t turn, bank;
    Candidate candidate;
  };
  std::vector<Place> places;
  std::vector<size_t> turns;  // by bank
  for (const Candidate& candidate : candidates) {
    PhraseProgress phrases = alive[static_cast<size_t>(candidate.path)].phrases;
    if (candidate.token != Vocabulary::end) phrases.add(options_.forced, candidate.token);
    const size_t bank = phrases.tokens_met(options_.forced);
    turns.resize(std::max(turns.size(), bank + 1));
    places.push_back({turns[bank]++, bank, candidate});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.turn != b.turn ? a.turn < b.turn : a.bank > b.bank;
  });
  for (size_t i = 0; i < places.size(); ++i) candidates[i] = places[i].candidate;
}

void SentenceSearch::select(Group& group, const std::vector<Candidate>& candidates, int32_t first_slot) {
  std::vector<Path> alive;
  std::vector<int32_t> from;
  for (size_t rank = 0; rank < candidates.size() && alive.size() < width_; ++rank) {
    const Candidate& candidate = candidates[rank];
    const Path& parent = group.alive[static_cast<size_t>(candidate.path)];
    if (candidate.token != Vocabulary::end) {
      alive.push_back(extended(parent, candidate));
      from.push_back(first_slot + candidate.path);
    } else if (rank < width_ && group.ended.size() < width_) {
      group.ended.push_back(extended(parent, candidate));
    }
  }
  if (group.ended.size() >= width_) {
    group.alive.clear();
    return;
  }
  if (options_.groups > 1) {
    for (const Path& path : alive) chosen_.push_back(path.hypothesis.tokens.back());
  }
  from_.insert(from_.end(), from.begin(), from.end());
  group.alive = std::move(alive);
}

SentenceSearch::Path SentenceSearch::extended(const Path& from, const Candidate& by) const {
  Path next = from;
  next.total = by.total;
  next.hypothesis.log_probability += by.step;
  next.hypothesis.token_log_probability.push_back(by.step);
  next.hypothesis.score = options_.ranking.normalised(next.total, next.generated());
  if (by.token == Vocabulary::end) return next;
  next.hypothesis.tokens.push_back(by.token);
  if (!options_.forced.empty()) next.phrases.add(options_.forced, by.token);
  return next;
}

std::vector<Hypothesis*> SentenceSearch::ended() {
  std::vector<Hypothesis*> all;
  for (Group& group : groups_) {
    for (Path& path : group.ended) all.push_back(&path.hypothesis);
  }
  return all;
}

std::vector<Hypothesis> SentenceSearch::best() {
  std::vector<Path> all;
  for (Group& group : groups_) std::move(group.ended.begin(), group.ended.end(), std::back_inserter(all));
  std::stable_sort(all.begin(), all.end(), [&](const Path& a, const Path& b) {
    const bool whole = a.phrases.complete(options_.forced), other = b.phrases.complete(options_.forced);
    return whole != other ? whole : a.hypothesis.score > b.hypothesis.score;
  });
  std::vector<Hypothesis> hypotheses;
  for (Path& path : all) {
    // Groups of diverse hypotheses may come to the same end; samples that repeat say how likely they are.
    const bool known =
        !options_.sampling && std::any_of(hypotheses.begin(), hypotheses.end(),
                                          [&](const auto& h) { return h.tokens == path.hypothesis.tokens; });
    if (!known) hypotheses.push_back(std::move(path.hypothesis));
    if (hypotheses.size() == static_cast<size_t>(options_.n_best)) break;
  }
  return hypotheses;
}

}  // namespace transduce
