// Attention itself does not know the order of tokens. The paper (3.5) adds sinusoids of many wavelengths to
// the embeddings; others learn a vector a place, or turn queries and keys (rotary positions, Su et al. 2021).

#include "transduce/nn/positions.h"

#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

constexpr int64_t kWidth = 128, kPlaces = 100;

// The products of the places' rows: (place, place).
std::vector<Numbers> products_of_places(const Tensor& table) {
  std::vector<Numbers> rows, products;
  for (int64_t p = 0; p < kPlaces; ++p) rows.push_back(numbers(table.rows(p, p + 1)));
  for (const Numbers& row : rows) {
    products.emplace_back();
    for (const Numbers& other : rows) products.back().push_back(dot(row, other));
  }
  return products;
}

void measure_table(Findings& findings) {
  const Tensor table = sinusoid_table(kPlaces, kWidth, DType::float64);
  const std::vector<Numbers> products = products_of_places(table);
  double scatter = 0;  // of the products of places that are equally far apart
  Series curve{"sinusoids, width 128"};
  for (size_t distance = 0; distance < kPlaces; ++distance) {
    Numbers same;
    for (size_t p = 0; p + distance < kPlaces; ++p) same.push_back(products[p][p + distance]);
    const auto [least, most] = std::minmax_element(same.begin(), same.end());
    scatter = std::max(scatter, *most - *least);
    curve.x.push_back(static_cast<double>(distance)), curve.y.push_back(mean(same));
  }
  const auto largest_elsewhere = *std::max_element(curve.y.begin() + 1, curve.y.end());
  findings.claims.push_back(holds("the product of two places depends on their distance only: largest scatter",
                                  fmt::format("{:.0e}", scatter), scatter < 1e-10));
  findings.claims.push_back(
      holds("a place is most like itself: width / 2, next most like another",
            fmt::format("{:.1f}, {:.1f}", curve.y[0], largest_elsewhere),
            std::abs(curve.y[0] - kWidth / 2) < 1e-9 && largest_elsewhere < curve.y[0]));
  HeatMap map;
  map.title = "The sinusoid table";
  for (int64_t p = 0; p < 50; ++p) {
    map.row_labels.push_back(fmt::format("{}", p));
    const Numbers row = numbers(table.rows(p, p + 1));
    map.values.insert(map.values.end(), row.begin(), row.end());
  }
  for (int64_t c = 0; c < kWidth; ++c) map.column_labels.push_back(fmt::format("{}", c));
  findings.pictures.emplace_back(map);
  findings.pictures.emplace_back(LineChart{{curve}, "Product of two places", "distance", "product"});
}

constexpr int64_t kTrained = 8;  // the longest string that is trained on

// Next tokens right by length of the string, of a model that was trained on up to 8 symbols.
Series accuracy_by_length(PositionKind kind) {
  Lesson lesson;
  lesson.task = {TaskKind::reverse, 10, 1, kTrained};
  lesson.model.positions = kind;
  lesson.model.max_positions = 32;
  lesson.updates = 600;
  const Learned learned = learn(lesson, to_string(kind));
  Series series{to_string(kind)};
  for (int64_t length = 2; length <= 16; length += 2) {
    series.x.push_back(static_cast<double>(length));
    series.y.push_back(
        test(*learned.model, unseen({TaskKind::reverse, 10, length, length}, 128)).token_accuracy);
  }
  return series;
}

void extrapolate(Findings& findings) {
  LineChart chart{{}, "Reversing, trained on up to 8 symbols", "symbols", "next tokens right"};
  const auto measure = [&](PositionKind kind) {
    chart.series.push_back(accuracy_by_length(kind));
    const std::vector<double>& y = chart.series.back().y;  // at 2, 4, ... 16 symbols
    findings.claims.push_back(
        holds(fmt::format("{}: next tokens right at 8, 10 and 16 symbols falls past the trained 8",
                          to_string(kind)),
              fmt::format("{:.2f}, {:.2f}, {:.2f}", y[3], y[4], y[7]), y[3] > y[4] && y[4] > y[7]));
    return y[4];
  };
  const double sinusoidal = measure(PositionKind::sinusoidal), learned = measure(PositionKind::learned);
  const double rotary = measure(PositionKind::rotary);
  findings.claims.push_back(
      holds("two symbols past the trained length rotary positions lose the least",
            fmt::format("{:.2f} against {:.2f} and {:.2f}", rotary, sinusoidal, learned),
            rotary > sinusoidal && rotary > learned,
            "they show distances, and short distances occur in long strings too"));
  findings.pictures.emplace_back(chart);
}

}  // namespace

Findings positions() {
  Findings findings;
  measure_table(findings);
  extrapolate(findings);
  return findings;
}

}  // namespace transduce::lab
