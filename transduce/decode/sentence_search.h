#pragma once

// The search for one sentence. The inside of search.cpp, which runs many of them beside one another.

#include "transduce/decode/next_tokens.h"

namespace transduce {

class SentenceSearch {
 public:
  // `max_length`: generated tokens before the end symbol. `options` must outlive it.
  SentenceSearch(SearchRequest request, int64_t max_length, const SearchOptions& options);

  // Hypotheses in progress; each has a slot of the decoder cache, in order.
  int64_t slots() const;
  // Appends what each hypothesis is fed next: its last token, at first the start symbol.
  void add_last_tokens(std::vector<int32_t>& ids) const;

  // Adds a token to every hypothesis, given the scores of the next token: those of slot k in row first_row +
  // k of `scores` (rows, V), which are written over. Afterwards from() says which of the old slots each slot
  // continues.
  void advance(const NextScores& scores, int64_t first_row);
  const std::vector<int32_t>& from() const { return from_; }

  bool done() const { return slots() == 0; }
  const SearchRequest& request() const { return request_; }

  // Once done: all ended hypotheses, and then the best, best first.
  std::vector<Hypothesis*> ended();
  std::vector<Hypothesis> best();

 private:
  // A hypothesis on its way.
  struct Path {
    Hypothesis hypothesis;
    double total = 0.0;  // log probability, penalties included
    PhraseProgress phrases;

    size_t generated() const { return hypothesis.token_log_probability.size(); }
  };
  // Hypotheses that compete with one another: all of them, or a group of diverse ones, or a single sample.
  struct Group {
    std::vector<Path> alive;
    std::vector<Path> ended;
  };

  bool must_end(const Path& path) const { return static_cast<int64_t>(path.generated()) >= max_length_; }
  void follow_prefix(Group& group, int32_t first_slot);
  void add_candidates(const Path& path, size_t group, NextTokens& next,
                      std::vector<Candidate>& candidates) const;
  void apply_rules(const Path& path, NextTokens& next) const;
  void take_turns(const std::vector<Path>& alive, std::vector<Candidate>& candidates) const;
  void select(Group& group, const std::vector<Candidate>& candidates, int32_t first_slot);
  Path extended(const Path& from, const Candidate& by) const;

  SearchRequest request_;
  int64_t max_length_;
  const SearchOptions& options_;
  size_t width_;  // hypotheses a group keeps
  std::vector<Group> groups_;
  std::vector<int32_t> from_;
  std::vector<int32_t> chosen_;  // tokens that earlier groups took in this step
};

}  // namespace transduce
