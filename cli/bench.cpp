#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/progress.h"
#include "cli/search_flags.h"
#include "transduce/base/parallel.h"
#include "transduce/data/corpus.h"

namespace transduce::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> models;
  std::vector<std::string> input{"-"};
  int64_t lines = 1000, repeats = 5;
  bool latency = false, json = false;
  SearchFlags search;

  void add_to(CLI::App& app) {
    app.add_option("--model", models, "directory of the model; may repeat, for an ensemble")
        ->take_all()
        ->required();
    app.add_option("--input", input, "text to translate; may repeat, may be .gz; - for standard input")
        ->take_all();
    app.add_option("--lines", lines, "lines of it that are translated");
    app.add_option("--repeats", repeats, "times that each is done; the median counts");
    app.add_flag("--latency", latency, "one line at a time, as somebody waiting for it would see");
    app.add_flag("--json", json, "print one JSON object");
    search.add_to(app);
  }
};

// What one pass over the lines took.
struct Pass {
  std::vector<double> seconds;  // of the whole, or of each line
  int64_t tokens = 0;           // generated, end symbols counted
};

// The value that a share of the sorted values lies below.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

Pass measure(const Translator& translator, const std::vector<std::string>& lines, bool one_by_one) {
  Pass pass;
  const auto timed = [&](std::span<const std::string> some) {
    const Clock::time_point start = Clock::now();
    const auto results = translator.translate(some);
    pass.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    for (const auto& translations : results) {
      pass.tokens += static_cast<int64_t>(translations[0].hypothesis.token_log_probability.size());
    }
  };
  if (!one_by_one) {
    timed(lines);
    return pass;
  }
  for (const std::string& line : lines) timed({&line, 1});
  return pass;
}

}  // namespace

int bench_command(int argc, char** argv) {
  Parser parser("bench",
                "Measures how fast a model translates: a warm-up, then the median of several passes.",
                "  transduce bench --model model/ende --input test.en --beam 5\n"
                "  transduce bench --model model/ende --input test.en --lines 200 --latency --threads 1");
  Options o;
  o.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(o.lines >= 1 && o.lines <= 10000000, "lines {} is out of range: give 1 to 10000000", o.lines);
  check_input(o.repeats >= 1 && o.repeats <= 10000, "repeats {} is out of range: give 1 to 10000", o.repeats);
  const Models models(o.models);
  const Translator translator(models.all(), o.search.options());
  std::vector<std::string> lines;
  const LineSource source = line_source(o.input);
  for (std::string line; static_cast<int64_t>(lines.size()) < o.lines && source(line);) {
    if (!is_blank(line)) lines.push_back(line);
  }
  check_input(!lines.empty(), "{} has no line to translate", join(o.input, ", "));

  const std::vector<std::string> few(lines.begin(), lines.begin() + std::min<int64_t>(std::ssize(lines), 32));
  measure(translator, few, o.latency);
  std::vector<double> seconds, each;
  int64_t tokens = 0;
  StatusLine status;
  for (int64_t repeat = 0; repeat < o.repeats; ++repeat) {
    status.show(fmt::format("pass {} of {}", repeat + 1, o.repeats), true);
    const Pass pass = measure(translator, lines, o.latency);
    double sum = 0.0;
    for (const double one : pass.seconds) sum += one;
    seconds.push_back(sum);
    each.insert(each.end(), pass.seconds.begin(), pass.seconds.end());
    tokens = pass.tokens;
  }
  status.clear();
  const double median = quantile(seconds, 0.5);
  nlohmann::ordered_json result{{"lines", lines.size()},
                                {"tokens", tokens},
                                {"threads", threads()},
                                {"seconds", median},
                                {"lines_per_second", static_cast<double>(lines.size()) / median},
                                {"tokens_per_second", static_cast<double>(tokens) / median}};
  if (o.latency) {
    result["milliseconds_median"] = 1e3 * quantile(each, 0.5);
    result["milliseconds_99"] = 1e3 * quantile(each, 0.99);
  }
  if (o.json) {
    print("{}\n", result.dump());
    return 0;
  }
  for (const auto& [name, value] : result.items()) {
    print("{:<22}{:>12}\n", name,
          value.is_number_float() ? fmt::format("{:.3f}", value.get<double>()) : value.dump());
  }
  return 0;
}

}  // namespace transduce::cli
