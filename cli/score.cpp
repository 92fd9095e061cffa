#include <charconv>
#include <cmath>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/search_flags.h"
#include "transduce/base/figures.h"
#include "transduce/base/text.h"
#include "transduce/data/corpus.h"
#include "transduce/decode/scorer.h"

namespace transduce::cli {
namespace {

constexpr int64_t kWindow = 1024;  // pairs scored at a time

struct Options {
  std::vector<std::string> models;
  std::vector<std::string> source, target, n_best, prefixes;
  std::string output = "-";
  int64_t max_source_length = 1024, max_target_length = 10000;
  bool per_token = false, json = false;
  SearchFlags ranking;

  void add_to(CLI::App& app) {
    app.add_option("--model", models, "directory of the model; several score together, as an ensemble")
        ->take_all()
        ->required();
    app.add_option("--source", source, "source lines; may repeat, may be .gz; - for standard input")
        ->take_all()
        ->required();
    app.add_option("--target", target, "what is scored, a line for each source line")->take_all();
    app.add_option(
           "--n-best", n_best,
           "or an n-best list in Moses form, as translate prints it; its features and scores are replaced")
        ->take_all();
    app.add_option("--target-prefix", prefixes,
                   "file of what each target begins with: it is given, and does not count")
        ->take_all();
    app.add_option("--output", output, "where to write; - for standard output");
    app.add_option("--max-source-length", max_source_length,
                   "tokens of a source at most; the rest is cut off, with a warning, as translate does");
    app.add_option("--max-target-length", max_target_length, "tokens of a target at most; more are refused");
    app.add_flag("--per-token", per_token, "after each score the log probability of every token");
    app.add_flag("--json", json, "one JSON object a line, with tokens and log probabilities");
    ranking.add_ranking_to(app);
  }
};

// A pair with what is needed to print it.
struct Pair {
  int64_t line = 0;    // of the source, from 1
  std::string text;    // the target
  bool blank = false;  // on both sides: the model is not asked, as translate does not ask it
  ScoreRequest request;
};

class Reader {
 public:
  Reader(const Options& o, const Models& models)
      : o_(o),
        models_(models),
        source_limit_(source_limit(models.all(), o.max_source_length)),
        texts_(side_by_side(o)) {
    check_input(std::count(o.n_best.begin(), o.n_best.end(), "-") == 0 || !names_standard_input(o),
                "standard input (-) can be one of the files only");
    if (!o.n_best.empty()) entries_.emplace(std::vector<std::vector<std::string>>{o.n_best});
  }

  bool next(Pair& pair) { return entries_ ? next_entry(pair) : next_target(pair); }

 private:
  // Source lines, then what belongs to each: its prefix, its target.
  static std::vector<std::vector<std::string>> side_by_side(const Options& o) {
    std::vector<std::vector<std::string>> texts{o.source};
    if (!o.prefixes.empty()) texts.push_back(o.prefixes);
    if (!o.target.empty()) texts.push_back(o.target);
    return texts;
  }

  static bool names_standard_input(const Options& o) {
    return std::count(o.source.begin(), o.source.end(), "-") > 0 ||
           std::count(o.prefixes.begin(), o.prefixes.end(), "-") > 0;
  }

  bool next_target(Pair& pair) {
    if (!next_source()) return false;
    pair.text = lines_.back();
    set(pair, texts_.place(lines_.size() - 1));
    return true;
  }

  // "line ||| text ||| ...", in the order of the lines.
  bool next_entry(Pair& pair) {
    std::vector<std::string> read;
    if (!entries_->next(read)) return false;
    const std::string& entry = read[0];
    const size_t first = entry.find(" ||| ");
    // The features stand last, in the form that translate writes: a text may hold bars itself.
    const size_t features = entry.rfind(" ||| LogProbability= ");
    const size_t second = first == std::string::npos                          ? first
                          : features != std::string::npos && features > first ? features
                                                                              : entry.find(" |||", first + 4);
    int64_t line = -1;
    const char* const end = entry.data() + std::min(first, entry.size());
    const auto [stop, error] = std::from_chars(entry.data(), end, line);
    check_input(second != std::string::npos && error == std::errc() && stop == end && line >= 0,
                "{}: expected 'number ||| text ||| ...', got {}", entries_->place(), in_quotes(entry, 60));
    check_input(line + 1 >= texts_.number(), "{}: entries of source line {} after those of line {}",
                entries_->place(), line, texts_.number() - 1);
    while (texts_.number() < line + 1) {
      check_input(next_source(), "{}: there is no source line {}: {} has {}", entries_->place(), line,
                  join(o_.source, ", "), texts_.number());
    }
    pair.text = second > first + 5 ? entry.substr(first + 5, second - first - 5) : "";
    set(pair, entries_->place());
    return true;
  }

  bool next_source() {
    if (!texts_.next(lines_)) return false;
    source_ = models_.first().source->encode(lines_[0]);
    source_blank_ = is_blank(lines_[0]);
    const auto tokens = static_cast<int64_t>(source_.size());
    if (tokens > source_limit_) {
      say("line {}: {} source tokens were cut to {} (--max-source-length)\n", texts_.number(),
          grouped(tokens), grouped(source_limit_));
      source_.resize(static_cast<size_t>(source_limit_));
    }
    if (!o_.prefixes.empty()) prefix_ = models_.first().target->encode(lines_[1]);
    return true;
  }

  // `place`: where the target stands.
  void set(Pair& pair, const std::string& place) const {
    pair.line = texts_.number();
    pair.blank = source_blank_ && is_blank(pair.text);
    pair.request = {source_, models_.first().target->encode(pair.text), static_cast<int64_t>(prefix_.size())};
    const std::vector<int32_t>& target = pair.request.target;
    const auto tokens = static_cast<int64_t>(target.size());
    check_input(tokens <= o_.max_target_length, "{}: {} tokens; at most {} are scored (--max-target-length)",
                place, tokens, o_.max_target_length);
    check_input(tokens >= pair.request.prefix && std::equal(prefix_.begin(), prefix_.end(), target.begin()),
                "{} does not begin with its prefix: {}", place, in_quotes(pair.text, 60));
  }

  const Options& o_;
  const Models& models_;
  int64_t source_limit_;
  SideBySide texts_;
  std::optional<SideBySide> entries_;     // of n-best lists
  std::vector<std::string> lines_;        // of texts_, the current ones
  std::vector<int32_t> source_, prefix_;  // of the current source line
  bool source_blank_ = false;
};

// "token=-0.1234 ...", tokens as vocabulary files show them.
std::string token_scores(const Hypothesis& scored, int64_t prefix, const Vocabulary& vocabulary) {
  std::string text;
  for (size_t i = 0; i < scored.token_log_probability.size(); ++i) {
    const size_t at = i + static_cast<size_t>(prefix);
    const std::string token =
        at < scored.tokens.size() ? escape_token(vocabulary.token(scored.tokens[at])) : "</s>";
    text += fmt::format("{}{}={:.6f}", i == 0 ? "" : " ", token, scored.token_log_probability[i]);
  }
  return text;
}

std::string describe(const Pair& pair, const Hypothesis& scored, const Options& o,
                     const Vocabulary& vocabulary) {
  if (o.json) {
    nlohmann::ordered_json object{{"line", pair.line}};
    object.update(as_json(pair.text, scored, vocabulary));
    return object.dump();
  }
  std::string text = fmt::format("{:.6f}", scored.score);
  if (!o.n_best.empty())
    text = fmt::format("{} ||| {} ||| {}", pair.line - 1, pair.text, moses_features(scored));
  if (o.per_token) text += "\t" + token_scores(scored, pair.request.prefix, vocabulary);
  return text;
}

}  // namespace

int score_command(int argc, char** argv) {
  Parser parser(
      "score",
      "Says how likely a model finds given outputs: for each pair of lines the score that translate would "
      "have\n"
      "given, the log probability under its length normalization. Ends with totals on standard error.",
      "  transduce score --model model/ende --source test.en --target test.de\n"
      "  transduce score --model model/other --source test.en --n-best test.nbest");
  Options o;
  o.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(o.target.empty() != o.n_best.empty(),
              "give what is to be scored, in one way: --target FILE or --n-best FILE");
  check_input(o.max_source_length >= 1 && o.max_target_length >= 1,
              "max source length {} and max target length {} must be 1 or more", o.max_source_length,
              o.max_target_length);
  const Ranking ranking = o.ranking.ranking();
  const Models models(o.models);
  const std::vector<const Transformer*> transformers = transformers_of(models.all());
  Reader reader(o, models);
  Output out(o.output);
  StatusLine status;
  int64_t pairs = 0, tokens = 0;
  double total = 0.0;
  for (bool more = true; more;) {
    std::vector<Pair> window;
    std::vector<ScoreRequest> requests;
    for (Pair pair; static_cast<int64_t>(window.size()) < kWindow && (more = reader.next(pair));) {
      if (!pair.blank) requests.push_back(pair.request);
      window.push_back(pair);
    }
    const std::vector<Hypothesis> scored = score(transformers, requests, ranking);
    auto next = scored.begin();
    for (const Pair& pair : window) {
      const Hypothesis hypothesis = pair.blank ? Hypothesis() : *next++;
      out.line(describe(pair, hypothesis, o, models.first().target->vocabulary()));
      tokens += static_cast<int64_t>(hypothesis.token_log_probability.size());
      total += hypothesis.log_probability;
    }
    pairs += static_cast<int64_t>(window.size());
    status.show(fmt::format("{} pairs scored", grouped(pairs)));
  }
  out.commit();
  status.clear();
  const double mean = tokens > 0 ? total / static_cast<double>(tokens) : 0.0;
  say("{} pairs, {} tokens: log probability {:.4f}, {:.4f} per token, perplexity {:.4f}\n", grouped(pairs),
      grouped(tokens), total, mean, std::exp(-mean));
  return 0;
}

}  // namespace transduce::cli
