#include <algorithm>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "transduce/base/file.h"
#include "transduce/base/parallel.h"
#include "transduce/decode/translator.h"
#include "transduce/eval/error_rates.h"
#include "transduce/train/run.h"

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
    app.add_option("--train", train, "training pairs: lines of source<TAB>target; may repeat, may be .gz")
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
};

struct TextOptions {
  std::string source_tokenizer = "char", target_tokenizer = "char";
  std::string source_normalize = "none", target_normalize = "none";
  bool joint_vocabulary = false;
  int64_t vocabulary_size = 0;
  int64_t min_count = 1;

  void add_to(CLI::App& app) {
    const std::string group = "Text";
    app.add_option("--source-tokenizer", source_tokenizer, "char or word")->group(group);
    app.add_option("--target-tokenizer", target_tokenizer, "char or word")->group(group);
    app.add_option("--source-normalize", source_normalize,
                   "Unicode normal form: none, nfc, nfd (Korean syllables become letters) or nfkc")
        ->group(group);
    app.add_option("--target-normalize", target_normalize,
                   "the same for the target; nfd output is composed again")
        ->group(group);
    app.add_flag("--joint-vocabulary", joint_vocabulary, "one vocabulary for both sides")->group(group);
    app.add_option("--vocabulary-size", vocabulary_size,
                   "keep so many tokens a side, the 4 special ones counted; 0: all")
        ->group(group);
    app.add_option("--min-count", min_count, "leave out tokens seen less often")->group(group);
  }

  TokenizerSpec source() const {
    return {parse_tokenizer_kind(source_tokenizer), parse_normal_form(source_normalize)};
  }
  TokenizerSpec target() const {
    return {parse_tokenizer_kind(target_tokenizer), parse_normal_form(target_normalize)};
  }
};

struct LoopOptions {
  TrainerOptions trainer;
  RunOptions run;
  BatchOptions batches;
  std::optional<int64_t> batch_size;
  std::string optimizer = "adamw", schedule = "constant";
  int64_t log_every = 100;
  int64_t valid_decode = -1;

  void add_to(CLI::App& app) {
    OptimizerOptions& o = trainer.optimizer;
    std::string group = "Optimiser";
    app.add_option("--optimizer", optimizer, "adam or adamw (decoupled weight decay)")->group(group);
    app.add_option("--learning-rate", trainer.schedule.learning_rate, "the peak; for noam a factor")
        ->group(group);
    app.add_option("--schedule", schedule, "constant, noam, inverse-sqrt, linear or cosine")->group(group);
    app.add_option("--warmup", trainer.schedule.warmup, "updates of linear rise to the peak")->group(group);
    app.add_option("--final-learning-rate", trainer.schedule.floor, "where linear and cosine end")
        ->group(group);
    app.add_option("--beta1", o.beta1, "Adam's decay of the first moment")->group(group);
    app.add_option("--beta2", o.beta2, "Adam's decay of the second moment")->group(group);
    app.add_option("--epsilon", o.epsilon, "Adam's epsilon")->group(group);
    app.add_option("--weight-decay", o.weight_decay, "weight decay")->group(group);
    app.add_option("--clip-norm", o.clip_norm, "scale gradients down to this global norm; 0: never")
        ->group(group);
    app.add_option("--label-smoothing", trainer.label_smoothing, "mass spread over all tokens")->group(group);
    group = "Loop";
    app.add_option("--steps", run.steps, "updates")->group(group);
    app.add_option("--epochs", run.epochs,
                   "passes over the training data; with --steps, whichever ends first")
        ->group(group);
    app.add_option("--batch-size", batch_size,
                   "at most so many pairs a batch, 0: no bound; default: 64, or none beside --batch-tokens")
        ->group(group);
    app.add_option("--batch-tokens", batches.batch_tokens,
                   "at most so many real tokens a side a batch; 0: no bound")
        ->group(group);
    app.add_option("--accumulate", run.accumulate, "batches an update")->group(group);
    app.add_option("--seed", trainer.seed, "of parameters, order, dropout and made-up data")->group(group);
    app.add_option("--valid-every", run.valid_every,
                   "updates between validations; 0: each epoch, or a tenth of the run")
        ->group(group);
    app.add_option("--valid-decode", valid_decode,
                   "validation pairs that are generated greedily and compared too; -1: all for a task, none "
                   "for files")
        ->group(group);
    app.add_option("--best-metric", run.best_metric, "the validation score that decides which model is kept")
        ->group(group);
    app.add_option("--patience", run.patience, "stop after so many validations without a new best; 0: never")
        ->group(group);
    app.add_option("--log-every", log_every, "updates between log lines where there is no terminal")
        ->group(group);
  }

  // Once the flags are read.
  void finish() {
    check_input(optimizer == "adam" || optimizer == "adamw", "unknown optimizer '{}': choose adam or adamw",
                optimizer);
    trainer.optimizer.decoupled_weight_decay = optimizer == "adamw";
    trainer.schedule.kind = parse_schedule_kind(schedule);
    constexpr uint64_t kLargestSeed = INT64_MAX;  // that train.toml can hold
    check_input(trainer.seed <= kLargestSeed, "seed {} is out of range: give 0 to {}", trainer.seed,
                kLargestSeed);
    batches.seed = trainer.seed;
    batches.batch_size = batch_size.value_or(batches.batch_tokens > 0 ? 0 : 64);
  }
};

// What is trained on, once text has become ids.
struct Prepared {
  std::shared_ptr<const Tokenizer> source, target;
  std::vector<TextPair> valid_pairs;
  std::vector<Example> valid;
  std::unique_ptr<BatchSource> batches;
  int64_t train_pairs = 0;
  int64_t longest = 0;  // tokens of the longest text on either side

  void measure(const std::vector<Example>& examples) {
    for (const Example& example : examples) {
      longest =
          std::max(longest, static_cast<int64_t>(std::max(example.source.size(), example.target.size())));
    }
  }
};

std::vector<TextPair> read_text(const char* what, const std::vector<std::string>& pairs,
                                const std::vector<std::string>& sources,
                                const std::vector<std::string>& targets) {
  check_input(pairs.empty() || (sources.empty() && targets.empty()),
              "--{} and --{}-source/--{}-target are two ways to name the data: give one of them", what, what,
              what);
  check_input(sources.empty() == targets.empty(),
              "--{}-source and --{}-target belong together: one is missing", what, what);
  if (!pairs.empty()) return read_pairs(pairs);
  if (!sources.empty()) return read_parallel(sources, targets);
  return {};
}

void make_tokenizers(Prepared& data, const TextOptions& text, const std::vector<TextPair>& pairs) {
  std::vector<std::string_view> sources = sources_of(pairs), targets = targets_of(pairs);
  if (text.joint_vocabulary) {
    check_input(text.source() == text.target(),
                "--joint-vocabulary needs the same tokenizer and normal form on both sides");
    sources.insert(sources.end(), targets.begin(), targets.end());
    data.source = train_tokenizer(text.source(), sources, text.vocabulary_size, text.min_count);
    data.target = data.source;
  } else {
    data.source = train_tokenizer(text.source(), sources, text.vocabulary_size, text.min_count);
    data.target = train_tokenizer(text.target(), targets, text.vocabulary_size, text.min_count);
  }
}

Prepared prepare_files(const DataOptions& options, const TextOptions& text, const LoopOptions& loop) {
  Prepared data;
  const std::vector<TextPair> train =
      read_text("train", options.train, options.train_source, options.train_target);
  check_input(!train.empty(),
              "there is nothing to train on: give --train PAIRS.tsv, --train-source and --train-target, "
              "or --task reverse");
  data.valid_pairs = read_text("valid", options.valid, options.valid_source, options.valid_target);
  make_tokenizers(data, text, train);
  data.train_pairs = static_cast<int64_t>(train.size());
  data.valid = encode_pairs(data.valid_pairs, *data.source, *data.target);
  std::vector<Example> examples = encode_pairs(train, *data.source, *data.target);
  data.measure(data.valid);
  data.measure(examples);
  data.batches = corpus_batches(std::move(examples), loop.batches);
  return data;
}

Prepared prepare_task(const DataOptions& options, const TextOptions& text, const LoopOptions& loop) {
  check_input(options.train.empty() && options.train_source.empty() && options.train_target.empty() &&
                  options.valid.empty() && options.valid_source.empty() && options.valid_target.empty(),
              "--task makes its own data: leave out --train and --valid");
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
  Prepared data;
  data.longest = spec.max_length;
  make_tokenizers(data, text, {{task.alphabet(), task.alphabet()}});
  // Validation draws from another seed, far from any that a person would choose.
  for (int64_t i = 0; i < options.valid_examples; ++i) {
    data.valid_pairs.push_back(task.example(held_out_seed(loop.trainer.seed), static_cast<uint64_t>(i)));
  }
  data.valid = encode_pairs(data.valid_pairs, *data.source, *data.target);
  if (options.task_examples == 0) {
    data.batches = task_batches(task, data.source, data.target, loop.batches);
    return data;
  }
  std::vector<TextPair> train;
  for (int64_t i = 0; i < options.task_examples; ++i) {
    train.push_back(task.example(loop.trainer.seed, static_cast<uint64_t>(i)));
  }
  data.train_pairs = options.task_examples;
  data.batches = corpus_batches(encode_pairs(train, *data.source, *data.target), loop.batches);
  return data;
}

// Greedy translations of the first validation pairs, compared with the right ones.
std::vector<Score> score_generated(const Seq2SeqModel& model, const std::vector<TextPair>& pairs) {
  std::vector<std::string> sources;
  for (const TextPair& pair : pairs) sources.push_back(pair.source);
  const auto translations = Translator(model, {}).translate(sources);
  const ErrorRates rates = compare(translations, pairs, *model.target);
  return {{"token-accuracy", rates.token_accuracy(), true},
          {"exact-match", rates.exact_match(), true},
          {"token-error-rate", rates.token_error_rate(), false},
          {"sequence-error-rate", rates.sequence_error_rate(), false}};
}

void print_plan(const Seq2SeqModel& model, const Prepared& data, int64_t steps) {
  const TransformerConfig& c = model.transformer->config();
  say("model       {}+{} layers, width {}, {} heads, feed-forward {}, {}-norm, {}; {} parameters\n",
      c.encoder_layers, c.decoder_layers, c.width, c.heads, c.feed_forward, to_string(c.norm),
      to_string(c.activation), grouped(model.transformer->parameters().count()));
  say("vocabulary  {} source, {} target tokens{}\n", grouped(c.source_vocabulary),
      grouped(c.target_vocabulary), model.joint_vocabulary ? " (one for both sides)" : "");
  const int64_t epoch = data.batches->batches_per_epoch();
  say("data        {}, {} validation pairs\n",
      epoch > 0
          ? fmt::format("{} training pairs in {} batches an epoch", grouped(data.train_pairs), grouped(epoch))
          : std::string("fresh training examples"),
      grouped(static_cast<int64_t>(data.valid.size())));
  say("run         {} updates on {} threads\n", grouped(steps), threads());
}

}  // namespace

int train_command(int argc, char** argv) {
  Parser parser(
      "train", "Trains a Transformer on sentence pairs or on a made-up task.",
      "  transduce train --model model/reverse --task reverse --task-min-length 5 --steps 2000\n"
      "  transduce train --model model/g2p --train train.tsv --valid dev.tsv --target-tokenizer word \\\n"
      "      --source-normalize nfd --epochs 30");
  std::string directory;
  bool overwrite = false;
  DataOptions data_options;
  TextOptions text;
  ModelOptions model_options;
  LoopOptions loop;
  parser.add_option("--model", directory, "directory of the model to make")->required();
  parser.add_flag("--overwrite", overwrite, "replace the model in that directory")->configurable(false);
  data_options.add_to(parser);
  text.add_to(parser);
  model_options.add_to(parser);
  loop.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  loop.finish();

  const TransformerConfig config = model_options.config();
  check_replaceable(directory, overwrite);
  Prepared data = data_options.task.empty() ? prepare_files(data_options, text, loop)
                                            : prepare_task(data_options, text, loop);
  const int64_t steps = planned_steps(loop.run, *data.batches);
  loop.trainer.schedule.width = config.width;
  loop.trainer.schedule.steps = steps;
  loop.trainer.validate();
  check_input(
      !data.valid.empty() || (loop.run.patience == 0 && loop.run.best_metric == RunOptions().best_metric),
      "--patience and --best-metric need validation data: give --valid, or leave them out");
  check_input(config.positions != PositionKind::learned || data.longest < config.max_positions,
              "the longest text has {} tokens, more than {} learned positions have room for: give more "
              "--max-positions",
              data.longest, config.max_positions);
  Seq2SeqModel model = make_model(config, data.source, data.target, text.joint_vocabulary, loop.trainer.seed);
  make_directories(directory);
  print_plan(model, data, steps);

  TrainingRun run{directory,    parser.saved(), &model, data.batches.get(), std::move(data.valid), {64, 0, 0},
                  loop.trainer, loop.run,       nullptr};
  const int64_t decode = loop.valid_decode < 0 && data_options.task.empty() ? 0 : loop.valid_decode;
  if (decode != 0 && !data.valid_pairs.empty()) {
    if (decode > 0 && decode < static_cast<int64_t>(data.valid_pairs.size())) {
      data.valid_pairs.resize(static_cast<size_t>(decode));
    }
    run.more_scores = [&] { return score_generated(model, data.valid_pairs); };
  }
  TrainingProgress progress(loop.log_every, data.batches->batches_per_epoch() > 0);
  train(run, progress);
  say("the model is in {}\n", directory);
  return 0;
}

}  // namespace transduce::cli
