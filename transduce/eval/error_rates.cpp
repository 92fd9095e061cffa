#include "transduce/eval/error_rates.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "transduce/base/error.h"

namespace transduce {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Two sequences as numbers, equal tokens with equal numbers 0, 1, ...
struct NumberedPair {
  std::vector<uint32_t> a, b;
  size_t distinct = 0;

  NumberedPair(std::span<const std::string> first, std::span<const std::string> second) {
    std::unordered_map<std::string_view, uint32_t> numbers;
    const auto number = [&](const std::string& token) {
      return numbers.try_emplace(token, static_cast<uint32_t>(numbers.size())).first->second;
    };
    for (const std::string& token : first) a.push_back(number(token));
    for (const std::string& token : second) b.push_back(number(token));
    distinct = numbers.size();
  }
};

// 64 rows of the edit distance matrix, worked through column by column. Neighbouring cells differ by -1, 0 or
// 1: two words of bits hold the differences of a column downwards, `steps` those along the row above the
// block, and afterwards those along its last row.
void fill_block(std::span<const uint32_t> rows, std::span<const uint32_t> columns,
                std::vector<uint64_t>& places, std::vector<int8_t>& steps) {
  for (size_t i = 0; i < rows.size(); ++i) places[rows[i]] |= uint64_t{1} << i;
  const uint64_t last = uint64_t{1} << (rows.size() - 1);
  uint64_t down_more = ~uint64_t{0}, down_less = 0;
  for (size_t j = 0; j < columns.size(); ++j) {
    const uint64_t above_more = steps[j] > 0 ? 1 : 0, above_less = steps[j] < 0 ? 1 : 0;
    const uint64_t equal = places[columns[j]];
    const uint64_t vertical = equal | down_less;
    const uint64_t carried = equal | above_less;
    const uint64_t horizontal = (((carried & down_more) + down_more) ^ down_more) | carried;
    uint64_t more = down_less | ~(horizontal | down_more);
    uint64_t less = down_more & horizontal;
    steps[j] = static_cast<int8_t>(((more & last) != 0 ? 1 : 0) - ((less & last) != 0 ? 1 : 0));
    more = (more << 1) | above_more;
    less = (less << 1) | above_less;
    down_more = less | ~(vertical | more);
    down_less = more & vertical;
  }
  for (const uint32_t token : rows) places[token] = 0;
}

}  // namespace

int64_t edit_distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t front = 0, back = 0;
  while (front < shorter && a[front] == b[front]) ++front;
  while (back < shorter - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  const std::span<const std::string> rows(a), columns(b);
  const NumberedPair pair(rows.subspan(front, a.size() - front - back),
                          columns.subspan(front, b.size() - front - back));

  std::vector<uint64_t> places(pair.distinct);  // where a block's rows hold each token
  std::vector<int8_t> steps(pair.b.size(), 1);  // along the top row: 0, 1, 2, ...
  for (size_t begin = 0; begin < pair.a.size(); begin += 64) {
    const size_t count = std::min<size_t>(64, pair.a.size() - begin);
    fill_block(std::span(pair.a).subspan(begin, count), pair.b, places, steps);
  }
  auto distance = static_cast<int64_t>(pair.a.size());  // the cell below the top left one
  for (const int8_t step : steps) distance += step;
  return distance;
}

void ErrorRates::add(const std::vector<std::string>& hypothesis, const std::vector<std::string>& reference) {
  ++sequences;
  exact += hypothesis == reference ? 1 : 0;
  tokens += static_cast<int64_t>(reference.size());
  positions += static_cast<int64_t>(std::max(hypothesis.size(), reference.size()));
  for (size_t i = 0; i < std::min(hypothesis.size(), reference.size()); ++i) {
    right += hypothesis[i] == reference[i] ? 1 : 0;
  }
  edits += edit_distance(hypothesis, reference);
}

double ErrorRates::token_accuracy() const { return ratio(right, positions); }
double ErrorRates::exact_match() const { return ratio(exact, sequences); }
double ErrorRates::sequence_error_rate() const { return ratio(sequences - exact, sequences); }
double ErrorRates::token_error_rate() const { return tokens == 0 && edits > 0 ? 1.0 : ratio(edits, tokens); }

std::vector<std::string> units_of(const std::string& text, const TokenizerSpec& spec) {
  const std::string normal = normalize(text, spec.normal_form);
  const auto units = spec.kind == TokenizerKind::word ? split_whitespace(normal) : utf8_characters(normal);
  return {units.begin(), units.end()};
}

TokenizerSpec counted_units(const TokenizerSpec& spec) {
  const bool characters = spec.kind == TokenizerKind::character;
  return {characters ? TokenizerKind::character : TokenizerKind::word, spec.normal_form, ""};
}

std::string Rate::name() const {
  switch (kind_) {
    case RateKind::token_accuracy:
      return "token accuracy";
    case RateKind::exact_match:
      return "exact match";
    case RateKind::sequence_error_rate:
      return "sequence error rate";
    case RateKind::token_error_rate:
      break;
  }
  return "token error rate";
}

std::string Rate::settings() const {
  return fmt::format("case:mixed|tok:{}|norm:{}", name_of(units_.kind), name_of(units_.normal_form));
}

// Statistics: the members of ErrorRates in their order.
void Rate::measure(const Segment& segment, std::span<double> statistics) const {
  const std::vector<std::string> hypothesis = units_of(std::string(segment.hypothesis), units_);
  std::optional<ErrorRates> best;
  for (const std::string_view reference : segment.references) {
    ErrorRates found;
    found.add(hypothesis, units_of(std::string(reference), units_));
    if (!best || found.edits < best->edits) best = found;
  }
  const auto values = {best->sequences, best->exact, best->tokens, best->positions, best->right, best->edits};
  std::copy(values.begin(), values.end(), statistics.begin());
}

ErrorRates Rate::rates(std::span<const double> sums) {
  const auto sum = [&](size_t i) { return static_cast<int64_t>(sums[i]); };
  return {sum(0), sum(1), sum(2), sum(3), sum(4), sum(5)};
}

double Rate::score(std::span<const double> sums) const {
  const ErrorRates all = rates(sums);
  switch (kind_) {
    case RateKind::token_accuracy:
      return 100.0 * all.token_accuracy();
    case RateKind::exact_match:
      return 100.0 * all.exact_match();
    case RateKind::sequence_error_rate:
      return 100.0 * all.sequence_error_rate();
    case RateKind::token_error_rate:
      break;
  }
  return 100.0 * all.token_error_rate();
}

}  // namespace transduce
