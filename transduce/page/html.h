#pragma once

// Pages that stand alone: one HTML file that works from a disk, on a desktop and on a phone, light and dark
// as the reader's system asks, and that asks nothing of any network.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace transduce::page {

// Any text as it may stand between tags or in a quoted attribute, in HTML and in SVG. Bytes that are not
// UTF-8 and characters that XML forbids (controls, U+FFFE, U+FFFF) become U+FFFD.
std::string escape(std::string_view text);

// The same within an element of its own, so that its direction of writing (Arabic, Hebrew) stays its own:
// <bdi>text</bdi>
std::string isolated(std::string_view text);

// Data for a page's script: <script type="application/json" id="ID">. Whatever strings it holds, it cannot
// end the element. `id` is the author's, not the user's.
std::string data_element(const std::string& id, const nlohmann::ordered_json& data);

// A table. Every text is escaped; columns whose cells are all numbers (a sign, digits, units) are set flush
// right. Wider than the window, it scrolls by itself. Rows may be shorter than the header.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
std::string html(const Table& table);

// A picture or table with a line of text below it: <figure>. `content` is HTML; `caption` is escaped.
std::string figure(const std::string& content, std::string_view caption);

// Figures side by side where there is room, else below one another.
std::string side_by_side(const std::vector<std::string>& figures);

struct Page {
  std::string title;  // escaped; also the heading
  std::string language = "en";
  std::string body;    // HTML
  std::string style;   // CSS of this page alone, after the shared one
  std::string script;  // run at the end
};

// The whole file. Its colours are CSS variables (--paper --ink --muted --line --panel --accent) that follow
// prefers-color-scheme. A content security policy within it forbids every request.
std::string render(const Page& page);

}  // namespace transduce::page
