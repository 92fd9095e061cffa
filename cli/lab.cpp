#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/progress.h"
#include "transduce/base/file.h"
#include "transduce/base/text.h"
#include "transduce/lab/lab.h"
#include "transduce/page/html.h"

namespace transduce::cli {
namespace {

using lab::Claim;
using lab::Experiment;
using lab::Findings;
using lab::Verdict;

struct Report {
  const Experiment* experiment;
  Findings findings;
  double seconds;
};

// A text cut into lines of at most `width` bytes, at blanks.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines{""};
  for (const std::string_view word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  return lines;
}

// The table of an experiment: a claim takes as many lines as it needs; its note stands below it.
std::string table_of(const Report& report) {
  constexpr size_t kClaim = 56, kFigure = 22;
  std::string text = fmt::format("{}: {}  ({:.1f} s)\n", report.experiment->name, report.experiment->question,
                                 report.seconds);
  const auto row = [&](std::string_view claim, std::string_view published, std::string_view measured,
                       std::string_view verdict) {
    text += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}\n", claim, kClaim, published, kFigure, measured,
                        kFigure, verdict);
  };
  row("claim", "published", "measured", "verdict");
  for (const Claim& claim : report.findings.claims) {
    const auto lines = wrapped(claim.text, kClaim), published = wrapped(claim.published, kFigure),
               measured = wrapped(claim.measured, kFigure);
    const auto at = [](const std::vector<std::string>& cell, size_t i) {
      return i < cell.size() ? cell[i] : std::string();
    };
    for (size_t i = 0; i < std::max({lines.size(), published.size(), measured.size()}); ++i)
      row(at(lines, i), at(published, i), at(measured, i), i == 0 ? to_string(claim.verdict) : "");
    if (claim.note.empty()) continue;
    for (const std::string& line : wrapped(claim.note, kClaim + 2 * kFigure)) text += "    | " + line + "\n";
  }
  return text;
}

// A picture with its title below it.
std::string figure_of(lab::LineChart chart) {
  const std::string title = std::exchange(chart.title, "");
  return page::figure(page::inline_svg(page::draw(chart), title), title);
}

// Cells are large where there are few, so that small matrices can be read and large ones seen as a whole.
std::string figure_of(lab::HeatMap map) {
  const std::string title = std::exchange(map.title, "");
  map.cell = std::clamp(480.0 / static_cast<double>(map.column_labels.size()), 5.0, 36.0);
  return page::figure(page::inline_svg(page::draw(map), title), title);
}

// A section of the page: the table, the notes, the pictures.
std::string section_of(const Report& report) {
  const std::vector<Claim>& claims = report.findings.claims;
  const bool published =
      std::any_of(claims.begin(), claims.end(), [](const Claim& claim) { return !claim.published.empty(); });
  page::Table table{{"claim", "measured", "verdict"}, {}};
  if (published) table.header.insert(table.header.begin() + 1, "published");
  std::string notes;
  for (const Claim& claim : claims) {
    table.rows.push_back({claim.text, claim.measured, to_string(claim.verdict)});
    if (published) table.rows.back().insert(table.rows.back().begin() + 1, claim.published);
    if (!claim.note.empty())
      notes += fmt::format("<li>{}: {}</li>\n", page::escape(claim.text), page::escape(claim.note));
  }
  std::vector<std::string> pictures;
  for (const lab::Picture& picture : report.findings.pictures)
    pictures.push_back(std::visit([](const auto& one) { return figure_of(one); }, picture));
  return fmt::format("<h2 id=\"{0}\">{0}</h2>\n<p>{1}</p>\n{2}", report.experiment->name,
                     page::escape(report.experiment->question), page::html(table)) +
         (notes.empty() ? "" : "<ul class=\"notes\">\n" + notes + "</ul>\n") + page::side_by_side(pictures);
}

std::string page_of(const std::vector<Report>& reports) {
  page::Page page;
  page.title = "The laboratory of transduce";
  page.style = ".notes { color: var(--muted); font-size: 0.9em; }\ntd:first-child { min-width: 14em; }\n";
  page.body =
      "<p>Each table sets a claim about Transformers beside the figure that was published for it, where "
      "there is "
      "one, and beside what this program's own engine measures.</p>\n";
  for (const Report& report : reports) page.body += section_of(report);
  return page::render(page);
}

nlohmann::ordered_json json_of(const Report& report) {
  nlohmann::ordered_json claims = nlohmann::ordered_json::array();
  for (const Claim& claim : report.findings.claims) {
    claims.push_back({{"claim", claim.text},
                      {"published", claim.published},
                      {"measured", claim.measured},
                      {"verdict", to_string(claim.verdict)},
                      {"note", claim.note}});
  }
  return {{"experiment", report.experiment->name},
          {"question", report.experiment->question},
          {"seconds", report.seconds},
          {"claims", claims}};
}

std::string list_of_experiments() {
  std::string text;
  for (const Experiment& experiment : lab::experiments())
    text += fmt::format("  {:<18}{}\n", experiment.name, experiment.question);
  return text;
}

}  // namespace

int lab_command(int argc, char** argv) {
  Parser parser(
      "lab",
      "Small experiments that show why each part of a Transformer is there, measured with this program's "
      "own engine beside the figures that were published.\n\n" +
          list_of_experiments(),
      "  transduce lab residual\n  transduce lab all --html lab.html");
  std::vector<std::string> names;
  std::string html;
  bool json = false;
  parser.add_option("experiment", names, "one or more of the experiments above, or all")->required();
  parser.add_option("--html", html, "also write tables and pictures as one page that stands alone");
  parser.add_flag("--json", json, "print one JSON object a line for each experiment");
  if (const auto status = parser.read(argc, argv)) return *status;

  std::vector<const Experiment*> chosen;
  for (const std::string& name : names) {
    if (name == "all") {
      for (const Experiment& experiment : lab::experiments()) chosen.push_back(&experiment);
    } else {
      chosen.push_back(&lab::experiment_named(name));
    }
  }
  std::optional<AtomicFile> file;  // opened at once: nobody should wait for a page that cannot be written
  if (!html.empty()) file.emplace(html);
  int64_t failed = 0;
  std::vector<Report> reports;
  for (const Experiment* experiment : chosen) {
    StatusLine status;
    status.show(fmt::format("measuring {}", experiment->name), true);
    const auto start = std::chrono::steady_clock::now();
    Report report{experiment, experiment->run(), 0.0};
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    status.clear();
    print("{}\n", json ? json_of(report).dump() : table_of(report));
    std::fflush(stdout);
    for (const Claim& claim : report.findings.claims) failed += claim.verdict == Verdict::fails ? 1 : 0;
    reports.push_back(std::move(report));
  }
  if (file) {
    file->write(page_of(reports));
    file->commit();
  }
  if (failed > 0) fail_run("{} of the claims did not come out as stated: see the table", failed);
  return 0;
}

}  // namespace transduce::cli
