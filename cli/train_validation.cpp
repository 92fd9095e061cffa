#include "cli/train_validation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/evaluation.h"
#include "transduce/decode/translator.h"

namespace transduce::cli {
namespace {

// Generates with a model that training goes on changing.
class Generation {
 public:
  Generation(const Seq2SeqModel& model, std::vector<ChosenMetric> metrics, int64_t beam, StopQuestion stop)
      : model_(model), metrics_(std::move(metrics)), stop_(std::move(stop)) {
    options_.search.beam = beam;
    options_.search.validate();
  }

  void add(TextPair pair) {
    sources_.push_back(std::move(pair.source));
    references_.push_back(std::move(pair.target));
  }

  Generated run() const {
    Generated all;
    const Translator translator(model_, options_);
    Evaluation evaluation(metrics_, 1, false);
    constexpr size_t lines = 128;  // translated between two questions whether to stop
    for (size_t begin = 0; begin < sources_.size() && !(stop_ && stop_()); begin += lines) {
      const size_t count = std::min(lines, sources_.size() - begin);
      std::vector<std::string> hypotheses;
      for (const auto& found : translator.translate(std::span(sources_).subspan(begin, count))) {
        hypotheses.push_back(found.front().text);
        const size_t line = begin + hypotheses.size() - 1;
        if (is_sample(line)) all.samples.push_back({sources_[line], references_[line], hypotheses.back()});
      }
      const auto first = references_.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::vector<std::vector<std::string>> references{
          {first, first + static_cast<std::ptrdiff_t>(count)}};
      evaluation.add(hypotheses, references);
    }
    for (size_t m = 0; m < metrics_.size() && evaluation.lines() > 0; ++m) {
      const ChosenMetric& chosen = metrics_[m];
      const double score = chosen.metric->score(evaluation.sums(m));
      all.scores.push_back({chosen.key, chosen.is_rate() ? score / 100.0 : score,
                            chosen.metric->higher_is_better(), chosen.is_rate()});
    }
    return all;
  }

 private:
  // Five lines, evenly spread; all of fewer.
  bool is_sample(size_t line) const {
    constexpr size_t kSamples = 5;
    const size_t lines = sources_.size(), k = (line * kSamples + lines - 1) / lines;
    return lines <= kSamples || (k < kSamples && k * lines / kSamples == line);
  }

  const Seq2SeqModel& model_;
  std::vector<ChosenMetric> metrics_;
  StopQuestion stop_;
  Translator::Options options_;
  std::vector<std::string> sources_, references_;
};

}  // namespace

void ValidationOptions::add_to(CLI::App& app, RunOptions& run) {
  const std::string group = "Validation";
  run_ = &run;
  app.add_option("--valid-every", run.valid_every,
                 "updates between validations; 0: each epoch, or a tenth of the run")
      ->group(group);
  app.add_option("--valid-decode", decode_,
                 "validation pairs whose target is generated and compared too; -1: all for a task, and with "
                 "--valid-metrics or a --best-metric of that kind, else none")
      ->group(group);
  app.add_option("--valid-beam", beam_, "beam of that; 1 is greedy search")->group(group);
  metrics_.add_validation_to(app);
  app.add_option("--best-metric", run.best_metric,
                 "the score that decides which model is kept and when patience is lost: loss, perplexity, "
                 "next-token-accuracy, or one of --valid-metrics")
      ->group(group);
  app.add_option("--patience", run.patience,
                 "early stopping: end after so many validations without a new best; 0: never")
      ->group(group);
}

std::function<Generated()> ValidationOptions::generated(const Seq2SeqModel& model,
                                                        std::vector<TextPair> pairs, bool made_up,
                                                        const StopQuestion& stop) {
  const bool asked = metrics_.chosen() || MetricOptions::known(run_->best_metric);
  check_input(decode_ >= -1, "valid-decode {} is out of range: give a number of pairs, or -1", decode_);
  check_input(decode_ != 0 || !asked,
              "--valid-metrics and --best-metric {} need generated output: leave out --valid-decode 0",
              run_->best_metric);
  check_input(!asked || !pairs.empty(),
              "--valid-metrics and --best-metric need validation data: give --valid");
  const bool wanted = decode_ > 0 || (decode_ < 0 && (made_up || asked));
  if (!wanted || pairs.empty()) return nullptr;
  if (decode_ > 0 && decode_ < static_cast<int64_t>(pairs.size())) pairs.resize(static_cast<size_t>(decode_));

  const TokenizerSpec units = model.target->spec();
  std::vector<ChosenMetric> chosen = metrics_.choose(units, !made_up, false);
  const auto is_best_metric = [&](const ChosenMetric& c) { return c.key == run_->best_metric; };
  if (MetricOptions::known(run_->best_metric) && std::none_of(chosen.begin(), chosen.end(), is_best_metric)) {
    for (const ChosenMetric& c : chosen) metrics_.also_choose(c.key);
    metrics_.also_choose(run_->best_metric);
    chosen = metrics_.choose(units, !made_up, false);
  }
  const auto generation = std::make_shared<Generation>(model, std::move(chosen), beam_, stop);
  for (TextPair& pair : pairs) generation->add(std::move(pair));
  return [generation] { return generation->run(); };
}

}  // namespace transduce::cli
