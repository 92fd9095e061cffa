#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "transduce/base/error.h"
#include "transduce/page/html.h"
#include "transduce/page/svg.h"

namespace transduce::page {
namespace {

constexpr double kFont = 12.0;
constexpr size_t kColours = 8;

// "10⁻³"
std::string power_of_ten(int exponent) {
  static const char* const kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  if (exponent >= -2 && exponent <= 4) return fmt::format("{:g}", std::pow(10.0, exponent));
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += kDigits[digit - '0'];
  return text;
}

// One axis: the values it spans, and where on the picture they lie.
class Axis {
 public:
  Axis(bool log, bool from_zero) : log_(log), from_zero_(from_zero) {}

  bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0.0); }
  void include(double value) {
    low_ = std::min(low_, scaled(value));
    high_ = std::max(high_, scaled(value));
  }
  // Once all values are known: rounds the span to the ticks, or leaves it, and sets where it lies.
  void settle(bool to_ticks) {
    if (low_ > high_) low_ = 0.0, high_ = 1.0;
    if (from_zero_ && !log_) low_ = std::min(low_, 0.0);
    if (high_ - low_ <= 1e-12 * std::max(1.0, std::abs(high_))) {
      const double room = log_ ? 1.0 : std::max(std::abs(high_) * 0.5, 1e-9);
      low_ -= room;
      high_ += room;
    }
    step_ = log_ ? std::max(1.0, std::ceil((high_ - low_) / 6.0)) : nice_step((high_ - low_) / 5.0);
    if (to_ticks) {
      low_ = step_ * std::floor(low_ / step_ + 1e-9);
      high_ = step_ * std::ceil(high_ / step_ - 1e-9);
    }
  }
  void lie(double from, double to) { from_ = from, to_ = to; }
  double place(double value) const { return from_ + (scaled(value) - low_) / (high_ - low_) * (to_ - from_); }

  struct Tick {
    double at;
    std::string label;
  };
  std::vector<Tick> ticks() const {
    std::vector<Tick> ticks;
    const double first = std::ceil(low_ / step_ - 1e-9);
    for (double i = first; i * step_ <= high_ + 1e-9 * step_; ++i) {
      const double value = i * step_ == 0.0 ? 0.0 : i * step_;
      ticks.push_back(
          {from_ + (value - low_) / (high_ - low_) * (to_ - from_),
           log_ ? power_of_ten(static_cast<int>(std::lround(value))) : fmt::format("{:.6g}", value)});
    }
    return ticks;
  }

 private:
  double scaled(double value) const { return log_ ? std::log10(value) : value; }
  // The smallest of 1, 2, 5 times a power of ten that is not below `least`.
  static double nice_step(double least) {
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= least * (1.0 - 1e-9)) return factor * power;
    }
    return 10.0 * power;
  }

  bool log_, from_zero_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
  double step_ = 1.0, from_ = 0.0, to_ = 1.0;
};

struct Axes {
  Axis x, y;
  double left = 0.0, right = 0.0, top = 0.0, bottom = 0.0;
};

Axes axes_of(const LineChart& chart) {
  Axes axes{Axis(chart.log_x, false), Axis(chart.log_y, chart.from_zero)};
  for (const Series& s : chart.series) {
    check_input(s.x.size() == s.y.size(), "[line chart] series \"{}\" has {} x and {} y", s.name, s.x.size(),
                s.y.size());
    for (size_t i = 0; i < s.x.size(); ++i) {
      if (!axes.x.shows(s.x[i]) || !axes.y.shows(s.y[i])) continue;
      axes.x.include(s.x[i]);
      axes.y.include(s.y[i]);
    }
  }
  axes.x.settle(false);
  axes.y.settle(true);
  double labels = 0.0;
  for (const auto& tick : axes.y.ticks()) labels = std::max(labels, text_width(tick.label, kFont));
  axes.left = labels + 8.0 + (chart.y_title.empty() ? 0.0 : 1.5 * kFont);
  const auto x_ticks = axes.x.ticks();
  axes.right = chart.width - 2.0 - (x_ticks.empty() ? 0.0 : text_width(x_ticks.back().label, kFont) / 2.0);
  axes.top = chart.title.empty() ? 10.0 : 30.0;
  axes.bottom = chart.height - 20.0 - (chart.x_title.empty() ? 0.0 : 1.4 * kFont);
  axes.x.lie(axes.left, axes.right);
  axes.y.lie(axes.bottom, axes.top);
  return axes;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view more,
                    std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\" text-anchor=\"{}\" {}>{}</text>\n", x,
                     y, anchor, more, escape(text));
}

void draw_axes(const LineChart& chart, const Axes& a, std::string& out) {
  constexpr std::string_view kQuiet = "class=\"quiet\"";
  const auto rule = [&](double x1, double y1, double x2, double y2) {
    out += fmt::format("<line class=\"rule\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1,
                       y1, x2, y2);
  };
  for (const auto& tick : a.y.ticks()) {
    rule(a.left, tick.at, a.right, tick.at);
    out += text_at(a.left - 5.0, tick.at + 4.0, "end", kQuiet, tick.label);
  }
  for (const auto& tick : a.x.ticks()) {
    rule(tick.at, a.top, tick.at, a.bottom);
    out += text_at(tick.at, a.bottom + 16.0, "middle", kQuiet, tick.label);
  }
  out += fmt::format("<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                     a.left, a.top, a.right - a.left, a.bottom - a.top);
  if (!chart.title.empty()) {
    out += fmt::format("<text x=\"0\" y=\"14\" font-size=\"14\" font-weight=\"600\">{}</text>\n",
                       escape(chart.title));
  }
  if (!chart.x_title.empty()) {
    out += text_at((a.left + a.right) / 2.0, a.bottom + 16.0 + 1.4 * kFont, "middle", kQuiet, chart.x_title);
  }
  if (!chart.y_title.empty()) {
    out += fmt::format(
        "<text class=\"quiet\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\" font-size=\"12\" "
        "text-anchor=\"middle\">{}</text>\n",
        kFont, (a.top + a.bottom) / 2.0, escape(chart.y_title));
  }
}

void draw_series(const Series& s, const Axes& a, size_t colour, std::string& out) {
  std::string path, dots;
  bool pen_down = false;
  for (size_t i = 0; i < s.x.size(); ++i) {
    if (!a.x.shows(s.x[i]) || !a.y.shows(s.y[i])) {
      pen_down = false;
      continue;
    }
    const double x = a.x.place(s.x[i]), y = a.y.place(s.y[i]);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    pen_down = true;
    if (!s.points) continue;
    dots += fmt::format(
        "<circle class=\"d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}{}{:.6g}, "
        "{:.6g}</title></circle>\n",
        colour, x, y, escape(s.name), s.name.empty() ? "" : ": ", s.x[i], s.y[i]);
  }
  if (!path.empty()) {
    out += fmt::format("<path class=\"line s{}{}\" d=\"{}\"/>\n", colour, s.dashed ? " dashed" : "", path);
  }
  out += dots;
}

// The names below the axes, in as many lines as they need; returns their height.
double draw_legend(const LineChart& chart, std::string& out) {
  double x = 0.0, y = chart.height + 4.0;
  bool any = false;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& s = chart.series[i];
    if (s.name.empty()) continue;
    const double width = 30.0 + text_width(s.name, kFont) + 14.0;
    if (any && x + width > chart.width) x = 0.0, y += 18.0;
    any = true;
    out += fmt::format("<path class=\"line s{}{}\" d=\"M{:.1f} {:.1f}h22\"/>\n", i % kColours,
                       s.dashed ? " dashed" : "", x, y + 8.0);
    out += text_at(x + 28.0, y + 12.0, "start", "", s.name);
    x += width;
  }
  return any ? y + 20.0 - chart.height : 0.0;
}

}  // namespace

Drawing draw(const LineChart& chart) {
  const Axes axes = axes_of(chart);
  Drawing drawing{chart.width, chart.height, ""};
  draw_axes(chart, axes, drawing.elements);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    draw_series(chart.series[i], axes, i % kColours, drawing.elements);
  }
  drawing.height += draw_legend(chart, drawing.elements);
  return drawing;
}

}  // namespace transduce::page
