#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/stop_signals.h"
#include "cli/text_options.h"
#include "cli/train_corpus.h"
#include "cli/train_loop.h"
#include "cli/train_plan.h"
#include "cli/train_resume.h"
#include "transduce/base/figures.h"
#include "transduce/base/file.h"
#include "transduce/base/memory.h"
#include "transduce/base/parallel.h"
#include "transduce/base/text.h"

namespace transduce::cli {
namespace {

struct DataOptions {
  std::vector<std::string> train, train_source, train_target;
  std::vector<std::string> valid, valid_source, valid_target;
  std::string task;
  TaskSpec task_spec;
  int64_t task_examples = 0;
  int64_t valid_examples = 128;

  void add_to(CLI::App& app) {
    const std::string group = "Data";
    app.add_option("--train", train,
                   "training pairs: lines of source<TAB>target; may repeat, may be .gz, - is standard input")
        ->take_all()
        ->group(group);
    app.add_option("--train-source", train_source, "source side of parallel training files")
        ->take_all()
        ->group(group);
    app.add_option("--train-target", train_target, "target side of parallel training files")
        ->take_all()
        ->group(group);
    app.add_option("--valid", valid, "validation pairs, like --train")->take_all()->group(group);
    app.add_option("--valid-source", valid_source, "source side of parallel validation files")
        ->take_all()
        ->group(group);
    app.add_option("--valid-target", valid_target, "target side of parallel validation files")
        ->take_all()
        ->group(group);
    app.add_option("--task", task, "instead of files, a made-up task: reverse, copy or sort")->group(group);
    app.add_option("--task-alphabet", task_spec.alphabet_size, "symbols of the task")->group(group);
    app.add_option("--task-min-length", task_spec.min_length, "shortest source of the task")->group(group);
    app.add_option("--task-max-length", task_spec.max_length, "longest source of the task")->group(group);
    app.add_option("--task-examples", task_examples,
                   "train on so many fixed examples, in epochs; 0: always fresh ones")
        ->group(group);
    app.add_option("--valid-examples", valid_examples, "unseen examples of the task to validate on")
        ->group(group);
  }

  // Errors: InputError when standard input is named more than once.
  void check_standard_input() const {
    int64_t named = 0;
    for (const auto* files : {&train, &train_source, &train_target, &valid, &valid_source, &valid_target}) {
      named += std::count(files->begin(), files->end(), "-");
    }
    check_input(named <= 1, "standard input (-) can be one of the files only");
  }
};

// A folder that goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "transduce-XXXXXX").string();
    check_input(mkdtemp(path_.data()) != nullptr, "cannot make a temporary folder {}: set TMPDIR to another",
                in_quotes(path_, 4096));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What is trained on, once text has become ids.
struct Prepared {
  std::shared_ptr<const Tokenizer> source, target;
  std::vector<TextPair> valid_pairs;
  std::vector<Example> valid;
  std::unique_ptr<BatchSource> batches;
  int64_t train_pairs = 0;
  int64_t source_tokens = 0, target_tokens = 0;  // of these, end symbols counted
  int64_t longest = 0;                           // tokens of the longest text on either side
  std::vector<std::string> notes;                // on texts that were too long

  // A training that is resumed has its tokenizers.
  void tokenize(const TextOptions& text, const TextOptions::LinesOfSide& lines) {
    if (source) return;
    auto tokenizers = text.tokenizers(lines);
    source = std::move(tokenizers.source);
    target = std::move(tokenizers.target);
  }

  // Of an index of ids.
  void count(const CorpusIndex& corpus) {
    for (const PairLengths& pair : corpus.lengths()) {
      source_tokens += pair.source + 1;
      target_tokens += pair.target + 1;
    }
  }

  // Notes what a limit did to texts.
  void limited(const LengthLimit& most, const char* what, const LengthReport& report) {
    longest = std::max(longest, report.over > 0 ? most.tokens : report.longest);
    if (report.over > 0) notes.push_back(describe(report, most, what));
  }
};

PairFiles pair_files(const char* what, const std::vector<std::string>& pairs,
                     const std::vector<std::string>& sources, const std::vector<std::string>& targets) {
  check_input(pairs.empty() || (sources.empty() && targets.empty()),
              "--{} and --{}-source/--{}-target are two ways to name the data: give one of them", what, what,
              what);
  check_input(sources.empty() == targets.empty(),
              "--{}-source and --{}-target belong together: one is missing", what, what);
  return {pairs, sources, targets};
}

std::vector<TextPair> read_text(const PairFiles& files) {
  if (files.all().empty()) return {};
  return files.sources.empty() ? read_pairs(files.pairs) : read_parallel(files.sources, files.targets);
}

Prepared prepare_files(Prepared data, const DataOptions& options, const TextOptions& text,
                       const LoopOptions& loop, const LengthLimit& limit,
                       const TrainingDirectory& directory) {
  options.check_standard_input();
  const PairFiles files = pair_files("train", options.train, options.train_source, options.train_target);
  check_input(!files.all().empty(),
              "there is nothing to train on: give --train PAIRS.tsv, --train-source and --train-target, "
              "or --task reverse");
  const SubwordSampling sampling = text.sampling(loop.trainer.seed);
  data.valid_pairs =
      read_text(pair_files("valid", options.valid, options.valid_source, options.valid_target));
  const TrainingPairs pairs = pairs_of(std::make_shared<PairInputs>(files, directory.folder()));
  data.tokenize(text, [&](std::string TextPair::*side) { return lines_of(pairs, side); });
  data.valid = encode_pairs(data.valid_pairs, *data.source, *data.target);
  data.limited(limit, "validation", limit_lengths(limit, data.valid, &data.valid_pairs));
  const IndexSettings settings{data.source, data.target, limit, sampling.alpha > 0.0};
  std::string note;
  const auto corpus = index_beside_model(directory.index_file(), pairs, settings, note);
  data.limited(limit, "training", corpus->report());
  data.train_pairs = corpus->size();
  check_input(data.train_pairs > 0, "there is nothing to train on: {}", data.notes.back());
  data.notes.push_back(note);
  if (!corpus->holds_text()) {
    data.count(*corpus);
    data.batches = corpus_batches(corpus, loop.batches);
    return data;
  }
  // What is cut at random may come out longer; nobody is told again.
  const auto sampled = [=, folder = directory.folder()](uint64_t epoch) {
    return sample_index(*corpus, settings, sampling, epoch, folder);
  };
  data.batches = corpus_batches(sampled, loop.batches);
  return data;
}

Prepared prepare_task(Prepared data, const DataOptions& options, const TextOptions& text,
                      const LoopOptions& loop, const TrainingDirectory& directory) {
  check_input(options.train.empty() && options.train_source.empty() && options.train_target.empty() &&
                  options.valid.empty() && options.valid_source.empty() && options.valid_target.empty(),
              "--task makes its own data: leave out --train and --valid");
  check_input(text.sampling(0).alpha == 0.0, "--subword-sampling goes with files, not with --task");
  constexpr int64_t kMost = 10000000;
  check_input(options.task_examples >= 0 && options.task_examples <= kMost,
              "task-examples {} is out of range: give 1 to {}, or 0 for fresh ones", options.task_examples,
              kMost);
  check_input(options.valid_examples >= 0 && options.valid_examples <= kMost,
              "valid-examples {} is out of range: give 0 to {}", options.valid_examples, kMost);
  check_input(loop.batches.batch_size >= 1 && loop.batches.batch_size <= 100000,
              "a made-up task needs a batch size in examples, 1 to 100000; got {}", loop.batches.batch_size);
  TaskSpec spec = options.task_spec;
  spec.kind = parse_task_kind(options.task);
  const Task task(spec);
  data.longest = spec.max_length;
  const TrainingPairs alphabet = made_up_pairs(
      [&](int64_t) {
        return TextPair{task.alphabet(), task.alphabet()};
      },
      1, "an alphabet");
  data.tokenize(text, [&](std::string TextPair::*side) { return lines_of(alphabet, side); });
  // Validation draws from another seed, far from any that a person would choose.
  for (int64_t i = 0; i < options.valid_examples; ++i) {
    data.valid_pairs.push_back(task.example(held_out_seed(loop.trainer.seed), static_cast<uint64_t>(i)));
  }
  data.valid = encode_pairs(data.valid_pairs, *data.source, *data.target);
  if (options.task_examples == 0) {
    data.batches = task_batches(task, data.source, data.target, loop.batches);
    return data;
  }
  const TrainingPairs train = made_up_pairs(
      [=, seed = loop.trainer.seed](int64_t i) { return task.example(seed, static_cast<uint64_t>(i)); },
      options.task_examples, fmt::format("{}, seed {}", fingerprint(task), loop.trainer.seed));
  data.train_pairs = options.task_examples;
  data.notes.emplace_back();
  const auto corpus = index_beside_model(directory.index_file(), train, {data.source, data.target, {}, false},
                                         data.notes.back());
  data.count(*corpus);
  data.batches = corpus_batches(corpus, loop.batches);
  return data;
}

// A word that a shell takes as it stands.
std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "_-+=./,:@%") == std::string::npos;
  if (plain && !text.empty()) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// `before`: updates that were done when this process began.
void print_end(const RunResult& result, int64_t before, const RunOptions& options,
               const std::string& directory) {
  if (result.end == RunResult::End::stopped) {
    say("stopped at step {} and saved at step {}; to go on: transduce train --model {} --resume\n",
        result.updates, result.saved, shell_word(directory));
    return;
  }
  if (result.end == RunResult::End::out_of_patience) {
    say("{} validations in a row brought no better {}\n", options.patience, options.best_metric);
  } else if (result.updates == before) {
    say("nothing was left to do: give more --steps or --epochs, with --allow-changes\n");
  }
  const std::string averaged =
      result.averaged > 0 ? fmt::format(", the mean of the last {} checkpoints", result.averaged) : "";
  say("the model is in {}{}\n", directory, averaged);
}

// All options of `train`.
struct TrainFlags {
  std::string directory;
  ResumeOptions resuming;
  DataOptions data;
  TextOptions text;
  ModelOptions model;
  LoopOptions loop;
  MemoryOption memory;
  bool dry_run = false;

  void add_to(CLI::App& app) {
    app.add_option("--model", directory, "directory of the model to make")->required();
    resuming.add_to(app);
    data.add_to(app);
    text.add_to(app);
    model.add_to(app);
    loop.add_to(app);
    memory.add_to(app);
    app.add_flag("--dry-run", dry_run,
                 "print the plan (data, vocabulary, parameters, schedule, memory) and end, writing nothing")
        ->configurable(false);
  }
};

// What can be said of the options once the data is known, before anything is made.
void check_options(const LoopOptions& loop, const TransformerConfig& config, const Prepared& data) {
  loop.trainer.validate();
  check_input(
      !data.valid.empty() || (loop.run.patience == 0 && loop.run.best_metric == RunOptions().best_metric),
      "--patience and --best-metric need validation data: give --valid, or leave them out");
  check_input(config.positions != PositionKind::learned || data.longest < config.max_positions,
              "the longest text has {} tokens, more than {} learned positions have room for: give more "
              "--max-positions",
              data.longest, config.max_positions);
}

// A training that is resumed keeps its micro-batches, since dropout masks depend on them, unless it has
// another --memory than before. Errors: InputError when the memory does not suffice.
TrainingPlan plan_of(const TrainFlags& flags, const Parser& parser, const Prepared& data, int64_t steps,
                     const ResumedTraining* resumed) {
  const TransformerConfig config = resumed != nullptr
                                       ? resumed->description.config
                                       : with_vocabularies(flags.model.config(), *data.source, *data.target,
                                                           flags.text.joint_vocabulary());
  TrainingPlan plan{config,
                    flags.text.joint_vocabulary(),
                    data.train_pairs,
                    data.source_tokens,
                    data.target_tokens,
                    static_cast<int64_t>(data.valid.size()),
                    data.notes,
                    data.batches->batches_per_epoch(),
                    steps};
  const MemoryQuestion question{config,
                                flags.loop.trainer.average_decay > 0.0,
                                flags.loop.run.accumulate,
                                threads(),
                                resident_bytes(),
                                data.longest};
  const auto batches = sample_batches(*data.batches);
  plan.budget = flags.memory.budget(question.program);
  plan.micro_batch_tokens =
      resumed != nullptr && resumed->has_same(parser, "memory")
          ? resumed->checkpoint.state.micro_batch_tokens
          : fitting_micro_batch_tokens(question, batches, default_micro_batch_tokens, plan.budget);
  plan.need = memory_need(question, batches, plan.micro_batch_tokens);
  return plan;
}

// Learned positions have room for so many tokens and the end symbol.
LengthLimit length_limit(const TextOptions& text, const TransformerConfig& config) {
  LengthLimit limit = text.length_limit();
  const int64_t room = config.positions == PositionKind::learned ? config.max_positions - 1 : 0;
  if (room > 0 && (limit.tokens == 0 || limit.tokens > room)) limit.tokens = room;
  return limit;
}

// Begins a training, or goes on with one.
void train_with(TrainFlags& flags, const Parser& parser, std::optional<ResumedTraining> resumed) {
  LoopOptions& loop = flags.loop;
  loop.finish();
  const TransformerConfig config = flags.model.config();
  const bool made_up = !flags.data.task.empty();
  // A dry run's index goes away with it.
  std::optional<TemporaryFolder> folder;
  std::optional<TrainingDirectory> begun;
  if (flags.dry_run) begun.emplace(folder.emplace().path());
  if (!flags.dry_run && !resumed) begun.emplace(flags.directory);
  const TrainingDirectory& directory = begun ? *begun : *resumed->directory;
  Prepared data;
  if (resumed) {
    data.source = resumed->description.source;
    data.target = resumed->description.target;
  }
  data = made_up ? prepare_task(std::move(data), flags.data, flags.text, loop, directory)
                 : prepare_files(std::move(data), flags.data, flags.text, loop,
                                 length_limit(flags.text, config), directory);
  const int64_t steps = planned_steps(loop.run, *data.batches);
  loop.trainer.schedule.width = config.width;
  loop.trainer.schedule.steps = steps;
  check_options(loop, config, data);
  ResumedTraining* const before = resumed ? &*resumed : nullptr;
  const TrainingPlan plan = plan_of(flags, parser, data, steps, before);
  Seq2SeqModel model{nullptr, data.source, data.target, flags.text.joint_vocabulary()};
  TrainingRun run{nullptr,
                  parser.saved(),
                  &model,
                  data.batches.get(),
                  std::move(data.valid),
                  {64, 2 * plan.micro_batch_tokens, 0},
                  loop.trainer,
                  loop.run};
  run.micro_batch_tokens = plan.micro_batch_tokens;
  run.stop = StopSignals::asked;
  run.generate = loop.validation.generated(model, std::move(data.valid_pairs), made_up, run.stop);
  if (before != nullptr) before->check_changes(parser, run, flags.resuming.allow_changes);
  plan.print(loop);
  if (flags.dry_run) return;
  model = before != nullptr
              ? before->model(config)
              : make_model(config, data.source, data.target, model.joint_vocabulary, loop.trainer.seed);
  run.directory = &directory;
  int64_t done = -1;
  if (before != nullptr) {
    done = before->checkpoint.state.trainer.updates;
    say("resuming    after {} of {} updates\n", grouped(done), grouped(steps));
    run.resume = std::move(before->checkpoint);
  }
  TrainingProgress progress(loop.log_every, data.batches->batches_per_epoch() > 0);
  const StopSignals signals;
  print_end(train(run, progress), done, loop.run, flags.directory);
}

}  // namespace

int train_command(int argc, char** argv) {
  Parser parser(
      "train",
      "Trains a Transformer on sentence pairs or on a made-up task. Pairs are encoded once into an index "
      "beside\n"
      "the model, DIR/training/corpus.index, so a corpus may be larger than memory.",
      "  transduce train --model model/reverse --task reverse --task-min-length 5 --steps 2000\n"
      "  transduce train --model model/g2p --train train.tsv --valid dev.tsv --target-tokenizer word \\\n"
      "      --source-normalize nfd --epochs 30\n"
      "  transduce train --model model/g2p --resume\n"
      "  transduce train --model model/g2p --train train.tsv --epochs 30 --dry-run");
  TrainFlags flags;
  flags.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  std::optional<ResumedTraining> resumed = flags.resuming.begin(parser, argc, argv, flags.directory);
  train_with(flags, parser, std::move(resumed));
  return 0;
}

}  // namespace transduce::cli
