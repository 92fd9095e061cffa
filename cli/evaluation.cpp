#include "cli/evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.h"

namespace transduce::cli {
namespace {

using Json = nlohmann::ordered_json;

// sacreBLEU ends a signature with its version; these numbers are made by another program, which says so.
std::string full_signature(const Metric& metric, size_t references, const std::string& resampling = {}) {
  return signature(metric, references, resampling) + "|impl:transduce-" TRANSDUCE_VERSION;
}

// Rates are shares of 1 in JSON, everything else is in per cent.
double in_json(const ChosenMetric& chosen, double per_cent) {
  return chosen.is_rate() ? per_cent / 100.0 : per_cent;
}

Json as_json(const ErrorRates& rates, const std::string& key) {
  if (key == "token-accuracy") return rates.token_accuracy();
  if (key == "exact-match") return rates.exact_match();
  if (key == "sequence-error-rate") return rates.sequence_error_rate();
  return rates.token_error_rate();
}

Json as_json(const Metric& metric, std::span<const double> sums, const std::string& signed_as) {
  Json object{{"name", metric.name()}, {"score", metric.score(sums)}, {"signature", signed_as}};
  if (const auto* bleu = dynamic_cast<const Bleu*>(&metric)) {
    const BleuScore detail = bleu->detail(sums);
    object["precisions"] = detail.precisions;
    object["brevity-penalty"] = detail.brevity_penalty;
    object["hypothesis-length"] = detail.counts.hypothesis_length;
    object["reference-length"] = detail.counts.reference_length;
    object["matches"] = detail.counts.matches;
    object["totals"] = detail.counts.totals;
  }
  if (const auto* ter = dynamic_cast<const Ter*>(&metric)) {
    const TerScore detail = ter->detail(sums);
    object["edits"] = detail.edits;
    object["reference-length"] = detail.reference_length;
  }
  return object;
}

// The rates stand at the top level, each other metric is an object.
Json scores_as_json(const Evaluation& evaluation) {
  Json object{{"sequences", evaluation.lines()}};
  const auto& metrics = evaluation.metrics();
  std::string rates_signature;
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (!metrics[m].is_rate()) continue;
    const ErrorRates rates = Rate::rates(evaluation.sums(m));
    object["tokens"] = rates.tokens;
    object[metrics[m].key] = as_json(rates, metrics[m].key);
    rates_signature = full_signature(*metrics[m].metric, evaluation.references());
  }
  if (!rates_signature.empty()) object["rates-signature"] = rates_signature;
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (metrics[m].is_rate()) continue;
    object[metrics[m].key] = as_json(*metrics[m].metric, evaluation.sums(m),
                                     full_signature(*metrics[m].metric, evaluation.references()));
  }
  return object;
}

void print_table(const Evaluation& evaluation) {
  const auto& metrics = evaluation.metrics();
  print("sequences            {:>8}\n", evaluation.lines());
  const auto rate = std::find_if(metrics.begin(), metrics.end(), [](const auto& m) { return m.is_rate(); });
  if (rate != metrics.end()) {
    const auto index = static_cast<size_t>(rate - metrics.begin());
    print("tokens               {:>8}\n", Rate::rates(evaluation.sums(index)).tokens);
  }
  for (size_t m = 0; m < metrics.size(); ++m) {
    const Metric& metric = *metrics[m].metric;
    const double score = metric.score(evaluation.sums(m));
    if (metrics[m].is_rate()) {
      print("{:<20} {:>8.2f} %\n", metric.name(), score);
      continue;
    }
    print("{:<20} {:>8.2f}    {}\n", metric.name(), score, full_signature(metric, evaluation.references()));
    if (const auto* bleu = dynamic_cast<const Bleu*>(&metric)) {
      const BleuScore detail = bleu->detail(evaluation.sums(m));
      const auto hypothesis = static_cast<double>(detail.counts.hypothesis_length);
      const auto reference = static_cast<double>(detail.counts.reference_length);
      cli::print("{:32}precisions {:.1f}, brevity penalty {:.3f}, length {} of {} tokens ({:.3f})\n", "",
                 fmt::join(detail.precisions, "/"), detail.brevity_penalty, detail.counts.hypothesis_length,
                 detail.counts.reference_length, reference > 0.0 ? hypothesis / reference : 0.0);
    }
  }
}

// The result of resampling for one metric; without a baseline only the system's part of it.
PairedResult resample(const Evaluation& evaluation, const Evaluation* baseline, size_t m,
                      const Resampling& resampling) {
  const Metric& metric = *evaluation.metrics()[m].metric;
  if (baseline == nullptr) {
    PairedResult result;
    result.system = metric.score(evaluation.sums(m));
    result.system_interval = bootstrap(metric, evaluation.kept(m), resampling.options);
    return result;
  }
  const auto test = resampling.randomization ? paired_randomization : paired_bootstrap;
  return test(metric, evaluation.kept(m), baseline->kept(m), resampling.options);
}

Json resampling_as_json(const Evaluation& evaluation, const Evaluation* baseline,
                        const Resampling& resampling) {
  Json object{{"kind", resampling.randomization ? "randomization" : "bootstrap"},
              {"trials", resampling.options.trials},
              {"seed", resampling.options.seed}};
  const auto side = [&](const ChosenMetric& chosen, double score, const Interval& interval) {
    Json result{{"score", in_json(chosen, score)}};
    if (!resampling.randomization) {
      result["mean"] = in_json(chosen, interval.mean);
      result["interval"] = {in_json(chosen, interval.low), in_json(chosen, interval.high)};
    }
    return result;
  };
  for (size_t m = 0; m < evaluation.metrics().size(); ++m) {
    const ChosenMetric& chosen = evaluation.metrics()[m];
    const PairedResult result = resample(evaluation, baseline, m, resampling);
    Json entry{{"system", side(chosen, result.system, result.system_interval)}};
    if (baseline != nullptr) {
      entry["baseline"] = side(chosen, result.baseline, result.baseline_interval);
      entry["p-value"] = result.p_value;
    }
    entry["signature"] = full_signature(*chosen.metric, evaluation.references(), resampling.settings());
    object[chosen.key] = entry;
  }
  return object;
}

void print_resampling_table(const Evaluation& evaluation, const Evaluation* baseline,
                            const Resampling& resampling) {
  const auto cell = [&](double score, const Interval& interval) {
    if (resampling.randomization) return fmt::format("{:.2f}", score);
    return fmt::format("{:.2f} ({:.2f} ± {:.2f})", score, interval.mean, interval.half_width());
  };
  print("sequences  {}\n", evaluation.lines());
  print("{:<20} {:<22}{}\n", "metric", "system", baseline ? fmt::format(" {:<22} p-value", "baseline") : "");
  for (size_t m = 0; m < evaluation.metrics().size(); ++m) {
    const Metric& metric = *evaluation.metrics()[m].metric;
    const PairedResult result = resample(evaluation, baseline, m, resampling);
    print("{:<20} {:<22}", metric.name(), cell(result.system, result.system_interval));
    if (baseline) print(" {:<22} {:<7.4f}", cell(result.baseline, result.baseline_interval), result.p_value);
    print("  {}\n", full_signature(metric, evaluation.references(), resampling.settings()));
  }
}

}  // namespace

std::string Resampling::settings() const {
  return fmt::format("{}:{}|seed:{}", randomization ? "ar" : "bs", options.trials, options.seed);
}

Evaluation::Evaluation(const std::vector<ChosenMetric>& metrics, size_t references, bool keep_lines)
    : metrics_(metrics), references_(references), keep_lines_(keep_lines) {
  for (size_t m = 0; m < metrics.size(); ++m) {
    const auto first =
        std::find_if(metrics.begin(), metrics.end(), [](const auto& other) { return other.is_rate(); });
    source_.push_back(metrics[m].is_rate() ? static_cast<size_t>(first - metrics.begin()) : m);
    last_.emplace_back();
    kept_.push_back({metrics[m].metric->width(), {}});
    sums_.emplace_back(metrics[m].metric->width());
  }
}

void Evaluation::add(std::span<const std::string> hypotheses, ReferenceSets references) {
  lines_ += static_cast<int64_t>(hypotheses.size());
  for (size_t m = 0; m < metrics_.size(); ++m) {
    if (source_[m] != m) continue;
    last_[m] = collect_statistics(*metrics_[m].metric, hypotheses, references);
    for (size_t line = 0; line < last_[m].lines(); ++line) {
      for (size_t i = 0; i < sums_[m].size(); ++i) sums_[m][i] += last_[m].row(line)[i];
    }
    if (keep_lines_) {
      kept_[m].values.insert(kept_[m].values.end(), last_[m].values.begin(), last_[m].values.end());
    }
  }
}

void print_lines(const Evaluation& evaluation, bool json) {
  const auto& metrics = evaluation.metrics();
  for (size_t line = 0; line < evaluation.last(0).lines(); ++line) {
    Json object;
    std::string columns;
    for (size_t m = 0; m < metrics.size(); ++m) {
      const double score = metrics[m].metric->score(evaluation.last(m).row(line));
      object[metrics[m].key] = in_json(metrics[m], score);
      columns += fmt::format("{}{:.4f}", m == 0 ? "" : "\t", score);
    }
    print("{}\n", json ? object.dump() : columns);
  }
}

void print_scores(const Evaluation& evaluation, const Evaluation* baseline,
                  const std::optional<Resampling>& resampling, bool json) {
  if (json) {
    Json object = scores_as_json(evaluation);
    if (resampling) object["resampling"] = resampling_as_json(evaluation, baseline, *resampling);
    print("{}\n", object.dump());
  } else if (resampling) {
    print_resampling_table(evaluation, baseline, *resampling);
  } else {
    print_table(evaluation);
  }
}

}  // namespace transduce::cli
