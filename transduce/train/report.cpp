#include "transduce/train/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "transduce/base/figures.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/page/html.h"
#include "transduce/page/svg.h"

namespace transduce {
namespace {

using page::LineChart;
using page::Series;
using page::Table;
using Validation = TrainingHistory::Validation;

constexpr const char* kStyle = R"(
.state { display: inline-block; margin: 0; padding: 2px 12px; border: 1px solid var(--accent);
  border-radius: 999px; color: var(--accent); font-weight: 600; }
.settings { background: var(--panel); border-radius: 6px; padding: 12px; overflow-x: auto; font-size: 0.85rem;
  line-height: 1.45; font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.sample { border-top: 1px solid var(--line); padding: 8px 0 4px; }
.sample h3 { margin: 8px 0 0; }
.sample dl { margin: 8px 0; overflow-wrap: anywhere; }
.sample dt { color: var(--muted); font-size: 0.85rem; }
.sample dd { margin: 0 0 8px; }
.sample td { overflow-wrap: anywhere; }
.sample td:first-child { white-space: nowrap; }
.sample td bdi { display: block; max-height: 9em; overflow-y: auto; }
)";

std::string figure_of(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "–"; }

// "finished" -> the words for it.
std::string state_of(const TrainingHistory& h) {
  if (h.end == "finished") return "Finished";
  if (h.end == "out of patience") return "Stopped early: out of patience";
  if (h.end == "stopped") return "Stopped: it can be resumed";
  if (h.end == "failed") return "Failed";
  return h.end.empty() ? "In progress" : h.end;
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e12));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string facts(const TrainingHistory& h) {
  Table table{{}, {{"updates", grouped(h.updates)}}};
  const auto row = [&](const char* name, const std::string& value) { table.rows.push_back({name, value}); };
  if (h.epoch > 0.0) row("epochs", fmt::format("{:.4g}", h.epoch));
  row("target tokens", grouped(std::llround(std::clamp(h.target_tokens, -1e18, 1e18))));
  row("time", duration(h.seconds));
  row("validations", grouped(h.validations));
  if (h.best) {
    row("model kept", h.best->averaged > 0
                          ? fmt::format("the mean of the last {} checkpoints", h.best->averaged)
                          : fmt::format("that after update {}", grouped(h.best->step)));
  }
  if (h.skipped > 0)
    row("updates skipped", fmt::format("{}, their loss or gradient was not finite", grouped(h.skipped)));
  if (h.micro_batch_tokens > 0 && h.micro_batch_tokens < default_micro_batch_tokens) {
    row("micro-batches", fmt::format("{} tokens, so that memory suffices", grouped(h.micro_batch_tokens)));
  }
  if (h.unreadable > 0) row("log", fmt::format("{} lines could not be read", grouped(h.unreadable)));
  std::string out = fmt::format("<p class=\"state\">{}</p>\n", page::escape(state_of(h)));
  if (!h.reason.empty()) out += fmt::format("<p>{}</p>\n", page::isolated(h.reason));
  return out + page::html(table);
}

Series series(const char* name, const Curve& curve, bool points) {
  Series s{name, curve.x(), curve.y()};
  s.points = points && s.x.size() <= 100;  // more would hide the line
  return s;
}

std::string figure_of(LineChart chart, const std::string& title, const Curve& curve, const char* what) {
  chart.x_title = "update";
  const std::string thinned = curve.stride() > 1 ? fmt::format("; a point is the mean of {} {} in a row",
                                                               grouped(curve.stride()), what)
                                                 : "";
  return page::figure(page::inline_svg(page::draw(chart), title), title + thinned);
}

// Of a figure that may fall by orders of magnitude.
bool spans_decades(const Curve& curve) {
  double low = INFINITY, high = 0.0;
  for (const double y : curve.y()) {
    if (std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
  }
  return low > 0.0 && high > 100.0 * low;
}

std::string curves(const TrainingHistory& h) {
  std::vector<std::string> figures;
  LineChart losses;
  if (!h.loss.empty()) losses.series.push_back(series("training", h.loss, false));
  for (const auto& [name, curve] : h.scores) {
    if (name == "loss") losses.series.push_back(series("validation", curve, true));
  }
  if (!losses.series.empty()) {
    figures.push_back(figure_of(losses,
                                "loss: the mean over target tokens, with label smoothing in training only",
                                h.loss, "updates"));
  }
  for (const auto& [name, curve] : h.scores) {
    if (name == "loss") continue;
    LineChart chart{{series("", curve, true)}};
    chart.log_y = name == "perplexity" && spans_decades(curve);
    figures.push_back(figure_of(chart, name + ", validation", curve, "validations"));
  }
  const auto add = [&](const Curve& curve, const char* title, bool from_zero) {
    if (curve.empty()) return;
    LineChart chart{{series("", curve, false)}};
    chart.from_zero = from_zero;
    chart.log_y = spans_decades(curve) && !from_zero;
    figures.push_back(figure_of(chart, title, curve, "updates"));
  };
  add(h.learning_rate, "learning rate", true);
  add(h.gradient_norm, "gradient norm, before clipping", false);
  add(h.speed, "target tokens a second", true);
  if (figures.empty()) return "<p class=\"muted\">There is nothing in the log yet.</p>\n";
  return page::side_by_side(figures);
}

std::string scores(const TrainingHistory& h) {
  if (!h.last) return "<p class=\"muted\">There is no validation data, or no validation yet.</p>\n";
  Table table{{"score"}, {}};
  std::vector<const Validation*> columns;
  const auto column = [&](const char* name, const Validation& v) {
    table.header.push_back(fmt::format("{} ({})", name,
                                       v.averaged > 0 ? fmt::format("mean of {} checkpoints", v.averaged)
                                                      : fmt::format("update {}", grouped(v.step))));
    columns.push_back(&v);
  };
  column("first", *h.first);
  if (h.best) column("best", *h.best);
  column("last", *h.last);
  for (const auto& [name, value] : h.last->scores) {
    table.rows.push_back({name});
    for (const Validation* v : columns) table.rows.back().push_back(figure_of(v->score(name)));
  }
  return page::html(table);
}

std::string samples(const TrainingHistory& h) {
  const std::vector<Validation> all = h.sampled();
  if (all.empty()) {
    return "<p class=\"muted\">No output was generated. <code>--valid-decode 100</code> generates that of "
           "the "
           "first 100 validation pairs.</p>\n";
  }
  const auto given = [](const char* name, const std::string& text) {
    return fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, text.empty() ? "(empty)" : page::isolated(text));
  };
  std::string out;
  for (size_t k = 0; k < all.front().samples.size(); ++k) {
    const Sample& fixed = all.front().samples[k];
    Table table{{"update", "output", ""}, {}};
    for (const Validation& v : all) {
      if (k >= v.samples.size()) continue;
      const std::string& output = v.samples[k].output;
      table.rows.push_back({v.averaged > 0 ? fmt::format("mean of {}", v.averaged) : grouped(v.step), output,
                            output == fixed.reference ? "✓" : ""});
    }
    out += fmt::format("<section class=\"sample\"><h3>Sentence {}</h3><div class=\"side-by-side\"><dl>\n",
                       k + 1) +
           given("source", fixed.source) + given("reference", fixed.reference) + "</dl>\n" +
           page::html(table) + "</div></section>\n";
  }
  return out;
}

}  // namespace

std::string training_report(const TrainingHistory& history, const std::string& settings,
                            const std::string& name) {
  page::Page page;
  page.title = "Training of " + name;
  page.style = kStyle;
  page.body = facts(history) + "<h2>Curves</h2>\n" + curves(history) + "<h2>Validation scores</h2>\n" +
              scores(history) + "<h2>Samples</h2>\n" + samples(history) + "<h2>Configuration</h2>\n";
  page.body += settings.empty() ? "<p class=\"muted\">There is no train.toml.</p>\n"
                                : fmt::format("<pre class=\"settings\">{}</pre>\n", page::escape(settings));
  return page::render(page);
}

std::string name_of_model(const std::string& directory) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(directory, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace transduce
