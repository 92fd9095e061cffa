#include "cli/metric_options.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "transduce/base/error.h"

namespace transduce::cli {
namespace {

constexpr const char* kNames[] = {"bleu",
                                  "chrf",
                                  "chrf++",
                                  "ter",
                                  "token-accuracy",
                                  "exact-match",
                                  "sequence-error-rate",
                                  "token-error-rate"};

std::unique_ptr<Metric> make_metric(const std::string& name, const TokenizerSpec& units,
                                    const BleuOptions& bleu, const ChrfOptions& chrf,
                                    const TercomRules& ter) {
  if (name == "bleu") return std::make_unique<Bleu>(bleu);
  if (name == "chrf") return std::make_unique<Chrf>(chrf);
  if (name == "chrf++") {
    ChrfOptions with_words = chrf;
    with_words.word_order = 2;
    return std::make_unique<Chrf>(with_words);
  }
  if (name == "ter") return std::make_unique<Ter>(ter);
  if (name == "token-accuracy") return std::make_unique<Rate>(RateKind::token_accuracy, units);
  if (name == "exact-match") return std::make_unique<Rate>(RateKind::exact_match, units);
  if (name == "sequence-error-rate") return std::make_unique<Rate>(RateKind::sequence_error_rate, units);
  if (name == "token-error-rate") return std::make_unique<Rate>(RateKind::token_error_rate, units);
  fail_input("unknown metric \"{}\": choose from {}, with commas between them", name,
             fmt::join(kNames, ", "));
}

}  // namespace

void MetricOptions::add_to(CLI::App& app) {
  std::string group = "Metrics";
  app.add_option(
         "--metrics", names_,
         "bleu, chrf, chrf++, ter, token-accuracy, exact-match, sequence-error-rate, token-error-rate, "
         "with commas between them; default: bleu, chrf and the rates, or the rates alone with "
         "--tokenizer or --task")
      ->delimiter(',')
      ->take_all()
      ->group(group);
  app.add_option("--tokenizer", tokenizer_,
                 "what a token of the rates is: word or char; default: word, or as the model has it")
      ->group(group);
  app.add_option("--normalize", normal_form_,
                 "Unicode normal form of the rates: none, nfc, nfd or nfkc; default: none, or as the model "
                 "has it")
      ->group(group);
  app.add_flag("--lowercase", lowercase_, "BLEU and chrF without regard to case")->group(group);
  app.add_option("--bleu-tokenize", bleu_tokenizer_, "BLEU's tokens: 13a, intl, char or none")->group(group);
  app.add_option("--bleu-smooth", bleu_smoothing_,
                 "what stands in for a precision of 0: exp, floor, add-k or none")
      ->group(group);
  app.add_option("--bleu-smooth-value", bleu_.smoothing_value,
                 "for floor (0.1 unless given) and add-k (1 unless given)")
      ->group(group);
  app.add_option("--bleu-max-order", bleu_.max_order, "BLEU's longest n-grams")->group(group);
  app.add_flag("--bleu-effective-order", bleu_.effective_order,
               "leave out n-grams longer than the hypothesis; always so with --sentence-level")
      ->group(group);
  app.add_option("--chrf-char-order", chrf_.char_order, "chrF's longest n-grams of characters")->group(group);
  app.add_option("--chrf-word-order", chrf_.word_order, "and of words; 2 is chrf++")->group(group);
  app.add_option("--chrf-beta", chrf_.beta, "recall counts so many times as much as precision")->group(group);
  app.add_flag("--chrf-whitespace", chrf_.whitespace, "white space is a character too")->group(group);
  app.add_flag("--chrf-eps-smoothing", chrf_.epsilon_smoothing,
               "every order counts, as in chrF++.py, instead of those that both sides have")
      ->group(group);
  app.add_flag("--ter-normalized", ter_.normalized, "TER splits punctuation off words")->group(group);
  app.add_flag("--ter-no-punct", ter_.no_punctuation, "TER drops punctuation")->group(group);
  app.add_flag("--ter-asian-support", ter_.asian_support, "the two above for CJK text too")->group(group);
  app.add_flag("--ter-case-sensitive", ter_.case_sensitive, "TER with regard to case")->group(group);
}

void MetricOptions::add_validation_to(CLI::App& app) {
  const std::string group = "Validation";
  app.add_option("--valid-metrics", names_,
                 "scores of what is generated at a validation, with commas between them: bleu, chrf, chrf++, "
                 "ter, token-accuracy, exact-match, sequence-error-rate, token-error-rate; default: bleu, "
                 "chrf and the rates, for a task the rates")
      ->delimiter(',')
      ->take_all()
      ->group(group);
  app.add_option("--bleu-tokenize", bleu_tokenizer_, "BLEU's tokens: 13a, intl, char or none")->group(group);
}

bool MetricOptions::known(const std::string& name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void MetricOptions::also_choose(const std::string& name) {
  if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
}

TokenizerSpec MetricOptions::units(TokenizerSpec units) const {
  if (tokenizer_) units.kind = parse_tokenizer_kind(*tokenizer_);
  check_input(units.kind != TokenizerKind::sentencepiece,
              "the rates compare words or characters: --tokenizer takes word or char");
  if (normal_form_) units.normal_form = parse_normal_form(*normal_form_);
  return units;
}

std::vector<ChosenMetric> MetricOptions::choose(const TokenizerSpec& units, bool sentences,
                                                bool one_by_one) const {
  BleuOptions bleu = bleu_;
  bleu.tokenizer = parse_bleu_tokenizer(bleu_tokenizer_);
  bleu.smoothing = parse_bleu_smoothing(bleu_smoothing_);
  bleu.lowercase = lowercase_;
  bleu.effective_order = bleu_.effective_order || one_by_one;
  ChrfOptions chrf = chrf_;
  chrf.lowercase = lowercase_;

  std::vector<std::string> names = names_;
  if (names.empty()) {
    if (sentences) names = {"bleu", "chrf"};
    for (const char* rate : {"token-accuracy", "exact-match", "sequence-error-rate", "token-error-rate"}) {
      names.emplace_back(rate);
    }
  }
  std::vector<ChosenMetric> chosen;
  for (const std::string& name : names) {
    check_input(std::none_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.key == name; }),
                "{} is named twice among the metrics", name);
    chosen.push_back({name, make_metric(name, units, bleu, chrf, ter_)});
  }
  return chosen;
}

}  // namespace transduce::cli
