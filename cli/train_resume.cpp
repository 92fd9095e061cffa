#include "cli/train_resume.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "cli/console.h"
#include "cli/progress.h"
#include "transduce/base/file.h"
#include "transduce/base/parallel.h"

namespace transduce::cli {
namespace {

// The lines `NAME = VALUE` that Parser::saved writes.
std::map<std::string, std::string> settings_of(const std::string& toml) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(toml);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) settings[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return settings;
}

// "3e-3" and "0.003" are one value.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *a_end = nullptr, *b_end = nullptr;
  const double x = std::strtod(a.c_str(), &a_end), y = std::strtod(b.c_str(), &b_end);
  return x == y && a_end != a.c_str() && b_end != b.c_str() && *a_end == '\0' && *b_end == '\0';
}

// Settings that change nothing of what is learnt. The number of threads in use is compared by itself.
const std::set<std::string> kFree{"model", "threads", "log-every", "save-every", "keep", "memory"};

// Whether a training cannot go on with another value.
bool is_fixed(const Parser& parser, const std::string& name) {
  const CLI::Option* option = parser.get_option_no_throw("--" + name);
  if (option == nullptr) return false;
  const std::string group = option->get_group();
  return group == "Text" || (group == "Model" && name.find("dropout") == std::string::npos);
}

}  // namespace

ResumedTraining::ResumedTraining(const std::string& model_directory) {
  check_input(has_checkpoint(model_directory),
              "there is no training to resume in '{}': leave out --resume to begin one", model_directory);
  directory = std::make_unique<TrainingDirectory>(model_directory);
  description = load_description(model_directory);
  checkpoint = directory->load();
  settings = read_file(model_directory + "/train.toml", size_t{1} << 24);
}

Seq2SeqModel ResumedTraining::model(const TransformerConfig& options) const {
  TransformerConfig config = description.config;
  config.dropout = options.dropout;
  config.attention_dropout = options.attention_dropout;
  config.activation_dropout = options.activation_dropout;
  return {std::make_unique<Transformer>(config), description.source, description.target,
          description.joint_vocabulary};
}

bool ResumedTraining::has_same(const Parser& parser, const std::string& name) const {
  return settings_of(settings)[name] == settings_of(parser.saved())[name];
}

void ResumedTraining::check_changes(const Parser& parser, const TrainingRun& run, bool allowed) const {
  const auto before = settings_of(settings), now = settings_of(parser.saved());
  std::set<std::string> names;
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& name, const std::string& was, const std::string& is) {
    if (!same_value(was, is)) changes.push_back(fmt::format("{} {} -> {}", name, was, is));
  };
  for (const std::string& name : names) {
    if (kFree.count(name) > 0) continue;
    const auto was = before.find(name), is = now.find(name);
    const std::string old_value = was == before.end() ? "(not given)" : was->second;
    const std::string new_value = is == now.end() ? "(not given)" : is->second;
    check_input(same_value(old_value, new_value) || !is_fixed(parser, name),
                "a training that is resumed keeps its model and its text: {} cannot change from {} to {}; "
                "leave it out, or begin another training",
                name, old_value, new_value);
    compare(name, old_value, new_value);
  }
  compare("threads", std::to_string(checkpoint.state.threads), std::to_string(threads()));
  compare("tokens of a micro-batch", std::to_string(checkpoint.state.micro_batch_tokens),
          std::to_string(run.micro_batch_tokens));
  compare("the training data", checkpoint.state.data, run.batches->fingerprint());
  compare("the validation data", checkpoint.state.validation_data, fingerprint(run.validation));
  if (changes.empty()) return;
  check_input(allowed,
              "this is not how the training in '{}' was begun: {}; add --allow-changes to go on so, or give "
              "what was given then",
              directory->model_directory(), fmt::join(changes, ", "));
  for (const std::string& change : changes) say("changed     {}\n", change);
}

void ResumeOptions::add_to(CLI::App& app) {
  // None is a setting of the training, so train.toml has none of them.
  app.add_flag("--overwrite", overwrite, "replace the model in that directory")->configurable(false);
  app.add_flag("--resume", resume, "go on with the training in that directory from its last checkpoint")
      ->configurable(false);
  app.add_flag("--allow-changes", allow_changes, "resume with other settings, data or threads than before")
      ->configurable(false);
}

std::optional<ResumedTraining> ResumeOptions::begin(Parser& parser, int argc, char** argv,
                                                    const std::string& directory) const {
  check_input(!resume || !overwrite,
              "--resume goes on with a training, --overwrite replaces it: give one of them");
  check_input(resume || !allow_changes, "--allow-changes goes with --resume");
  if (!resume) {
    check_input(
        overwrite || !has_checkpoint(directory),
        "'{}' holds a model already: give --resume to go on with its training, --overwrite to replace "
        "it, or another directory",
        directory);
    check_replaceable(directory, overwrite);
    return std::nullopt;
  }
  std::optional<ResumedTraining> resumed(std::in_place, directory);
  if (parser.count("--config") == 0) parser.read(argc, argv, directory + "/train.toml");
  return resumed;
}

}  // namespace transduce::cli
