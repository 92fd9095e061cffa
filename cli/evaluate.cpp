#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
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
  std::string hypothesis, reference, tokenizer = "word", normalize = "none";
  std::string task;
  TaskSpec task_spec;
  int64_t examples = 128;
  uint64_t seed = 0;
  SearchFlags search;
  bool json = false;

  void add_to(CLI::App& app) {
    std::string group = "A model on test pairs";
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
    app.add_option("--seed", seed, "the seed of the training, whose examples are avoided")->group(group);
    search.add_to(app);
    group = "Two files";
    app.add_option("--hypothesis", hypothesis, "generated lines")->group(group);
    app.add_option("--reference", reference, "the right lines")->group(group);
    app.add_option("--tokenizer", tokenizer, "what a token is in them: word or char")->group(group);
    app.add_option("--normalize", normalize, "Unicode normal form to compare in: none, nfc, nfd or nfkc")
        ->group(group);
    app.add_flag("--json", json, "print one JSON object");
  }
};

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
    pairs.push_back(task.example(held_out_seed(o.seed), (uint64_t{1} << 24) + static_cast<uint64_t>(i)));
  }
  return pairs;
}

ErrorRates evaluate_model(const Options& o) {
  const std::vector<TextPair> pairs = test_pairs(o);
  const Seq2SeqModel model = load_model(o.model);
  const Translator::Options options = o.search.options();
  const Translator translator(model, options);
  std::vector<std::vector<Translation>> translations;
  StatusLine status;
  const auto chunk = static_cast<size_t>(options.read_ahead);
  for (size_t begin = 0; begin < pairs.size(); begin += chunk) {
    std::vector<std::string> sources;
    for (size_t i = begin; i < std::min(pairs.size(), begin + chunk); ++i) sources.push_back(pairs[i].source);
    for (auto& found : translator.translate(sources)) translations.push_back(std::move(found));
    status.show(bar(static_cast<double>(translations.size()) / static_cast<double>(pairs.size())));
  }
  return compare(translations, pairs, *model.target);
}

ErrorRates evaluate_files(const Options& o) {
  check_input(!o.hypothesis.empty() && !o.reference.empty(),
              "give --model and test data, or --hypothesis FILE and --reference FILE");
  const TokenizerSpec spec{parse_tokenizer_kind(o.tokenizer), parse_normal_form(o.normalize)};
  ErrorRates rates;
  for (const TextPair& pair : read_parallel({o.hypothesis}, {o.reference})) {
    rates.add(units_of(pair.source, spec), units_of(pair.target, spec));
  }
  return rates;
}

void print_rates(const ErrorRates& rates, bool json) {
  if (json) {
    const nlohmann::ordered_json object{{"sequences", rates.sequences},
                                        {"tokens", rates.tokens},
                                        {"token-accuracy", rates.token_accuracy()},
                                        {"exact-match", rates.exact_match()},
                                        {"sequence-error-rate", rates.sequence_error_rate()},
                                        {"token-error-rate", rates.token_error_rate()}};
    print("{}\n", object.dump());
    return;
  }
  print("sequences            {:>8}\n", rates.sequences);
  print("tokens               {:>8}\n", rates.tokens);
  print("token accuracy       {:>8.2f} %\n", 100.0 * rates.token_accuracy());
  print("exact match          {:>8.2f} %\n", 100.0 * rates.exact_match());
  print("sequence error rate  {:>8.2f} %\n", 100.0 * rates.sequence_error_rate());
  print("token error rate     {:>8.2f} %\n", 100.0 * rates.token_error_rate());
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
      "                       grapheme-to-phoneme this is the phoneme error rate (PER)",
      "  transduce evaluate --model model/g2p --test test.tsv --beam 5\n"
      "  transduce evaluate --hypothesis out.txt --reference right.txt --tokenizer char");
  Options options;
  options.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(options.model.empty() || (options.hypothesis.empty() && options.reference.empty()),
              "--model and --hypothesis are two things to evaluate: give one of them");
  print_rates(options.model.empty() ? evaluate_files(options) : evaluate_model(options), options.json);
  return 0;
}

}  // namespace transduce::cli
