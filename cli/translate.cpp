#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/progress.h"
#include "transduce/base/file.h"
#include "transduce/decode/translator.h"

namespace transduce::cli {
namespace {

// Where results go: standard output, or a file that appears when it is complete.
class Output {
 public:
  explicit Output(const std::string& path) {
    if (path != "-" && path != "/dev/stdout") file_.emplace(path);
  }
  void line(std::string text) {
    text += '\n';
    if (file_) {
      file_->write(text);
    } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
      fail_run("cannot write to standard output");
    }
  }
  void flush() {
    if (!file_ && std::fflush(stdout) != 0) fail_run("cannot write to standard output");
  }
  void commit() {
    flush();
    if (file_) file_->commit();
  }

 private:
  std::optional<AtomicFile> file_;
};

// One line of output must stay one line: a generated line feed becomes a blank.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

int translate_command(int argc, char** argv) {
  Parser parser("translate", "Translates lines of text: one line in, one line out, in order.",
                "  echo hello | transduce translate --model model/reverse\n"
                "  transduce translate --model model/ende --input test.en --output test.de --beam 5");
  std::string directory, input = "-", output = "-";
  Translator::Options options;
  bool scores = false;
  int64_t read_ahead = 0;
  SearchOptions& search = options.search;
  parser.add_option("--model", directory, "directory of the model")->required();
  parser.add_option("--input", input, "text to translate, may be .gz; - for standard input");
  parser.add_option("--output", output, "where to write; - for standard output");
  parser.add_option("--beam", search.beam, "hypotheses kept while searching; 1 is greedy search");
  parser.add_option(
      "--n-best", search.n_best,
      "translations printed for each line, best first: always so many lines, empty where there are fewer");
  parser.add_option(
      "--length-penalty", search.length_penalty,
      "hypotheses are ranked by log probability / ((5 + length) / 6)^this; 0: by log probability");
  parser.add_option("--max-length", search.max_length, "tokens of a translation at most; 0: 2 x source + 50");
  parser.add_option("--batch-size", options.batch_size, "lines translated together");
  parser.add_option(
      "--read-ahead", read_ahead,
      "lines read before translating, so that lines of like length share a batch; 0: 16 batches, or what "
      "there is on a terminal");
  parser.add_flag("--scores", scores, "print score<TAB>translation");
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(read_ahead >= 0 && read_ahead <= 10000000, "read-ahead {} is out of range: give 1 to 10000000",
              read_ahead);

  const Seq2SeqModel model = load_model(directory);
  const Translator translator(model, options);
  LineReader reader(input);
  Output out(output);
  StatusLine status;
  const bool typing = input == "-" && isatty(STDIN_FILENO) == 1;
  const int64_t wanted = typing ? 1 : read_ahead > 0 ? read_ahead : 16 * options.batch_size;

  int64_t done = 0;
  std::vector<std::string> lines;
  std::string line;
  for (bool more = true; more;) {
    lines.clear();
    while (static_cast<int64_t>(lines.size()) < wanted && (more = reader.next(line))) lines.push_back(line);
    for (const auto& translations : translator.translate(lines)) {
      // Always so many lines an input line, so that they can be told apart; empty where there are fewer.
      for (size_t k = 0; k < static_cast<size_t>(search.n_best); ++k) {
        const std::string text = k < translations.size() ? on_one_line(translations[k].text) : "";
        const double score = k < translations.size() ? translations[k].hypothesis.score : -INFINITY;
        out.line(scores ? fmt::format("{:.4f}\t{}", score, text) : text);
      }
    }
    out.flush();
    done += static_cast<int64_t>(lines.size());
    if (!typing) status.show(fmt::format("{} lines translated", grouped(done)));
  }
  out.commit();
  return 0;
}

}  // namespace transduce::cli
