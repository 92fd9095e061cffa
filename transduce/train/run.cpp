#include "transduce/train/run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "transduce/base/file.h"

namespace transduce {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// DIRECTORY/log.jsonl: one JSON object a line.
class JsonLog {
 public:
  explicit JsonLog(const std::string& directory) : path_(directory + "/log.jsonl") {}

  // The file is begun at the first line, so that a run that fails before leaves an older log alone.
  void write(const nlohmann::ordered_json& object) {
    if (!file_.is_open()) file_.open(path_);
    file_ << object.dump() << '\n' << std::flush;
    if (!file_) fail_run("cannot write '{}': {}", path_, std::strerror(errno));
  }

 private:
  std::string path_;
  std::ofstream file_;
};

class Run {
 public:
  Run(TrainingRun& run, RunObserver& observer)
      : run_(run),
        observer_(observer),
        steps_(planned_steps(run.options, *run.batches)),
        trainer_(*run.model->transformer, with_steps(run.trainer, steps_)),
        log_(run.directory),
        interval_(interval()) {}

  void go() {
    progress_.steps = steps_;
    if (validating()) {
      validate_and_keep();
    } else {
      save();  // what cannot be written is better known now than at the end
    }
    while (!finished() && !out_of_patience()) {
      update();
      const bool due = finished() || progress_.report.update % interval_ == 0;
      if (due && validating()) validate_and_keep();
      if (due && !validating() && still_sound()) save();
    }
    observer_.on_end(progress_);
  }

 private:
  static TrainerOptions with_steps(TrainerOptions options, int64_t steps) {
    options.schedule.steps = steps;
    return options;
  }

  bool validating() const { return !run_.validation.empty(); }

  // Epochs differ by a batch or so, so their number ends a run, not the number of updates that was planned.
  bool finished() const {
    const RunOptions& o = run_.options;
    return (o.epochs > 0 && run_.batches->epochs() >= static_cast<double>(o.epochs)) ||
           (o.steps > 0 && progress_.report.update >= o.steps);
  }

  int64_t interval() const {
    if (run_.options.valid_every > 0) return run_.options.valid_every;
    const int64_t epoch = run_.batches->batches_per_epoch() / run_.options.accumulate;
    return std::max<int64_t>(1, epoch > 0 ? epoch : steps_ / 10);
  }

  // An earlier model in the directory is replaced only now that there is another.
  void save() {
    if (!std::exchange(described_, true)) {
      save_description(run_.directory, *run_.model);
      if (!run_.settings.empty()) write_file_atomic(run_.directory + "/train.toml", run_.settings);
    }
    save_parameters(run_.directory, *run_.model);
  }

  // Whether the model still gives finite numbers: an update may be finite and ruin it all the same.
  bool still_sound() const {
    return std::isfinite(validate(*run_.model->transformer, last_batch_, run_.validation_batches).loss);
  }

  bool out_of_patience() const { return run_.options.patience > 0 && without_best_ >= run_.options.patience; }

  void update() {
    const Clock::time_point begin = Clock::now();
    std::vector<Seq2SeqBatch> group;
    for (int64_t i = 0; i < run_.options.accumulate; ++i) {
      last_batch_ = run_.batches->next();
      for (Seq2SeqBatch& part :
           make_micro_batches(last_batch_, run_.model->transformer->config().source_end)) {
        group.push_back(std::move(part));
      }
    }
    progress_.report = trainer_.update(group);
    const Clock::time_point end = Clock::now();
    progress_.tokens_per_second =
        static_cast<double>(progress_.report.target_tokens) / seconds_between(begin, end);
    progress_.seconds = seconds_between(start_, end);
    progress_.epoch = run_.batches->epochs();
    const UpdateReport& r = progress_.report;
    log_.write({{"step", r.update},
                {"epoch", progress_.epoch},
                {"loss", r.loss},
                {"learning_rate", r.learning_rate},
                {"gradient_norm", r.gradient_norm},
                {"target_tokens", r.target_tokens},
                {"tokens_per_second", progress_.tokens_per_second},
                {"seconds", progress_.seconds},
                {"applied", r.applied}});
    observer_.on_update(progress_);
  }

  std::vector<Score> scores() const {
    const Validation v = validate(*run_.model->transformer, run_.validation, run_.validation_batches);
    std::vector<Score> scores{{"loss", v.loss, false},
                              {"perplexity", v.perplexity, false},
                              {"next-token-accuracy", v.token_accuracy, true}};
    if (run_.more_scores) {
      for (Score& score : run_.more_scores()) scores.push_back(std::move(score));
    }
    return scores;
  }

  // The score that decides. A wrong name is found before the first update, where it costs nothing.
  const Score& deciding(const std::vector<Score>& scores) const {
    std::string known;
    for (const Score& score : scores) {
      if (score.name == run_.options.best_metric) return score;
      known += (known.empty() ? "" : ", ") + score.name;
    }
    fail_input("unknown metric '{}': choose one of {}", run_.options.best_metric, known);
  }

  void validate_and_keep() {
    const std::vector<Score> found = scores();
    const auto& [metric, value, higher_is_better] = deciding(found);
    const bool best =
        std::isfinite(value) && (!best_ || (higher_is_better ? value > *best_ : value < *best_));
    if (best) best_ = value;
    without_best_ = best ? 0 : without_best_ + 1;
    if (best) save();
    progress_.seconds = seconds_between(start_, Clock::now());
    nlohmann::ordered_json line{{"step", progress_.report.update}, {"validation", true}};
    for (const Score& score : found) line[score.name] = score.value;
    line["best"] = best;
    line["seconds"] = progress_.seconds;
    log_.write(line);
    observer_.on_validation(progress_, found, best);
  }

  TrainingRun& run_;
  RunObserver& observer_;
  int64_t steps_;
  Trainer trainer_;
  JsonLog log_;
  int64_t interval_;  // updates between validations
  RunObserver::Progress progress_;
  Clock::time_point start_ = Clock::now();
  std::optional<double> best_;
  bool described_ = false;
  std::vector<Example> last_batch_;
  int64_t without_best_ = 0;
};

void check(const RunOptions& o) {
  constexpr int64_t kMost = 1000000000;
  check_input(o.steps >= 0 && o.steps <= kMost, "steps {} is out of range: give 1 to {}", o.steps, kMost);
  check_input(o.epochs >= 0 && o.epochs <= 1000000, "epochs {} is out of range: give 1 to 1000000", o.epochs);
  check_input(o.accumulate >= 1 && o.accumulate <= 4096, "accumulate {} is out of range: give 1 to 4096",
              o.accumulate);
  check_input(o.valid_every >= 0, "valid-every {} is out of range: give a number of updates", o.valid_every);
  check_input(o.patience >= 0, "patience {} is out of range: give a number of validations", o.patience);
}

}  // namespace

int64_t planned_steps(const RunOptions& options, const BatchSource& batches) {
  check(options);
  int64_t steps = options.steps;
  if (options.epochs > 0) {
    check_input(
        batches.batches_per_epoch() > 0,
        "a made-up task without a number of examples has no epochs: give steps, or the number of examples");
    const int64_t wanted =
        (options.epochs * batches.batches_per_epoch() + options.accumulate - 1) / options.accumulate;
    steps = steps > 0 ? std::min(steps, wanted) : wanted;
  }
  check_input(steps > 0, "the run has no end: give steps or epochs");
  return steps;
}

void train(TrainingRun& run, RunObserver& observer) { Run(run, observer).go(); }

}  // namespace transduce
