#include "transduce/decode/next_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "transduce/data/vocabulary.h"

namespace transduce {
namespace {

constexpr int32_t kBlock = Backend::score_block;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

}  // namespace

NextTokens::NextTokens(const NextScores& scores, int64_t row, int64_t vocabulary, double so_far, int32_t path)
    : scores_(scores.scores.row<float>(row)),
      block_max_(scores.block_max.row<float>(row)),
      vocabulary_(vocabulary),
      normaliser_(static_cast<double>(scores.log_sum_exp.data<float>()[row])),
      so_far_(so_far),
      path_(path) {
  ban(Vocabulary::pad);
  ban(Vocabulary::start);
}

void NextTokens::remember(int32_t token) {
  for (const auto& [known, score] : own_) {
    if (known == token) return;
  }
  own_.emplace_back(token, scores_[token]);
}

void NextTokens::ban(int32_t token) {
  if (token >= vocabulary_ || scores_[token] == kBanned) return;
  remember(token);
  scores_[token] = kBanned;
}

void NextTokens::scale(int32_t token, double factor) {
  remember(token);
  scores_[token] = static_cast<float>(normaliser_ + adjusted(token) * factor);
  float& block = block_max_[token / kBlock];
  block = std::max(block, scores_[token]);
}

void NextTokens::lower(int32_t token, double by) {
  remember(token);
  scores_[token] -= static_cast<float>(by);
}

Candidate NextTokens::with(int32_t token) const {
  double own = adjusted(token);
  for (const auto& [known, score] : own_) {
    if (known == token) own = static_cast<double>(score) - normaliser_;
  }
  const double bent = scores_[token] == kBanned ? own : adjusted(token);
  return {so_far_ + bent, own, path_, token};
}

bool NextTokens::all_banned() const {
  return std::all_of(scores_, scores_ + vocabulary_, [](float score) { return score == kBanned; });
}

void NextTokens::best(size_t wanted, std::vector<Candidate>& list) const {
  const size_t before = list.size();
  const auto hopeless = [&](float score) {
    return list.size() >= wanted && so_far_ + static_cast<double>(score) - normaliser_ < list.front().total;
  };
  const auto end = static_cast<int32_t>(vocabulary_);
  for (int32_t block = 0; block < end; block += kBlock) {
    if (hopeless(block_max_[block / kBlock])) continue;
    for (int32_t token = block; token < std::min(end, block + kBlock); ++token) {
      if (scores_[token] == kBanned || hopeless(scores_[token])) continue;
      const Candidate next = with(token);
      if (list.size() < wanted) {
        list.push_back(next);
      } else if (next < list.front()) {
        std::pop_heap(list.begin(), list.end());
        list.back() = next;
      } else {
        continue;
      }
      std::push_heap(list.begin(), list.end());
    }
  }
  if (list.size() == before && all_banned()) {
    list.push_back(with(Vocabulary::end));
    std::push_heap(list.begin(), list.end());
  }
}

Candidate NextTokens::drawn(const Sampling& sampling, RandomKey key, uint64_t first) const {
  std::vector<std::pair<double, int32_t>> likely;  // log probability, token
  for (int32_t token = 0; token < static_cast<int32_t>(vocabulary_); ++token) {
    if (scores_[token] != kBanned) likely.emplace_back(adjusted(token) / sampling.temperature, token);
  }
  if (likely.empty()) return with(Vocabulary::end);
  const auto better = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int64_t>(likely.size())) {
    const auto kth = likely.begin() + sampling.top_k;
    std::nth_element(likely.begin(), kth, likely.end(), better);
    likely.erase(kth, likely.end());
  }
  if (sampling.top_p < 1.0) {
    std::sort(likely.begin(), likely.end(), better);
    const double top = likely[0].first;
    double total = 0.0, kept = 0.0;
    for (const auto& [score, token] : likely) total += std::exp(score - top);
    size_t count = 0;
    while (count < likely.size() && (count == 0 || kept < sampling.top_p * total)) {
      kept += std::exp(likely[count++].first - top);
    }
    likely.resize(count);
  }
  double best = -std::numeric_limits<double>::infinity();
  int32_t chosen = likely[0].second;
  for (const auto& [score, token] : likely) {
    const uint32_t word =
        philox(key, first + static_cast<uint64_t>(token / 4))[static_cast<size_t>(token % 4)];
    const double uniform = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const double sum = score - std::log(-std::log(uniform));
    if (sum > best || (sum == best && token < chosen)) best = sum, chosen = token;
  }
  return with(chosen);
}

bool NextTokens::banned(int32_t token) const { return scores_[token] == kBanned; }

void PhraseProgress::add(const std::vector<std::vector<int32_t>>& phrases, int32_t token) {
  met_.resize(phrases.size());
  const auto end_if_whole = [&] {
    const auto phrase = static_cast<size_t>(under_way_);
    if (position_ < phrases[phrase].size()) return;
    met_[phrase] = true;
    under_way_ = -1;
    position_ = 0;
  };
  if (under_way_ >= 0 && phrases[static_cast<size_t>(under_way_)][position_] == token) {
    ++position_;
    return end_if_whole();
  }
  under_way_ = -1;
  position_ = 0;
  for (size_t i = 0; i < phrases.size(); ++i) {
    if (met_[i] || phrases[i][0] != token) continue;
    under_way_ = static_cast<int64_t>(i);
    position_ = 1;
    return end_if_whole();
  }
}

size_t PhraseProgress::tokens_met(const std::vector<std::vector<int32_t>>& phrases) const {
  size_t count = position_;
  for (size_t i = 0; i < met_.size(); ++i) count += met_[i] ? phrases[i].size() : 0;
  return count;
}

bool PhraseProgress::complete(const std::vector<std::vector<int32_t>>& phrases) const {
  return phrases.empty() || (met_.size() == phrases.size() &&
                             std::all_of(met_.begin(), met_.end(), [](bool met) { return met; }));
}

std::vector<int32_t> PhraseProgress::wanted(const std::vector<std::vector<int32_t>>& phrases) const {
  std::vector<int32_t> tokens;
  if (under_way_ >= 0) tokens.push_back(phrases[static_cast<size_t>(under_way_)][position_]);
  for (size_t i = 0; i < phrases.size(); ++i) {
    const bool met = i < met_.size() && met_[i];
    if (!met && static_cast<int64_t>(i) != under_way_) tokens.push_back(phrases[i][0]);
  }
  return tokens;
}

}  // namespace transduce
