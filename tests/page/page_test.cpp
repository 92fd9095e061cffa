// Pages and pictures: whatever a text holds it stays text, pictures are well-formed XML, and their geometry
// is what the numbers say.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/page/xml.h"
#include "transduce/base/error.h"
#include "transduce/page/html.h"
#include "transduce/page/svg.h"

namespace transduce::page {
namespace {

using testing::count_of;
using testing::expect_well_formed;

const std::string kHostile = "</script><script>alert(1)</script> \"'><img src=x onerror=alert(1)>&amp;<!--";

TEST(Escape, LeavesNoMarkup) {
  EXPECT_EQ(escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escape("한국어 עברית"), "한국어 עברית");
  EXPECT_EQ(escape(std::string("a\xFF\x01\0b", 5)),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(escape("\xEF\xBF\xBE\x7F\t\n"), "\xEF\xBF\xBD\xEF\xBF\xBD\t\n");
  EXPECT_EQ(escape(kHostile).find('<'), std::string::npos);
}

TEST(Data, CannotEndItsElementAndReadsBackTheSame) {
  const nlohmann::ordered_json data{{"text", kHostile}, {"<", "\xFF"}, {"n", {1, 2.5, nullptr}}};
  const std::string element = data_element("data", data);
  EXPECT_EQ(count_of(element, "<"), 2U);
  const size_t begin = element.find('>') + 1;
  const auto back = nlohmann::json::parse(element.substr(begin, element.rfind('<') - begin));
  EXPECT_EQ(back["text"], kHostile);
  EXPECT_EQ(back["n"][1], 2.5);
}

TEST(Page, AsksNothingOfTheNetworkAndKeepsTextText) {
  Page page;
  page.title = kHostile;
  page.body =
      html(Table{{"name", "value"}, {{kHostile, "1.5"}, {"b", "-2 %"}}}) +
      figure(inline_svg(draw(HeatMap{{0.5f, 1.0f}, {kHostile}, {"x", kHostile}}), kHostile), kHostile);
  const std::string text = render(page);
  EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(text.find("name=\"viewport\""), std::string::npos);
  EXPECT_EQ(text.find("<img"), std::string::npos);
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_FALSE(std::regex_search(text, std::regex("(src|href)=\"?(http|//|file)")));
  EXPECT_EQ(text.find("@import"), std::string::npos);
  EXPECT_EQ(text.find("url("), std::string::npos);
}

TEST(Table, SetsNumbersFlushRight) {
  const std::string text = html(Table{{"name", "value"}, {{"a", "1.5"}, {"b", "-2 %"}, {"c"}}});
  EXPECT_NE(text.find("<th>name</th><th class=\"number\">value</th>"), std::string::npos);
  EXPECT_EQ(count_of(text, "<td class=\"number\">"), 2U);
}

TEST(HeatMap, DrawsWhatCanBeSeen) {
  HeatMap map{{1.0f, 0.0f, -0.5f, std::nanf("")}, {"r1", "r2"}, {"c1", "c2"}};
  map.cell = 10.0;
  const Drawing drawing = draw(map);
  EXPECT_EQ(count_of(drawing.elements, "<rect class=\"cell"), 2U);
  EXPECT_EQ(count_of(drawing.elements, "<rect class=\"cell negative\""), 1U);
  EXPECT_NE(drawing.elements.find("fill-opacity=\"0.5\""), std::string::npos);
  EXPECT_NE(drawing.elements.find("<title>r2, c1: -0.5</title>"), std::string::npos);
  expect_well_formed(svg_file(drawing, "a & b"));
}

TEST(HeatMap, RefusesLabelsThatDoNotFit) {
  EXPECT_THROW(draw(HeatMap{{1.0f, 2.0f, 3.0f}, {}, {"a", "b"}}), InputError);
  EXPECT_THROW(draw(HeatMap{{1.0f, 2.0f}, {"a", "b"}, {"a", "b"}}), InputError);
  EXPECT_THROW(draw(HeatMap{{1.0f, 2.0f}}), InputError);
  EXPECT_NO_THROW(draw(HeatMap{{1.0f, 2.0f}}, 2));
}

TEST(HeatMap, AnyLabelGivesWellFormedXml) {
  HeatMap map{{1.0f, 0.3f}, {"\x01\xFF]]>"}, {kHostile, "가\u0301\u202E"}};
  map.title = map.row_title = map.column_title = kHostile;
  expect_well_formed(svg_file(grid({draw(map), {}, draw(map)}, 2, 8.0), kHostile));
  expect_well_formed(svg_file(stack({text(kHostile, 14, true), draw(map)}, 8.0), kHostile));
}

// The first line of a chart as points.
std::vector<std::pair<double, double>> points_of(const Drawing& drawing) {
  std::smatch path;
  EXPECT_TRUE(
      std::regex_search(drawing.elements, path, std::regex("<path class=\"line s0[^>]*d=\"([^\"]*)\"")));
  const std::string text = path[1];
  std::vector<std::pair<double, double>> points;
  const std::regex point("[ML]([0-9.-]+) ([0-9.-]+)");
  for (std::sregex_iterator i(text.begin(), text.end(), point), end; i != end; ++i) {
    points.emplace_back(std::stod((*i)[1]), std::stod((*i)[2]));
  }
  return points;
}

TEST(LineChart, PlacesPointsInProportion) {
  const auto linear = points_of(draw(LineChart{{{"a", {0, 1, 4}, {0, 5, 20}}}}));
  ASSERT_EQ(linear.size(), 3U);
  EXPECT_NEAR((linear[1].first - linear[0].first) / (linear[2].first - linear[0].first), 0.25, 1e-3);
  EXPECT_NEAR((linear[1].second - linear[0].second) / (linear[2].second - linear[0].second), 0.25, 1e-3);
  EXPECT_LT(linear[2].second, linear[0].second) << "larger values lie higher";

  LineChart chart{{{"a", {1, 10, 1000, 0}, {1e-16, 1e-8, 1.0, 1.0}}}};
  chart.log_x = chart.log_y = true;
  const auto logarithmic = points_of(draw(chart));
  ASSERT_EQ(logarithmic.size(), 3U) << "zero has no place on a logarithmic axis";
  EXPECT_NEAR((logarithmic[1].first - logarithmic[0].first) / (logarithmic[2].first - logarithmic[0].first),
              1.0 / 3.0, 1e-3);
  EXPECT_NEAR(
      (logarithmic[1].second - logarithmic[0].second) / (logarithmic[2].second - logarithmic[0].second), 0.5,
      1e-3);
}

TEST(LineChart, WhatIsNotFiniteIsAGap) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Drawing drawing = draw(LineChart{{{"a", {0, 1, 2, 3, 4}, {1, nan, 2, inf, 3}, true, true}}});
  EXPECT_EQ(points_of(drawing).size(), 3U);
  EXPECT_EQ(drawing.elements.find("nan"), std::string::npos);
  EXPECT_EQ(count_of(drawing.elements, "<circle"), 3U);
  expect_well_formed(svg_file(drawing, "gaps"));
}

TEST(LineChart, DrawsEdgeCases) {
  for (const LineChart& chart :
       {LineChart{}, LineChart{{{"one", {5}, {5}}}}, LineChart{{{kHostile, {0, 1}, {0, 0}}, {"", {}, {}}}},
        LineChart{{{"tiny", {0, 1}, {1e-300, 2e-300}}}},
        LineChart{{{"huge", {-1e300, 1e300}, {-1e300, 1e300}}}},
        LineChart{{{"near", {1, 1 + 1e-15}, {1, 1 + 1e-15}}}}}) {
    for (const bool log : {false, true}) {
      LineChart drawn = chart;
      drawn.log_x = drawn.log_y = log;
      drawn.title = drawn.x_title = drawn.y_title = kHostile;
      const std::string file = svg_file(draw(drawn), "chart");
      expect_well_formed(file);
      EXPECT_LT(file.size(), 20000U);
      EXPECT_EQ(file.find("nan"), std::string::npos);
      EXPECT_EQ(file.find("inf"), std::string::npos);
    }
  }
  EXPECT_THROW(draw(LineChart{{{"a", {1, 2}, {1}}}}), InputError);
}

TEST(TextWidth, CountsWideLettersAsOneEm) {
  EXPECT_DOUBLE_EQ(text_width("한국", 10.0), 20.0);
  EXPECT_LT(text_width("ab", 10.0), 14.0);
  EXPECT_DOUBLE_EQ(text_width("\u0301", 10.0), 0.0);
}

}  // namespace
}  // namespace transduce::page
