#include "transduce/page/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "transduce/base/text.h"
#include "transduce/page/svg.h"

namespace transduce::page {
namespace {

constexpr std::string_view kStyle = R"(
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --muted: #5a646e; --line: #d5dbe1; --panel: #f4f6f8; --accent: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e4e8ec; --muted: #9aa5b0; --line: #353c44; --panel: #1d2226; --accent: #7ab8ff; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 24px 16px 64px; max-width: 1180px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK KR", "Apple SD Gothic Neo",
    "Malgun Gothic", sans-serif;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 12px; }
h2 { font-size: 1.2rem; margin: 40px 0 8px; }
h3 { font-size: 1rem; margin: 24px 0 6px; }
p { margin: 8px 0; max-width: 46rem; }
a { color: var(--accent); }
code { font: 0.9em ui-monospace, "DejaVu Sans Mono", monospace; background: var(--panel); border-radius: 4px;
  padding: 1px 4px; overflow-wrap: anywhere; }
.muted, figcaption { color: var(--muted); font-size: 0.9rem; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; margin: 8px 0; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); text-align: start; vertical-align: top; }
th { color: var(--muted); font-weight: 600; }
td.number, th.number { text-align: end; white-space: nowrap; }
figure { margin: 12px 0; min-width: 0; }
figure > svg, figure > .scroll > svg { display: block; max-width: 100%; height: auto; }
.side-by-side { display: grid; gap: 16px 32px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
)";

// The replacement for what XML 1.0 forbids, section 2.2; `character` is valid UTF-8.
bool is_forbidden(std::string_view character) {
  if (character.size() == 1) {
    const auto c = static_cast<unsigned char>(character[0]);
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  }
  return character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
}

bool is_number(std::string_view text) {
  constexpr std::string_view kAfterSign = "0123456789.";
  if (text.empty()) return true;
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  return !text.empty() && kAfterSign.find(text[0]) != std::string_view::npos;
}

}  // namespace

std::string escape(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  std::string out;
  out.reserve(valid.size());
  for (const std::string_view character : utf8_characters(valid)) {
    switch (character[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += is_forbidden(character) ? "\xEF\xBF\xBD" : character;
    }
  }
  return out;
}

std::string isolated(std::string_view text) { return "<bdi>" + escape(text) + "</bdi>"; }

std::string data_element(const std::string& id, const nlohmann::ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    // "<" stands in strings only, and there an escape means the same: neither </script> nor <!-- can occur.
    text += c == '<' ? std::string("\\u003C") : std::string(1, c);
  }
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, text);
}

std::string html(const Table& table) {
  const auto numeric = [&](size_t column) {
    return std::all_of(table.rows.begin(), table.rows.end(),
                       [&](const auto& row) { return column >= row.size() || is_number(row[column]); });
  };
  std::string out = "<div class=\"scroll\"><table>\n<tr>";
  std::vector<const char*> kinds;
  for (size_t i = 0; i < table.header.size(); ++i) {
    kinds.push_back(numeric(i) ? " class=\"number\"" : "");
    out += fmt::format("<th{}>{}</th>", kinds[i], escape(table.header[i]));
  }
  out += "</tr>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      out += fmt::format("<td{}>{}</td>", i < kinds.size() ? kinds[i] : "", isolated(row[i]));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string figure(const std::string& content, std::string_view caption) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", content, escape(caption));
}

std::string side_by_side(const std::vector<std::string>& figures) {
  std::string out = "<div class=\"side-by-side\">\n";
  for (const std::string& one : figures) out += one;
  return out + "</div>\n";
}

std::string render(const Page& page) {
  const std::string title = escape(page.title);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>",
      escape(page.language), title);
  out += kStyle;
  out += svg_style();
  out += page.style;
  out += "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n" + page.body;
  if (!page.script.empty()) out += "<script>\n" + page.script + "</script>\n";
  return out + "</body>\n</html>\n";
}

}  // namespace transduce::page
