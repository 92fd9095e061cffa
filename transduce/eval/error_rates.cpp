#include "transduce/eval/error_rates.h"

#include <algorithm>
#include <numeric>

namespace transduce {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

int64_t edit_distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<int64_t> row(b.size() + 1);  // distances of a's prefix to every prefix of b
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
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
double ErrorRates::token_error_rate() const { return ratio(edits, tokens); }

std::vector<std::string> units_of(const std::string& text, const TokenizerSpec& spec) {
  const std::string normal = normalize(text, spec.normal_form);
  const auto units = spec.kind == TokenizerKind::word ? split_whitespace(normal) : utf8_characters(normal);
  return {units.begin(), units.end()};
}

}  // namespace transduce
