#include "transduce/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "transduce/base/file.h"
#include "transduce/base/parallel.h"
#include "transduce/base/text.h"
#include "transduce/train/average.h"
#include "transduce/train/json_log.h"
#include "transduce/train/report.h"

namespace transduce {
namespace {

// A text as the log keeps it: at most 1,000 bytes, no character cut in two.
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 1000;
  if (text.size() <= kMost) return text;
  size_t length = 0;
  for (const std::string_view character : utf8_characters(std::string_view(text).substr(0, kMost))) {
    if (length + 4 > kMost) break;
    length += character.size();
  }
  return text.substr(0, length) + "…";
}

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class Run {
 public:
  Run(TrainingRun& run, RunObserver& observer)
      : run_(run),
        options_(run.options),
        observer_(observer),
        steps_(planned_steps(run.options, *run.batches)),
        parameters_(run.model->transformer->parameters()),
        trainer_(*run.model->transformer, with_steps(run.trainer, steps_)),
        log_(run.directory->model_directory() + "/log.jsonl") {
    state_.data = run.batches->fingerprint();
    state_.validation_data = fingerprint(run.validation);
    state_.threads = threads();
    state_.micro_batch_tokens = run.micro_batch_tokens;
    split_is_new_ = run.micro_batch_tokens !=
                    (run.resume ? run.resume->state.micro_batch_tokens : default_micro_batch_tokens);
    state_.best_metric = options_.best_metric;
    options_.keep = std::max(options_.keep, options_.average_last);
  }

  RunResult go() {
    progress_.steps = steps_;
    if (run_.resume) resume();
    RunResult result{loop(), step(), std::max<int64_t>(saved_, 0), 0};
    if (result.end != RunResult::End::stopped && options_.average_last > 0) {
      result.averaged = keep_average();
      if (result.averaged == 0 && stopping()) result.end = RunResult::End::stopped;
    }
    end(result.end == RunResult::End::finished          ? "finished"
        : result.end == RunResult::End::out_of_patience ? "out of patience"
                                                        : "stopped");
    observer_.on_end(progress_);
    return result;
  }

  // Notes how the run has ended; resumed, it forgets that. Errors: RunError when the log cannot be written.
  void end(const std::string& how, const std::string& reason = "") {
    if (!log_.begun()) return;  // an earlier log is not this run's
    nlohmann::ordered_json line{{"step", step()}, {"end", how}};
    if (!reason.empty()) line["reason"] = reason;
    log(line);
    write_report();
  }

 private:
  static TrainerOptions with_steps(TrainerOptions options, int64_t steps) {
    options.schedule.steps = steps;
    return options;
  }

  RunResult::End loop() {
    for (;;) {
      const bool best = validation_is_due() && validate_and_log();
      const bool stop = stopping(), end = finished() || out_of_patience();
      if (best || (saved_ != step() && (saving_is_due() || stop || end))) save(best);
      if (stop) return RunResult::End::stopped;
      if (end) return finished() ? RunResult::End::finished : RunResult::End::out_of_patience;
      update();
    }
  }

  int64_t step() const { return trainer_.counters().updates; }
  bool validating() const { return !run_.validation.empty(); }
  bool stopping() const { return run_.stop && run_.stop(); }

  // Epochs differ by a batch or so, so their number ends a run, not the number of updates that was planned.
  bool finished() const {
    return (options_.epochs > 0 && run_.batches->epochs() >= static_cast<double>(options_.epochs)) ||
           (options_.steps > 0 && step() >= options_.steps);
  }

  bool out_of_patience() const { return options_.patience > 0 && state_.without_best >= options_.patience; }

  bool at_interval() const {
    if (step() == 0 || finished()) return true;
    if (options_.valid_every > 0) return step() % options_.valid_every == 0;
    if (run_.batches->batches_per_epoch() > 0) return run_.batches->at_epoch_end();
    return step() % std::max<int64_t>(1, steps_ / 10) == 0;
  }

  bool validation_is_due() const { return validating() && state_.validated != step() && at_interval(); }

  bool saving_is_due() const {
    return options_.save_every > 0 && step() > 0 ? step() % options_.save_every == 0 : at_interval();
  }

  void resume() {
    const auto& [state, tensors] = *run_.resume;
    for (const auto& [name, tensor] : trainer_.tensors()) {
      const auto found = tensors.find(name);
      // A moving average that was not kept before begins with the parameters, which come first.
      const bool begins = found == tensors.end() && name == "average";
      const Tensor& from = begins ? parameters_.values() : found == tensors.end() ? Tensor() : found->second;
      check_input(!from.empty() && from.shape() == tensor.shape() && from.dtype() == tensor.dtype(),
                  "the checkpoint in '{}' does not fit the model: '{}' must be {} {}",
                  run_.directory->model_directory(), name, name_of(tensor.dtype()),
                  to_string(tensor.shape()));
      tensor.copy_from(from);
    }
    run_.directory->go_back_to(state.trainer.updates);
    trainer_.set_counters(state.trainer);
    run_.batches->seek(state.position);
    log_.resume(state.log_bytes);
    read_history();
    state_.validated = state.validated;
    if (state.best_metric == options_.best_metric) {
      state_.best = state.best;
      state_.without_best = state.without_best;
    }
    saved_ = step();
    described_ = true;
    progress_.report.update = step();
    progress_.epoch = run_.batches->epochs();
    progress_.seconds = state.seconds;
    run_.resume.reset();  // its memory is needed no more
    if (!run_.settings.empty()) save_settings();
  }

  void log(const nlohmann::ordered_json& line) {
    if (std::exchange(split_is_new_, false)) {
      log({{"step", std::max<int64_t>(saved_, 0)}, {"micro_batch_tokens", run_.micro_batch_tokens}});
    }
    log_.write(line);
    history_.add(line);
  }

  void read_history() {
    try {
      history_ = TrainingHistory::read(run_.directory->model_directory() + "/log.jsonl");
    } catch (const Error& error) {  // the page lacks what was before
      observer_.on_warning(error.what());
    }
  }

  void write_report() {
    const std::string& directory = run_.directory->model_directory();
    try {
      write_file_atomic(directory + "/report.html",
                        training_report(history_, run_.settings, name_of_model(directory)));
    } catch (const Error& error) {
      if (!std::exchange(report_failed_, true)) observer_.on_warning(error.what());
    }
  }

  void save_settings() const {
    write_file_atomic(run_.directory->model_directory() + "/train.toml", run_.settings);
  }

  // Whether the model still gives finite numbers: an update may be finite and ruin it all the same.
  bool sound() const {
    return last_batch_.empty() ||
           std::isfinite(validate(*run_.model->transformer, last_batch_, run_.validation_batches).loss);
  }

  // A checkpoint, and the model on disk where this one takes its place. `best`: known to be sound.
  void save(bool best) {
    if (!best && !sound()) return;
    const TrainingDirectory& directory = *run_.directory;
    if (!std::exchange(described_, true)) {  // an earlier model is replaced only now that there is another
      directory.clear();
      save_description(directory.model_directory(), *run_.model);
      if (!run_.settings.empty()) save_settings();
    }
    {
      const ExchangedParameters averaged(parameters_, trainer_.average());
      if (best || !validating()) save_parameters(directory.model_directory(), *run_.model);
      if (options_.keep > 0 && step() > 0) save_parameters_to(directory.step_file(step()), *run_.model);
    }
    state_.trainer = trainer_.counters();
    state_.position = run_.batches->position();
    state_.log_bytes = log_.flush();
    state_.seconds = progress_.seconds;
    directory.save(state_, trainer_.tensors());
    directory.keep_last(options_.keep);
    saved_ = step();
  }

  // One update with as many batches as the epoch still has, at most `accumulate`.
  void update() {
    const Clock::time_point begin = Clock::now();
    std::vector<Seq2SeqBatch> group;
    int64_t batches = 0;
    do {
      last_batch_ = run_.batches->next();
      for (Seq2SeqBatch& part : make_micro_batches(last_batch_, run_.model->transformer->config().source_end,
                                                   run_.micro_batch_tokens)) {
        group.push_back(std::move(part));
      }
    } while (++batches < options_.accumulate && !run_.batches->at_epoch_end());
    progress_.report = trainer_.update(group);
    progress_.tokens_per_second =
        static_cast<double>(progress_.report.target_tokens) / seconds_between(begin, Clock::now());
    progress_.epoch = run_.batches->epochs();
    pass_time();
    const UpdateReport& r = progress_.report;
    log({{"step", r.update},
         {"epoch", progress_.epoch},
         {"loss", r.loss},
         {"learning_rate", r.learning_rate},
         {"gradient_norm", r.gradient_norm},
         {"target_tokens", r.target_tokens},
         {"applied", r.applied},
         {"tokens_per_second", progress_.tokens_per_second},
         {"seconds", progress_.seconds}});
    observer_.on_update(progress_);
  }

  void pass_time() {
    const Clock::time_point now = Clock::now();
    progress_.seconds += seconds_between(std::exchange(last_time_, now), now);
  }

  Generated measure() const {
    const Validation v =
        validate(*run_.model->transformer, run_.validation, run_.validation_batches, run_.stop);
    Generated all;
    if (run_.generate && !stopping()) all = run_.generate();
    all.scores.insert(all.scores.begin(), {{"loss", v.loss, false, false},
                                           {"perplexity", v.perplexity, false, false},
                                           {"next-token-accuracy", v.token_accuracy, true, true}});
    return all;
  }

  // Whether they are better than the best so far, which they then are. A wrong name is found before the
  // first update, where it costs nothing.
  bool is_best(const std::vector<Score>& scores) {
    std::string known;
    for (const auto& [name, value, higher_is_better, is_fraction] : scores) {
      known += (known.empty() ? "" : ", ") + name;
      if (name != options_.best_metric) continue;
      const bool better = !state_.best || (higher_is_better ? value > *state_.best : value < *state_.best);
      const bool best = better && std::isfinite(value) && std::isfinite(scores.front().value) && sound();
      if (best) state_.best = value;
      return best;
    }
    fail_input("unknown metric '{}': choose one of {}", options_.best_metric, known);
  }

  // Returns whether the model is the best so far.
  bool validate_and_log() {
    RunObserver::ValidationReport report;
    {
      const ExchangedParameters averaged(parameters_, trainer_.average());
      static_cast<Generated&>(report) = measure();
    }
    if (stopping()) return false;  // the scores may be half of them; they are found again after resuming
    report.best = is_best(report.scores);
    state_.validated = step();
    state_.without_best = report.best ? 0 : state_.without_best + 1;
    log_validation(report);
    return report.best;
  }

  void log_validation(const RunObserver::ValidationReport& report) {
    pass_time();
    nlohmann::ordered_json line{{"step", step()}, {"validation", true}};
    if (report.averaged > 0) line["averaged"] = report.averaged;
    for (const Score& score : report.scores) line[score.name] = score.value;
    line["best"] = report.best;
    line["seconds"] = progress_.seconds;
    for (const Sample& sample : report.samples) {
      line["samples"].push_back({{"source", shortened(sample.source)},
                                 {"reference", shortened(sample.reference)},
                                 {"output", shortened(sample.output)}});
    }
    log(line);
    write_report();
    observer_.on_validation(progress_, report);
  }

  // The mean of the last checkpoints becomes the model if it is the best, or if nobody can tell. The run's
  // state does not know of it, so that it could still be resumed. Returns how many were averaged, 0 when
  // others are better.
  int64_t keep_average() {
    std::vector<StepFile> files = step_files(run_.directory->model_directory());
    const auto wanted = static_cast<size_t>(options_.average_last);
    if (files.size() > wanted) files.erase(files.begin(), files.end() - options_.average_last);
    if (files.empty()) return 0;
    std::vector<std::string> paths;
    for (const StepFile& file : files) paths.push_back(file.path);
    average_parameters(paths, *run_.model->transformer);
    RunObserver::ValidationReport report;
    report.averaged = static_cast<int64_t>(files.size());
    if (validating()) {
      static_cast<Generated&>(report) = measure();
      if (stopping()) return 0;
      report.best = is_best(report.scores);
      log_validation(report);
      if (!report.best) return 0;
      run_.directory->set_best_aside();
    }
    save_parameters(run_.directory->model_directory(), *run_.model);
    return report.averaged;
  }

  TrainingRun& run_;
  RunOptions options_;
  RunObserver& observer_;
  int64_t steps_;
  ParameterSet& parameters_;
  Trainer trainer_;
  JsonLog log_;
  TrainingHistory history_;  // what it says
  RunState state_;
  RunObserver::Progress progress_;
  Clock::time_point last_time_ = Clock::now();
  std::vector<Example> last_batch_;
  bool described_ = false, report_failed_ = false;
  bool split_is_new_ = false;  // micro-batches are not what they were, and the log does not say so yet
  int64_t saved_ = -1;         // the update of the last checkpoint
};

}  // namespace

void RunOptions::validate() const {
  constexpr int64_t kMost = 1000000000;
  check_input(steps >= 0 && steps <= kMost, "steps {} is out of range: give 1 to {}", steps, kMost);
  check_input(epochs >= 0 && epochs <= 1000000, "epochs {} is out of range: give 1 to 1000000", epochs);
  check_input(accumulate >= 1 && accumulate <= 4096, "accumulate {} is out of range: give 1 to 4096",
              accumulate);
  check_input(valid_every >= 0, "valid-every {} is out of range: give a number of updates", valid_every);
  check_input(patience >= 0, "patience {} is out of range: give a number of validations", patience);
  check_input(save_every >= 0, "save-every {} is out of range: give a number of updates", save_every);
  check_input(keep >= 0 && keep <= 10000, "keep {} is out of range: give 0 to 10000", keep);
  check_input(average_last >= 0 && average_last <= 10000, "average-last {} is out of range: give 0 to 10000",
              average_last);
}

int64_t planned_steps(const RunOptions& options, const BatchSource& batches) {
  options.validate();
  int64_t steps = options.steps;
  if (options.epochs > 0) {
    check_input(
        batches.batches_per_epoch() > 0,
        "a made-up task without a number of examples has no epochs: give steps, or the number of examples");
    const int64_t wanted =
        options.epochs * ((batches.batches_per_epoch() + options.accumulate - 1) / options.accumulate);
    steps = steps > 0 ? std::min(steps, wanted) : wanted;
  }
  check_input(steps > 0, "the run has no end: give steps or epochs");
  return steps;
}

RunResult train(TrainingRun& run, RunObserver& observer) {
  Run all(run, observer);
  try {
    return all.go();
  } catch (const Error& error) {
    try {
      all.end("failed", error.what());
    } catch (const Error&) {  // the first is the one to tell
    }
    throw;
  }
}

}  // namespace transduce
