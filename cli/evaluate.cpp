#include <algorithm>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/evaluation.h"
#include "cli/metric_options.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/search_flags.h"
#include "transduce/base/file.h"
#include "transduce/data/tasks.h"

namespace transduce::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> test, test_source, test_target;
  std::string hypothesis, baseline, joiner;
  std::vector<std::string> references;
  std::string task;
  TaskSpec task_spec;
  int64_t examples = 128;
  std::optional<uint64_t> seed;
  SearchFlags search;
  MetricOptions metrics;
  std::optional<int64_t> bootstrap, randomization;
  std::optional<std::string> significance;
  bool sentence_level = false, json = false;

  void add_to(CLI::App& app) {
    add_model_options(app);
    std::string group = "Files";
    app.add_option("--hypothesis", hypothesis, "generated lines; a file, which may be .gz, or -")
        ->group(group);
    app.add_option("--reference", references, "the right lines; may repeat: several references for each line")
        ->take_all()
        ->group(group);
    metrics.add_to(app);
    group = "Is it luck?";
    app.add_option("--baseline", baseline, "lines of another system, to be compared with")->group(group);
    app.add_option("--significance", significance,
                   "the test with a baseline: bootstrap or randomization; default: bootstrap")
        ->group(group);
    app.add_option("--bootstrap", bootstrap,
                   "drawings of the bootstrap (1000 with a baseline); also gives a 95 % interval without one")
        ->group(group);
    app.add_option("--randomization", randomization, "trials of approximate randomization; default: 10000")
        ->group(group);
    app.add_option("--target-joiner", joiner,
                   "joins words whose pieces end so, e.g. @@, on both sides, before anything is compared; "
                   "default: as the model was trained with, if there is one");
    app.add_flag("--sentence-level", sentence_level, "print the scores of each line, not of all");
    app.add_flag("--json", json, "print one JSON object; with --sentence-level one a line");
  }

  void add_model_options(CLI::App& app) {
    const std::string group = "A model on test pairs";
    app.add_option("--model", model, "directory of the model")->group(group);
    app.add_option("--test", test, "test pairs: lines of source<TAB>target; may repeat, may be .gz")
        ->take_all()
        ->group(group);
    app.add_option("--test-source", test_source, "source side of parallel test files")
        ->take_all()
        ->group(group);
    app.add_option("--test-target", test_target, "target side of parallel test files")
        ->take_all()
        ->group(group);
    app.add_option("--task", task,
                   "instead of files, unseen examples of a made-up task: reverse, copy or sort")
        ->group(group);
    app.add_option("--task-alphabet", task_spec.alphabet_size, "symbols of the task")->group(group);
    app.add_option("--task-min-length", task_spec.min_length, "shortest source of the task")->group(group);
    app.add_option("--task-max-length", task_spec.max_length, "longest source of the task")->group(group);
    app.add_option("--examples", examples, "examples of the task")->group(group);
    app.add_option(
           "--seed", seed,
           "the seed of the training, whose examples are avoided (default: 0), and of the tests for luck "
           "(default: 12345)")
        ->group(group);
    search.add_to(app);
  }

  // How luck is judged, if at all. Errors: InputError for options that do not go together.
  std::optional<Resampling> resampling() const;
};

std::optional<Resampling> Options::resampling() const {
  const std::string kind = significance.value_or("bootstrap");
  check_input(kind == "bootstrap" || kind == "randomization",
              "unknown test \"{}\": --significance takes bootstrap or randomization", kind);
  const bool randomized = kind == "randomization";
  check_input(!baseline.empty() || !significance,
              "--significance compares two systems: give --baseline FILE too");
  check_input(!randomization || randomized, "--randomization goes with --significance randomization");
  check_input(!bootstrap || !randomized, "--bootstrap goes with --significance bootstrap");
  if (baseline.empty() && !bootstrap) return std::nullopt;
  check_input(!sentence_level, "--sentence-level has one score a line: there is nothing to resample");
  Resampling result;
  result.randomization = randomized;
  result.options.trials = randomized ? randomization.value_or(10000) : bootstrap.value_or(1000);
  result.options.seed = seed.value_or(result.options.seed);
  result.options.validate();
  return result;
}

std::vector<TextPair> test_pairs(const Options& o) {
  check_input(
      (o.test.empty() ? 0 : 1) + (o.test_source.empty() && o.test_target.empty() ? 0 : 1) +
              (o.task.empty() ? 0 : 1) ==
          1,
      "give the test data in one way: --test PAIRS.tsv, --test-source and --test-target, or --task NAME");
  if (!o.test.empty()) return read_pairs(o.test);
  if (o.task.empty()) return read_parallel(o.test_source, o.test_target);
  check_input(o.examples >= 1 && o.examples <= 10000000, "examples {} is out of range: give 1 to 10000000",
              o.examples);
  TaskSpec spec = o.task_spec;
  spec.kind = parse_task_kind(o.task);
  const Task task(spec);
  std::vector<TextPair> pairs;
  // Past the first examples of this seed, which training validated on.
  for (int64_t i = 0; i < o.examples; ++i) {
    pairs.push_back(
        task.example(held_out_seed(o.seed.value_or(0)), (uint64_t{1} << 24) + static_cast<uint64_t>(i)));
  }
  return pairs;
}

// The best translation of each pair's source.
std::vector<std::string> translate_all(const Seq2SeqModel& model, const std::vector<TextPair>& pairs,
                                       const Translator::Options& options) {
  const Translator translator(model, options);
  std::vector<std::string> translations;
  StatusLine status;
  const auto chunk = static_cast<size_t>(options.read_ahead);
  for (size_t begin = 0; begin < pairs.size(); begin += chunk) {
    std::vector<std::string> sources;
    for (size_t i = begin; i < std::min(pairs.size(), begin + chunk); ++i) sources.push_back(pairs[i].source);
    for (auto& found : translator.translate(sources)) translations.push_back(std::move(found.front().text));
    status.show(bar(static_cast<double>(translations.size()) / static_cast<double>(pairs.size())));
  }
  return translations;
}

void evaluate_model(const Options& o) {
  const auto resampling = o.resampling();
  const std::vector<TextPair> pairs = test_pairs(o);
  std::vector<std::string> baseline_lines;
  if (!o.baseline.empty()) baseline_lines = read_lines(o.baseline);
  check_input(o.baseline.empty() || baseline_lines.size() == pairs.size(),
              "{} has {} lines but there are {} test pairs; line i must belong to pair i",
              in_quotes(o.baseline), baseline_lines.size(), pairs.size());
  const Seq2SeqModel model = load_model(o.model);
  const TokenizerSpec units = o.metrics.units(counted_units(model.target->spec()));
  const auto metrics = o.metrics.choose(units, o.task.empty() && !o.metrics.names_units(), o.sentence_level);

  const std::string joiner = o.joiner.empty() ? model.target->spec().joiner : o.joiner;
  std::vector<std::vector<std::string>> references(1);
  for (const TextPair& pair : pairs) references[0].push_back(join_pieces(pair.target, joiner));
  for (std::string& line : baseline_lines) line = join_pieces(line, joiner);
  Evaluation evaluation(metrics, 1, resampling.has_value()), baseline(metrics, 1, true);
  Translator::Options options = o.search.options();
  options.joiner = joiner;
  evaluation.add(translate_all(model, pairs, options), references);
  if (o.sentence_level) return print_lines(evaluation, o.json);
  if (!o.baseline.empty()) baseline.add(baseline_lines, references);
  print_scores(evaluation, o.baseline.empty() ? nullptr : &baseline, resampling, o.json);
}

// Files whose lines belong together, in pieces, so that any amount of text fits.
class Pieces {
 public:
  Pieces(const std::vector<std::string>& files, std::string joiner)
      : texts_(one_by_one(files)), joiner_(std::move(joiner)), pieces_(files.size()) {}

  // Reads the next lines of every file; false at the end of all. Errors: as SideBySide.
  bool next() {
    for (auto& piece : pieces_) piece.clear();
    std::vector<std::string> lines;
    for (size_t line = 0; line < lines_a_piece && texts_.next(lines); ++line) {
      for (size_t f = 0; f < pieces_.size(); ++f) pieces_[f].push_back(join_pieces(lines[f], joiner_));
    }
    return !pieces_[0].empty();
  }

  std::span<const std::vector<std::string>> pieces() const { return pieces_; }

 private:
  static constexpr size_t lines_a_piece = 8192;

  static std::vector<std::vector<std::string>> one_by_one(const std::vector<std::string>& files) {
    std::vector<std::vector<std::string>> texts;
    for (const std::string& file : files) texts.push_back({file});
    return texts;
  }

  SideBySide texts_;
  std::string joiner_;
  std::vector<std::vector<std::string>> pieces_;  // of each file
};

void evaluate_files(const Options& o) {
  check_input(!o.hypothesis.empty() && !o.references.empty(),
              "give --model and test data, or --hypothesis FILE and --reference FILE");
  const auto resampling = o.resampling();
  const TokenizerSpec units = o.metrics.units({TokenizerKind::word, NormalForm::none});
  const auto metrics = o.metrics.choose(units, !o.metrics.names_units(), o.sentence_level);

  std::vector<std::string> files{o.hypothesis};
  files.insert(files.end(), o.references.begin(), o.references.end());
  const bool with_baseline = !o.baseline.empty();
  if (with_baseline) files.push_back(o.baseline);
  Evaluation evaluation(metrics, o.references.size(), resampling.has_value());
  Evaluation baseline(metrics, o.references.size(), true);
  Pieces lines(files, o.joiner);
  while (lines.next()) {
    const auto references = lines.pieces().subspan(1, o.references.size());
    evaluation.add(lines.pieces().front(), references);
    if (with_baseline) baseline.add(lines.pieces().back(), references);
    if (o.sentence_level) print_lines(evaluation, o.json);
  }
  check_input(evaluation.lines() > 0, "{} has no line to evaluate", in_quotes(o.hypothesis));
  if (!o.sentence_level) {
    print_scores(evaluation, with_baseline ? &baseline : nullptr, resampling, o.json);
  }
}

}  // namespace

int evaluate_command(int argc, char** argv) {
  Parser parser(
      "evaluate",
      "Compares generated sequences with the right ones.\n\n"
      "  token accuracy       places where both hold the same token, of all places of the longer one\n"
      "  exact match          sequences that are right in full\n"
      "  sequence error rate  sequences that are not; in grapheme-to-phoneme this is the word error rate "
      "(WER)\n"
      "  token error rate     insertions, deletions and substitutions by tokens of the reference; in\n"
      "                       grapheme-to-phoneme this is the phoneme error rate (PER)\n"
      "  BLEU, chrF, TER      as sacreBLEU 2 gives them, with its signature",
      "  transduce evaluate --model model/g2p --test test.tsv --beam 5\n"
      "  transduce evaluate --hypothesis out.txt --reference right.txt --metrics bleu,chrf,ter\n"
      "  transduce evaluate --hypothesis new.txt --baseline old.txt --reference right.txt --bootstrap 1000");
  Options options;
  options.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(options.model.empty() || (options.hypothesis.empty() && options.references.empty()),
              "--model and --hypothesis are two things to evaluate: give one of them");
  if (options.model.empty()) {
    evaluate_files(options);
  } else {
    evaluate_model(options);
  }
  return 0;
}

}  // namespace transduce::cli
