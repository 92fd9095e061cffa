#include <charconv>
#include <cmath>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/search_flags.h"
#include "transduce/base/text.h"
#include "transduce/decode/scorer.h"

namespace transduce::cli {
namespace {

constexpr int64_t kWindow = 1024;  // pairs scored at a time

struct Options {
  std::vector<std::string> models;
  std::string source, target, n_best, prefixes, output = "-";
  int64_t max_source_length = 1024, max_target_length = 10000;
  bool per_token = false, json = false;
  SearchFlags ranking;

  void add_to(CLI::App& app) {
    app.add_option("--model", models, "directory of the model; several score together, as an ensemble")
        ->take_all()
        ->required();
    app.add_option("--source", source, "source lines, may be .gz")->required();
    app.add_option("--target", target, "what is scored, a line for each source line");
    app.add_option(
        "--n-best", n_best,
        "or an n-best list in Moses form, as translate prints it; its features and scores are replaced");
    app.add_option("--target-prefix", prefixes,
                   "file of what each target begins with: it is given, and does not count");
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
        target_room_(source_limit(models.all(), o.max_target_length)),
        sources_(o.source),
        targets_(o.n_best.empty() ? o.target : o.n_best) {
    if (!o.prefixes.empty()) prefixes_.emplace(o.prefixes);
  }

  bool next(Pair& pair) { return o_.n_best.empty() ? next_target(pair) : next_entry(pair); }

 private:
  bool next_target(Pair& pair) {
    const bool more = next_source();
    if (targets_.next(pair.text) != more) {
      const std::string source = sources_.name(), target = targets_.name();
      fail_input("{} has {} lines but {} has {}; line i of one must belong to line i of the other", source,
                 sources_.count(), target, targets_.count());
    }
    if (more) {
      set(pair);
    } else if (prefixes_) {
      const int64_t prefixes = prefixes_->count();
      check_input(prefixes == sources_.number(), "{} has {} lines but {} has {} prefixes", sources_.name(),
                  sources_.number(), prefixes_->name(), prefixes);
    }
    return more;
  }

  // "line ||| text ||| ...", in the order of the lines.
  bool next_entry(Pair& pair) {
    std::string entry;
    if (!targets_.next(entry)) return false;
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
                "{}, line {}: expected 'number ||| text ||| ...', got {}", targets_.name(), targets_.number(),
                in_quotes(entry, 60));
    check_input(line + 1 >= sources_.number(),
                "{}, line {}: entries of source line {} after those of line {}", targets_.name(),
                targets_.number(), line, sources_.number() - 1);
    while (sources_.number() < line + 1) {
      check_input(next_source(), "{}, line {}: there is no source line {}: {} has {}", targets_.name(),
                  targets_.number(), line, sources_.name(), sources_.number());
    }
    pair.text = second > first + 5 ? entry.substr(first + 5, second - first - 5) : "";
    set(pair);
    return true;
  }

  bool next_source() {
    std::string line;
    if (!sources_.next(line)) return false;
    source_ = models_.first().source->encode(line);
    source_blank_ = is_blank(line);
    const auto tokens = static_cast<int64_t>(source_.size());
    if (tokens > source_limit_) {
      say("line {}: {} source tokens were cut to {} (--max-source-length)\n", sources_.number(),
          grouped(tokens), grouped(source_limit_));
      source_.resize(static_cast<size_t>(source_limit_));
    }
    if (prefixes_) {
      std::string prefix;
      check_input(prefixes_->next(prefix), "{} ends after line {}, before {}", prefixes_->name(),
                  prefixes_->number(), sources_.name());
      prefix_ = models_.first().target->encode(prefix);
    }
    return true;
  }

  void set(Pair& pair) const {
    pair.line = sources_.number();
    pair.blank = source_blank_ && is_blank(pair.text);
    pair.request = {source_, models_.first().target->encode(pair.text), static_cast<int64_t>(prefix_.size())};
    const std::vector<int32_t>& target = pair.request.target;
    const auto tokens = static_cast<int64_t>(target.size());
    check_input(tokens <= o_.max_target_length,
                "{}, line {}: {} tokens; at most {} are scored (--max-target-length)", targets_.name(),
                targets_.number(), tokens, o_.max_target_length);
    check_input(tokens >= pair.request.prefix && std::equal(prefix_.begin(), prefix_.end(), target.begin()),
                "{}, line {} does not begin with its prefix: {}", targets_.name(), targets_.number(),
                in_quotes(pair.text, 60));
  }

  const Options& o_;
  const Models& models_;
  int64_t source_limit_;
  int64_t target_room_;
  LineReader sources_, targets_;
  std::optional<LineReader> prefixes_;
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
