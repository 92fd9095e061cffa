#include "transduce/train/report.h"
#include "cli/command.h"
#include "cli/console.h"
#include "transduce/base/file.h"

namespace transduce::cli {

int report_command(int argc, char** argv) {
  Parser parser("report",
                "Makes the page of a training again from its log: curves, scores, samples, settings. `train` "
                "writes it by itself at each validation; here it is made of what the log has by now.",
                "  transduce report --model model/ende\n"
                "  transduce report --model model/ende --output ende.html");
  std::string directory, output;
  parser.add_option("--model", directory, "directory of the model that is or was trained")->required();
  parser.add_option("--output", output, "the page to write; default: report.html in that directory")
      ->default_str("");
  if (const auto status = parser.read(argc, argv)) return *status;
  const TrainingHistory history = TrainingHistory::read(directory + "/log.jsonl");
  std::string settings;
  try {
    settings = read_file(directory + "/train.toml", size_t{1} << 24);
  } catch (const InputError&) {  // a training that has not saved yet has none; the page says so
  }
  if (output.empty()) output = directory + "/report.html";
  write_file_atomic(output, training_report(history, settings, name_of_model(directory)));
  say("{}\n", output);
  return 0;
}

}  // namespace transduce::cli
