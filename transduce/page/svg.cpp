#include "transduce/page/svg.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "transduce/base/text.h"
#include "transduce/page/html.h"

namespace transduce::page {
namespace {

// Plain classes and no variables: programs other than browsers read these files too.
constexpr std::string_view kStyle = R"(
svg text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK KR", sans-serif; fill: #1b1f24; }
svg .quiet { fill: #5a646e; }
svg .frame { fill: none; stroke: #c3cad1; }
svg .rule { stroke: #e3e7eb; }
svg .cell { fill: #0b5cad; }
svg .negative { fill: #c4540a; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .dashed { stroke-dasharray: 5 5; }
svg .s0 { stroke: #0b5cad; } svg .s1 { stroke: #c4540a; } svg .s2 { stroke: #1d7a40; } svg .s3 { stroke: #8a3ffc; }
svg .s4 { stroke: #b3261e; } svg .s5 { stroke: #0f7b83; } svg .s6 { stroke: #7a6a00; } svg .s7 { stroke: #5a646e; }
svg .d0 { fill: #0b5cad; } svg .d1 { fill: #c4540a; } svg .d2 { fill: #1d7a40; } svg .d3 { fill: #8a3ffc; }
svg .d4 { fill: #b3261e; } svg .d5 { fill: #0f7b83; } svg .d6 { fill: #7a6a00; } svg .d7 { fill: #5a646e; }
@media (prefers-color-scheme: dark) {
  svg text { fill: #e4e8ec; }
  svg .quiet { fill: #9aa5b0; }
  svg .frame { stroke: #4a535c; }
  svg .rule { stroke: #2a3036; }
  svg .cell { fill: #7ab8ff; }
  svg .negative { fill: #ffa566; }
  svg .s0 { stroke: #7ab8ff; } svg .s1 { stroke: #ffa566; } svg .s2 { stroke: #62d394; } svg .s3 { stroke: #be95ff; }
  svg .s4 { stroke: #ff8a80; } svg .s5 { stroke: #4fd1d9; } svg .s6 { stroke: #d6c24a; } svg .s7 { stroke: #9aa5b0; }
  svg .d0 { fill: #7ab8ff; } svg .d1 { fill: #ffa566; } svg .d2 { fill: #62d394; } svg .d3 { fill: #be95ff; }
  svg .d4 { fill: #ff8a80; } svg .d5 { fill: #4fd1d9; } svg .d6 { fill: #d6c24a; } svg .d7 { fill: #9aa5b0; }
}
)";

constexpr std::string_view kPaper = R"(
svg { background: #fff; }
@media (prefers-color-scheme: dark) { svg { background: #14171a; } }
)";

void place(const Drawing& drawing, double x, double y, std::string& out) {
  out += fmt::format("<g transform=\"translate({:.4g} {:.4g})\">{}</g>\n", x, y, drawing.elements);
}

}  // namespace

std::string_view svg_style() { return kStyle; }

std::string inline_svg(const Drawing& drawing, std::string_view label) {
  return fmt::format(
      "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\">\n{}</svg>",
      escape(label), drawing.width, drawing.height, drawing.width, drawing.elements);
}

std::string svg_file(const Drawing& drawing, std::string_view title) {
  constexpr double kMargin = 16.0;
  const double width = drawing.width + 2 * kMargin, height = drawing.height + 2 * kMargin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{:.0f} {:.0f} {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\">\n<title>{}</title>\n<style>{}{}</style>\n{}</svg>\n",
      -kMargin, -kMargin, width, height, width, height, escape(title), kStyle, kPaper, drawing.elements);
}

double text_width(std::string_view text, double font_size) {
  double ems = 0.0;
  for (const std::string_view character : utf8_characters(text)) {
    utf8proc_int32_t scalar = -1;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                                         static_cast<utf8proc_ssize_t>(character.size()), &scalar);
    const int columns = length > 0 ? utf8proc_charwidth(scalar) : 1;
    ems += columns >= 2 ? 1.0 : columns == 1 ? 0.58 : 0.0;
  }
  return ems * font_size;
}

Drawing grid(const std::vector<Drawing>& drawings, size_t columns, double gap) {
  columns = std::max<size_t>(columns, 1);
  double width = 0.0, height = 0.0;
  for (const Drawing& one : drawings) {
    width = std::max(width, one.width);
    height = std::max(height, one.height);
  }
  const size_t rows = (drawings.size() + columns - 1) / columns;
  columns = std::min(columns, std::max<size_t>(drawings.size(), 1));
  Drawing all;
  for (size_t i = 0; i < drawings.size(); ++i) {
    place(drawings[i], static_cast<double>(i % columns) * (width + gap),
          static_cast<double>(i / columns) * (height + gap), all.elements);
  }
  all.width = static_cast<double>(columns) * (width + gap) - gap;
  all.height = std::max(0.0, static_cast<double>(rows) * (height + gap) - gap);
  return all;
}

Drawing stack(const std::vector<Drawing>& drawings, double gap) {
  Drawing all;
  for (const Drawing& one : drawings) {
    if (all.height > 0.0) all.height += gap;
    place(one, 0.0, all.height, all.elements);
    all.width = std::max(all.width, one.width);
    all.height += one.height;
  }
  return all;
}

Drawing text(std::string_view text, double font_size, bool bold) {
  return {text_width(text, font_size) * (bold ? 1.1 : 1.0), 1.4 * font_size,
          fmt::format("<text y=\"{:.4g}\" font-size=\"{:g}\"{}>{}</text>\n", 1.05 * font_size, font_size,
                      bold ? " font-weight=\"600\"" : "", escape(text))};
}

}  // namespace transduce::page
