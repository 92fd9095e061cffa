#include <algorithm>

#include "cli/command.h"
#include "cli/console.h"
#include "transduce/decode/translator.h"
#include "transduce/train/average.h"
#include "transduce/train/training_directory.h"

namespace transduce::cli {
namespace {

// The parameters that a model directory has to give: its model, or those of its training's last checkpoints.
std::vector<std::string> files_of(const std::string& directory, int64_t last) {
  if (last == 0) return {directory + "/model.safetensors"};
  std::vector<std::string> files;
  for (const StepFile& step : step_files(directory)) files.push_back(step.path);
  check_input(static_cast<int64_t>(files.size()) >= last,
              "'{}' keeps the models of {} checkpoints, not of {}: give a smaller --last, or train with more "
              "--keep",
              directory, files.size(), last);
  files.erase(files.begin(), files.end() - last);
  return files;
}

// Errors: InputError unless `other` is made as `model` is, dropout aside.
void check_alike(const std::string& directory, const Seq2SeqModel& model, const std::string& other_directory,
                 const Seq2SeqModel& other) {
  check_same_vocabularies({&model, &other});
  const auto without_dropout = [](TransformerConfig config) {
    config.dropout = config.attention_dropout = config.activation_dropout = 0.0;
    return to_json(config);
  };
  check_input(
      without_dropout(model.transformer->config()) == without_dropout(other.transformer->config()),
      "the models in '{}' and '{}' are not made alike, so they have no mean: average trainings of one model",
      directory, other_directory);
}

}  // namespace

int average_command(int argc, char** argv) {
  Parser parser(
      "average",
      "Makes a model of the mean of others' parameters: of the last checkpoints of one training, which "
      "is often better than any of them, or of several models that were made alike.",
      "  transduce average --model model/ende --last 5 --output model/ende-mean\n"
      "  transduce average --model model/one --model model/two --output model/mean");
  std::vector<std::string> directories;
  std::string output;
  int64_t last = 0;
  bool overwrite = false;
  parser.add_option("--model", directories, "model directory; may repeat")->required()->take_all();
  parser.add_option("--last", last,
                    "average the models of so many last checkpoints of each training (train --keep); 0: each "
                    "directory's own model");
  parser.add_option("--output", output, "directory of the model to make")->required();
  parser.add_flag("--overwrite", overwrite, "replace the model in that directory");
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(last >= 0, "last {} is out of range: give a number of checkpoints", last);
  check_input(
      last > 0 || directories.size() > 1,
      "one model has no mean: give --last K for the last checkpoints of its training, or more than one "
      "--model");
  check_replaceable(output, overwrite);

  std::vector<std::string> files;
  const Seq2SeqModel model = load_model(directories.front());
  for (const std::string& directory : directories) {
    if (&directory != &directories.front()) {
      check_alike(directories.front(), model, directory, load_model(directory));
    }
    const std::vector<std::string> more = files_of(directory, last);
    files.insert(files.end(), more.begin(), more.end());
  }
  average_parameters(files, *model.transformer);
  save_description(output, model);
  save_parameters(output, model);
  for (const std::string& file : files) say("  {}\n", file);
  say("the mean of these {} is in {}\n", files.size(), output);
  return 0;
}

}  // namespace transduce::cli
