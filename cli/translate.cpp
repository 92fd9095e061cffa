#include <chrono>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/search_flags.h"
#include "transduce/base/figures.h"
#include "transduce/base/file.h"
#include "transduce/data/corpus.h"

namespace transduce::cli {
namespace {

struct Options {
  std::vector<std::string> models;
  std::vector<std::string> input{"-"}, prefixes;
  std::string output = "-";
  int64_t n_best = 1, read_ahead = 0;
  std::string joiner;
  bool moses = false, scores = false, alignments = false, json = false;
  SearchFlags search;
  AttentionChoice attention;

  void add_to(CLI::App& app) {
    app.add_option("--model", models, "directory of the model; several translate together, as an ensemble")
        ->take_all()
        ->required();
    app.add_option("--input", input, "text to translate; may repeat, may be .gz; - for standard input")
        ->take_all();
    app.add_option("--output", output, "where to write; - for standard output");
    app.add_option("--target-prefix", prefixes,
                   "file of what each translation must begin with, a line for each line of input")
        ->take_all();
    app.add_option(
        "--read-ahead", read_ahead,
        "lines taken in before translating, so that lines of like length go together; 0: 16 batches. "
        "Lines that have yet to be written are not waited for");
    const std::string group = "Output";
    app.add_option("--target-joiner", joiner,
                   "joins words whose pieces end so, e.g. @@; default: as the model was trained with")
        ->group(group);
    app.add_option(
           "--n-best", n_best,
           "the best so many translations of each line, in Moses form: line ||| text ||| features ||| score")
        ->group(group);
    app.add_flag("--scores", scores, "score<TAB>translation")->group(group);
    CLI::Option* const alignment =
        app.add_flag("--alignments", alignments,
                     "after each translation which source token each of its tokens looked at: 0-0 2-1")
            ->group(group);
    app.add_option("--alignment-layer", attention.layer,
                   "decoder layer whose attention that shows, from 1; 0: the mean of all; -1: the last")
        ->needs(alignment)
        ->group(group);
    app.add_option("--alignment-head", attention.head, "its head, from 1; 0: the mean of all")
        ->needs(alignment)
        ->group(group);
    app.add_flag("--json", json, "one JSON object a line: all hypotheses with tokens and log probabilities")
        ->group(group);
    search.add_to(app);
  }
};

std::string pharaoh(const Translation& translation) {
  std::string text;
  for (const auto& [source, target] : translation.alignment) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", source, target);
  }
  return text;
}

void write_json(const Translator::Result& result, const Options& o, const Vocabulary& vocabulary,
                Output& out) {
  nlohmann::ordered_json object{{"line", result.number}, {"source", to_valid_utf8(result.line.source)}};
  object["hypotheses"] = nlohmann::ordered_json::array();
  for (const Translation& translation : result.translations) {
    object["hypotheses"].push_back(as_json(translation.text, translation.hypothesis, vocabulary));
    if (o.alignments) object["hypotheses"].back()["alignment"] = translation.alignment;
  }
  out.line(object.dump());
}

void write_text(const Translator::Result& result, const Options& o, Output& out) {
  for (const Translation& translation : result.translations) {
    std::string line = as_field(translation.text);
    if (o.moses) {
      line = fmt::format("{} ||| {} ||| {}", result.number - 1, line, moses_features(translation.hypothesis));
      if (o.alignments) line += " ||| " + pharaoh(translation);
    } else {
      if (o.scores) line = fmt::format("{:.6f}\t{}", translation.hypothesis.score, line);
      if (o.alignments) line += "\t" + pharaoh(translation);
    }
    out.line(std::move(line));
  }
}

// The lines of all files; -1 where that cannot be said beforehand.
int64_t count_all(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    const int64_t lines = count_lines(file);
    if (lines < 0) return -1;
    total += lines;
  }
  return total;
}

// What a person sees meanwhile.
class Report {
 public:
  Report(const Options& o, int64_t source_limit)
      : limit_(source_limit), typing_(o.input == std::vector<std::string>{"-"}) {
    if (status_.on_terminal()) total_ = count_all(o.input);
  }

  void add(const Translator::Result& result) {
    ++lines_;
    for (const Translation& translation : result.translations) {
      tokens_ += static_cast<int64_t>(translation.hypothesis.token_log_probability.size());
    }
    if (result.cut_to > 0) {
      status_.clear();
      say("line {}: {} source tokens were cut to {} ({})\n", result.number, grouped(result.source_tokens),
          grouped(result.cut_to),
          result.cut_to < limit_ ? "the model has no positions for more" : "--max-source-length");
    }
    if (typing_ && total_ < 0 && lines_ < 64) return;  // nobody waits for a few lines
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    std::string text = fmt::format("{} lines  {:.1f} lines/s  {} tokens/s", grouped(lines_),
                                   static_cast<double>(lines_) / seconds,
                                   grouped(static_cast<int64_t>(static_cast<double>(tokens_) / seconds)));
    if (total_ > 0) {
      const double done = static_cast<double>(lines_) / static_cast<double>(total_);
      text = fmt::format("{} of {} {}  {} left", bar(done), grouped(total_), text,
                         clock_time(seconds * (1.0 - done) / done));
    }
    status_.show(text);
  }

 private:
  using Clock = std::chrono::steady_clock;
  StatusLine status_;
  int64_t limit_;
  bool typing_;
  Clock::time_point start_ = Clock::now();
  int64_t total_ = -1, lines_ = 0, tokens_ = 0;
};

Translator::Input lines_of(SideBySide& texts) {
  return [&texts](Translator::Line& line, bool wait) {
    if (!wait && !texts.ready()) return Translator::Next::later;
    std::vector<std::string> lines;
    if (!texts.next(lines)) return Translator::Next::end;
    line.source = std::move(lines[0]);
    if (lines.size() > 1) line.prefix = std::move(lines[1]);
    return Translator::Next::line;
  };
}

}  // namespace

int translate_command(int argc, char** argv) {
  Parser parser("translate", "Translates lines of text: one line in, one line out, in order.",
                "  echo hello | transduce translate --model model/reverse\n"
                "  transduce translate --model model/ende --input test.en --output test.de --beam 5\n"
                "  transduce translate --model model/ende --input test.en --beam 5 --n-best 5");
  Options o;
  o.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(!o.json || !o.scores, "--json holds the scores already: leave out --scores");
  o.moses = parser.count("--n-best") > 0;
  check_input(!o.moses || !o.scores, "--n-best prints the scores already: leave out --scores");
  check_input(o.read_ahead >= 0, "read-ahead {} is out of range: give 1 or more, or 0 for 16 batches",
              o.read_ahead);
  Translator::Options options = o.search.options();
  options.search.n_best = o.n_best;
  options.read_ahead = o.read_ahead > 0 ? o.read_ahead : 16 * options.batch_size;
  options.alignments = o.alignments;
  options.attention = o.attention;
  options.joiner = o.joiner;

  const Models models(o.models);
  const Translator translator(models.all(), options);
  std::vector<std::vector<std::string>> files{o.input};
  if (!o.prefixes.empty()) files.push_back(o.prefixes);
  SideBySide texts(files);
  Output out(o.output);
  Report report(o, options.max_source_length);
  translator.run(lines_of(texts), [&](const Translator::Result& result) {
    if (o.json) {
      write_json(result, o, models.first().target->vocabulary(), out);
    } else {
      write_text(result, o, out);
    }
    out.flush();
    report.add(result);
  });
  out.commit();
  return 0;
}

}  // namespace transduce::cli
