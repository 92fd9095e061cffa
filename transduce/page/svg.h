#pragma once

// Pictures as SVG, within a page or in a file of their own. Light and dark as the reader's system asks.

#include <string>
#include <string_view>
#include <vector>

namespace transduce::page {

// Elements of a picture, in units of one pixel.
struct Drawing {
  double width = 0.0, height = 0.0;
  std::string elements;
};

// <svg> to stand in a page, as wide as drawn or, where there is less room, smaller. `label` says what it
// shows to those who do not see it.
std::string inline_svg(const Drawing& drawing, std::string_view label);

// A whole .svg file; `title` as above.
std::string svg_file(const Drawing& drawing, std::string_view title);

// The CSS rules of the classes that drawings use; render() and svg_file() put them in.
std::string_view svg_style();

// How wide a text is at a font size, about: letters of Chinese, Japanese and Korean count as one em.
double text_width(std::string_view text, double font_size);

// A matrix as coloured cells: the colour is full at `limit` (and at -limit in a second colour), absent at 0.
struct HeatMap {
  std::vector<float> values;                           // (R, C) row-major; what is not finite is left blank
  std::vector<std::string> row_labels, column_labels;  // one a row and column, or none
  std::string title, row_title, column_title;          // of the whole, of the axes; may be empty
  double limit = 0.0;                                  // 0: the largest magnitude
  double cell = 14.0;                                  // width and height of a cell
  bool hover = true;                                   // a cell's labels and value when pointed at
};
// Errors: InputError when the labels and the values do not fit each other, or without both labels and
// `columns`.
Drawing draw(const HeatMap& map, size_t columns);
inline Drawing draw(const HeatMap& map) { return draw(map, map.column_labels.size()); }

struct Series {
  std::string name;  // for the legend; empty: not in it
  std::vector<double> x, y;
  bool dashed = false;
  bool points = false;  // a dot at each, with its values when pointed at
};

// Lines over one pair of axes.
struct LineChart {
  std::vector<Series> series;
  std::string title, x_title, y_title;
  bool log_x = false, log_y = false;  // points that are not positive are left out then
  double width = 440.0, height = 280.0;
  bool from_zero = false;  // the y axis begins at 0 whatever the values
};
// What is not finite leaves a gap in its line. Errors: InputError when a series has more x than y or fewer.
Drawing draw(const LineChart& chart);

// Drawings in a grid, `columns` a row, in cells as large as the largest; an empty drawing leaves its cell
// blank.
Drawing grid(const std::vector<Drawing>& drawings, size_t columns, double gap);

// Drawings below one another.
Drawing stack(const std::vector<Drawing>& drawings, double gap);

// A line of text.
Drawing text(std::string_view text, double font_size, bool bold);

}  // namespace transduce::page
