#include "transduce/eval/chrf.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/eval/ngrams.h"
#include "transduce/eval/unicode.h"

namespace transduce {
namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Words with one punctuation mark cut off: the last character if it is one, else the first. So "(hi)" is
// "(hi" and ")", as chrF++.py has it.
std::vector<std::u32string_view> words_of(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (const std::u32string_view word : split_words(text)) {
    size_t cut = 0;
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      cut = word.size() - 1;
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

// A line and its n-grams, which view into it.
struct Line {
  std::u32string text, characters, words;
  std::vector<Ngrams> ngrams;  // (char_order + word_order)

  Line(std::string_view bytes, const ChrfOptions& options) : text(decode_utf8(bytes)) {
    if (options.lowercase) text = lower_case(text);
    characters = text;
    if (!options.whitespace) std::erase_if(characters, is_space);
  }
  Line(const Line&) = delete;

  void count(const ChrfOptions& options, WordNumbers& numbers) {
    ngrams = ngrams_of(characters, static_cast<size_t>(options.char_order));
    if (options.word_order == 0) return;
    words = numbers(words_of(text));
    for (Ngrams& order : ngrams_of(words, static_cast<size_t>(options.word_order))) {
      ngrams.push_back(std::move(order));
    }
  }
};

}  // namespace

void ChrfOptions::validate() const {
  check_input(char_order >= 1 && char_order <= 100,
              "chrF's character order {} is out of range: give 1 to 100", char_order);
  check_input(word_order >= 0 && word_order <= 100, "chrF's word order {} is out of range: give 0 to 100",
              word_order);
  check_input(beta >= 1 && beta <= 1000, "chrF's beta {} is out of range: give 1 to 1000", beta);
}

Chrf::Chrf(const ChrfOptions& options) : options_(options) { options.validate(); }

std::string Chrf::name() const {
  return fmt::format("chrF{}{}", options_.beta, std::string(static_cast<size_t>(options_.word_order), '+'));
}

std::string Chrf::settings() const {
  return fmt::format("case:{}|eff:{}|nc:{}|nw:{}|space:{}", options_.lowercase ? "lc" : "mixed",
                     options_.epsilon_smoothing ? "no" : "yes", options_.char_order, options_.word_order,
                     options_.whitespace ? "yes" : "no");
}

// Statistics of each order: n-grams of the hypothesis, of the reference, and of both.
void Chrf::measure(const Segment& segment, std::span<double> statistics) const {
  Line hypothesis(segment.hypothesis, options_);
  WordNumbers numbers;
  hypothesis.count(options_, numbers);
  double best = -1.0;
  std::vector<double> counts(width());
  std::vector<std::unique_ptr<Line>> references;  // the word numbers view into all of them
  for (const std::string_view text : segment.references) {
    references.push_back(std::make_unique<Line>(text, options_));
    Line& reference = *references.back();
    reference.count(options_, numbers);
    for (size_t n = 0; n < orders(); ++n) {
      const Ngrams& wanted = reference.ngrams[n];
      // An order that the reference is too short for counts for nothing.
      counts[3 * n] = wanted.empty() ? 0.0 : static_cast<double>(hypothesis.ngrams[n].size());
      counts[3 * n + 1] = static_cast<double>(wanted.size());
      counts[3 * n + 2] = static_cast<double>(count_common(hypothesis.ngrams[n], wanted));
    }
    const double found = score(counts);
    if (found <= best) continue;
    best = found;
    std::copy(counts.begin(), counts.end(), statistics.begin());
  }
}

double Chrf::score(std::span<const double> sums) const {
  constexpr double epsilon = 1e-16;
  const auto factor = static_cast<double>(options_.beta * options_.beta);
  double f_scores = 0.0, precisions = 0.0, recalls = 0.0;
  int64_t both = 0;  // orders that both sides have
  for (size_t n = 0; n < orders(); ++n) {
    const double hypothesis = sums[3 * n], reference = sums[3 * n + 1], common = sums[3 * n + 2];
    const double precision = hypothesis > 0.0 ? common / hypothesis : epsilon;
    const double recall = reference > 0.0 ? common / reference : epsilon;
    const double weighted = factor * precision + recall;
    f_scores += weighted > 0.0 ? (1.0 + factor) * precision * recall / weighted : epsilon;
    if (hypothesis > 0.0 && reference > 0.0) {
      precisions += precision;
      recalls += recall;
      ++both;
    }
  }
  if (options_.epsilon_smoothing) return 100.0 * f_scores / static_cast<double>(orders());
  if (precisions + recalls == 0.0) return 0.0;
  const double precision = precisions / static_cast<double>(both),
               recall = recalls / static_cast<double>(both);
  return 100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall);
}

double corpus_chrf(std::span<const std::string> hypotheses, ReferenceSets references,
                   const ChrfOptions& options) {
  const Chrf chrf(options);
  return chrf.score(collect_statistics(chrf, hypotheses, references).sums());
}

double corpus_chrf(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                   const ChrfOptions& options) {
  return corpus_chrf(hypotheses, ReferenceSets(&reference, 1), options);
}

}  // namespace transduce
