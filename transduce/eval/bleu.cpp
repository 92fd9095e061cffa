#include "transduce/eval/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "transduce/base/names.h"
#include "transduce/eval/ngrams.h"
#include "transduce/eval/unicode.h"

namespace transduce {
namespace {

constexpr Name<BleuSmoothing> smoothings[] = {{BleuSmoothing::none, "none"},
                                              {BleuSmoothing::floor, "floor"},
                                              {BleuSmoothing::add_k, "add-k"},
                                              {BleuSmoothing::exponential, "exp"}};

double smoothing_value(const BleuOptions& options) {
  return options.smoothing_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

bool takes_value(BleuSmoothing smoothing) {
  return smoothing == BleuSmoothing::floor || smoothing == BleuSmoothing::add_k;
}

std::u32string tokens_of(std::string_view line, const BleuOptions& options) {
  const std::u32string text = decode_utf8(line);
  return tokenize_for_bleu(trim_end(options.lowercase ? lower_case(text) : text), options.tokenizer);
}

// A logarithm that makes any product with 0 in it 0, without an infinity on the way.
double log_or_tiny(double x) { return x == 0.0 ? -9999999999.0 : std::log(x); }

}  // namespace

BleuSmoothing parse_bleu_smoothing(std::string_view name) {
  return value_in(smoothings, "BLEU smoothing", name);
}

const char* name_of(BleuSmoothing smoothing) { return name_in(smoothings, smoothing); }

void BleuOptions::validate() const {
  check_input(max_order >= 1 && max_order <= 100, "BLEU's longest n-gram {} is out of range: give 1 to 100",
              max_order);
  if (!smoothing_value) return;
  check_input(takes_value(smoothing), "BLEU smoothing {} takes no value: floor and add-k do",
              name_of(smoothing));
  check_input(std::isfinite(*smoothing_value) && *smoothing_value >= 0.0,
              "BLEU smoothing value {} is out of range: give 0 or more", *smoothing_value);
}

BleuScore bleu_of(const BleuCounts& counts, const BleuOptions& options) {
  options.validate();
  const auto orders = static_cast<size_t>(options.max_order);
  check_input(counts.matches.size() == orders && counts.totals.size() == orders,
              "BLEU needs {} counts of matches and totals, got {} and {}", orders, counts.matches.size(),
              counts.totals.size());
  BleuScore result{0.0, std::vector<double>(orders), 1.0, counts};
  const auto hypothesis = static_cast<double>(counts.hypothesis_length);
  const auto reference = static_cast<double>(counts.reference_length);
  if (hypothesis < reference) {
    result.brevity_penalty = hypothesis > 0.0 ? std::exp(1.0 - reference / hypothesis) : 0.0;
  }
  // No match at all is 0 whatever the smoothing.
  if (std::all_of(counts.matches.begin(), counts.matches.end(), [](int64_t m) { return m == 0; })) {
    return result;
  }

  size_t used_orders = orders;
  double halvings = 1.0;
  for (size_t n = 0; n < orders; ++n) {
    const double added = options.smoothing == BleuSmoothing::add_k && n > 0 ? smoothing_value(options) : 0.0;
    const double matches = static_cast<double>(counts.matches[n]) + added;
    const double total = static_cast<double>(counts.totals[n]) + added;
    if (total == 0.0) break;
    if (options.effective_order) used_orders = n + 1;
    if (matches > 0.0) {
      result.precisions[n] = 100.0 * matches / total;
    } else if (options.smoothing == BleuSmoothing::exponential) {
      halvings *= 2.0;
      result.precisions[n] = 100.0 / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::floor) {
      result.precisions[n] = 100.0 * smoothing_value(options) / total;
    }
  }
  double logarithms = 0.0;
  for (size_t n = 0; n < used_orders; ++n) logarithms += log_or_tiny(result.precisions[n]);
  result.score = result.brevity_penalty * std::exp(logarithms / static_cast<double>(used_orders));
  return result;
}

Bleu::Bleu(const BleuOptions& options) : options_(options) { options.validate(); }

std::string Bleu::settings() const {
  std::string smoothing = name_of(options_.smoothing);
  if (takes_value(options_.smoothing)) smoothing += fmt::format("[{:.2f}]", smoothing_value(options_));
  return fmt::format("case:{}|eff:{}|tok:{}|smooth:{}{}", options_.lowercase ? "lc" : "mixed",
                     options_.effective_order ? "yes" : "no", name_of(options_.tokenizer), smoothing,
                     options_.max_order == 4 ? std::string() : fmt::format("|order:{}", options_.max_order));
}

// Statistics: hypothesis length, reference length, matches (max_order), totals (max_order).
void Bleu::measure(const Segment& segment, std::span<double> statistics) const {
  const auto orders = static_cast<size_t>(options_.max_order);
  std::vector<std::u32string> texts{tokens_of(segment.hypothesis, options_)};
  for (const std::string_view reference : segment.references) texts.push_back(tokens_of(reference, options_));
  WordNumbers numbers;
  const std::u32string hypothesis = numbers(split_words(texts[0]));
  const auto length = static_cast<int64_t>(hypothesis.size());

  std::vector<std::u32string> references;
  int64_t closest = -1;
  for (size_t r = 1; r < texts.size(); ++r) {
    references.push_back(numbers(split_words(texts[r])));
    const auto candidate = static_cast<int64_t>(references.back().size());
    const int64_t now = std::abs(candidate - length), before = std::abs(closest - length);
    if (closest < 0 || now < before || (now == before && candidate < closest)) closest = candidate;
  }
  std::vector<Ngrams> allowed = ngrams_of(references[0], orders);
  for (size_t r = 1; r < references.size(); ++r) {
    const std::vector<Ngrams> more = ngrams_of(references[r], orders);
    for (size_t n = 0; n < orders; ++n) allowed[n] = unite(allowed[n], more[n]);
  }

  statistics[0] = static_cast<double>(length);
  statistics[1] = static_cast<double>(closest);
  const std::vector<Ngrams> found = ngrams_of(hypothesis, orders);
  for (size_t n = 0; n < orders; ++n) {
    statistics[2 + n] = static_cast<double>(count_common(found[n], allowed[n]));
    statistics[2 + orders + n] = static_cast<double>(found[n].size());
  }
}

BleuScore Bleu::detail(std::span<const double> sums) const {
  const auto orders = static_cast<size_t>(options_.max_order);
  BleuCounts counts{static_cast<int64_t>(sums[0]), static_cast<int64_t>(sums[1]), {}, {}};
  for (size_t n = 0; n < orders; ++n) {
    counts.matches.push_back(static_cast<int64_t>(sums[2 + n]));
    counts.totals.push_back(static_cast<int64_t>(sums[2 + orders + n]));
  }
  return bleu_of(counts, options_);
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, ReferenceSets references,
                      const BleuOptions& options) {
  const Bleu bleu(options);
  return bleu.detail(collect_statistics(bleu, hypotheses, references).sums());
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                      const BleuOptions& options) {
  return corpus_bleu(hypotheses, ReferenceSets(&reference, 1), options);
}

BleuScore sentence_bleu(const std::string& hypothesis, std::span<const std::string> references,
                        BleuOptions options) {
  options.effective_order = true;
  std::vector<std::vector<std::string>> sets;
  for (const std::string& reference : references) sets.push_back({reference});
  return corpus_bleu(std::span(&hypothesis, 1), sets, options);
}

}  // namespace transduce
