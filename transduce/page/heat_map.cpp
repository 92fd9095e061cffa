#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "transduce/base/error.h"
#include "transduce/page/html.h"
#include "transduce/page/svg.h"

namespace transduce::page {
namespace {

constexpr double kGap = 5.0;  // between labels and cells

double widest(const std::vector<std::string>& labels, double font_size) {
  double most = 0.0;
  for (const std::string& label : labels) most = std::max(most, text_width(label, font_size));
  return most;
}

// Where the cells lie, and how large the text around them is.
struct Frame {
  double left = 0.0, top = 0.0, width = 0.0, height = 0.0, font_size = 0.0;
  size_t rows = 0, columns = 0;
};

Frame frame_of(const HeatMap& map, size_t columns) {
  Frame f;
  f.columns = columns;
  check_input(columns > 0 && map.values.size() % columns == 0,
              "[heat map] {} values do not fill rows of {} columns", map.values.size(), columns);
  f.rows = map.values.size() / columns;
  check_input((map.row_labels.empty() || map.row_labels.size() == f.rows) &&
                  (map.column_labels.empty() || map.column_labels.size() == columns),
              "[heat map] ({}, {}) values with {} row and {} column labels", f.rows, columns,
              map.row_labels.size(), map.column_labels.size());
  f.font_size = std::clamp(0.86 * map.cell, 9.0, 13.0);
  f.left = map.row_labels.empty() ? 0.0 : widest(map.row_labels, f.font_size) + kGap;
  if (!map.row_title.empty()) f.left += 1.5 * f.font_size;
  f.top = map.column_labels.empty() ? 0.0 : widest(map.column_labels, f.font_size) + kGap;
  if (!map.column_title.empty()) f.top += 1.5 * f.font_size;
  if (!map.title.empty()) f.top += 20.0;
  f.width = static_cast<double>(columns) * map.cell;
  f.height = static_cast<double>(f.rows) * map.cell;
  return f;
}

// What the reader sees of a cell when it is pointed at.
std::string hint(const HeatMap& map, const Frame& f, size_t row, size_t column) {
  const auto name = [](const std::vector<std::string>& labels, size_t i) {
    return labels.empty() ? fmt::format("{}", i) : labels[i];
  };
  return fmt::format("<title>{}, {}: {:.4g}</title>", escape(name(map.row_labels, row)),
                     escape(name(map.column_labels, column)), map.values[row * f.columns + column]);
}

void draw_cells(const HeatMap& map, const Frame& f, std::string& out) {
  double limit = map.limit;
  for (const float value : map.values) {
    if (map.limit <= 0.0 && std::isfinite(value))
      limit = std::max(limit, std::abs(static_cast<double>(value)));
  }
  for (size_t i = 0; i < map.values.size(); ++i) {
    const auto value = static_cast<double>(map.values[i]);
    const double share = limit > 0.0 ? std::min(std::abs(value) / limit, 1.0) : 0.0;
    // What nobody could see is not written: most attention weights are about zero.
    if (!std::isfinite(value) || share < 0.004) continue;
    const size_t row = i / f.columns, column = i % f.columns;
    out += fmt::format("<rect class=\"cell{}\" x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\"{}",
                       value < 0.0 ? " negative" : "", f.left + static_cast<double>(column) * map.cell,
                       f.top + static_cast<double>(row) * map.cell, map.cell, map.cell,
                       share < 0.996 ? fmt::format(" fill-opacity=\"{:.2g}\"", share) : "");
    out += map.hover ? ">" + hint(map, f, row, column) + "</rect>\n" : "/>\n";
  }
}

void draw_labels(const HeatMap& map, const Frame& f, std::string& out) {
  // Labels that would run into each other are left out at regular steps.
  const auto step = static_cast<size_t>(std::ceil(1.05 * f.font_size / map.cell));
  for (size_t i = 0; i < map.row_labels.size(); i += step) {
    out += fmt::format("<text x=\"{:g}\" y=\"{:g}\" font-size=\"{:g}\" text-anchor=\"end\">{}</text>\n",
                       f.left - kGap, f.top + (static_cast<double>(i) + 0.5) * map.cell + 0.35 * f.font_size,
                       f.font_size, escape(map.row_labels[i]));
  }
  for (size_t i = 0; i < map.column_labels.size(); i += step) {
    out += fmt::format("<text transform=\"translate({:g} {:g}) rotate(-90)\" font-size=\"{:g}\">{}</text>\n",
                       f.left + (static_cast<double>(i) + 0.5) * map.cell + 0.35 * f.font_size, f.top - kGap,
                       f.font_size, escape(map.column_labels[i]));
  }
}

void draw_titles(const HeatMap& map, const Frame& f, std::string& out) {
  if (!map.title.empty()) {
    out += fmt::format("<text x=\"0\" y=\"13\" font-size=\"13\" font-weight=\"600\">{}</text>\n",
                       escape(map.title));
  }
  if (!map.column_title.empty()) {
    out += fmt::format("<text class=\"quiet\" x=\"{:g}\" y=\"{:g}\" font-size=\"{:g}\">{}</text>\n", f.left,
                       (map.title.empty() ? 0.0 : 20.0) + f.font_size, f.font_size, escape(map.column_title));
  }
  if (!map.row_title.empty()) {
    out += fmt::format(
        "<text class=\"quiet\" transform=\"translate({:g} {:g}) rotate(-90)\" font-size=\"{:g}\" "
        "text-anchor=\"end\">{}</text>\n",
        f.font_size, f.top, f.font_size, escape(map.row_title));
  }
}

}  // namespace

Drawing draw(const HeatMap& map, size_t columns) {
  const Frame f = frame_of(map, columns);
  Drawing drawing;
  // A title may be wider than the cells, and a row title longer than they are high.
  drawing.width = std::max({f.left + f.width, 1.1 * text_width(map.title, 13.0),
                            f.left + text_width(map.column_title, f.font_size)}) +
                  1.0;
  drawing.height = std::max(f.top + f.height, f.top + text_width(map.row_title, f.font_size)) + 1.0;
  draw_cells(map, f, drawing.elements);
  drawing.elements +=
      fmt::format("<rect class=\"frame\" x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\"/>\n", f.left,
                  f.top, f.width, f.height);
  draw_labels(map, f, drawing.elements);
  draw_titles(map, f, drawing.elements);
  return drawing;
}

}  // namespace transduce::page
