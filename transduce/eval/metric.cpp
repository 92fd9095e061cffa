#include "transduce/eval/metric.h"

#include "transduce/base/error.h"
#include "transduce/base/parallel.h"

namespace transduce {

std::vector<double> Statistics::sums() const {
  std::vector<double> total(width);
  for (size_t i = 0; i < values.size(); ++i) total[i % width] += values[i];
  return total;
}

Statistics collect_statistics(const Metric& metric, std::span<const std::string> hypotheses,
                              ReferenceSets references) {
  check_input(!hypotheses.empty(), "there is no line to evaluate");
  check_input(!references.empty(), "there is no reference: give one set of lines or more");
  for (size_t r = 0; r < references.size(); ++r) {
    check_input(
        references[r].size() == hypotheses.size(),
        "reference set {} has {} lines, but there are {} hypotheses: each set needs one line for each "
        "hypothesis",
        r + 1, references[r].size(), hypotheses.size());
  }
  Statistics statistics{metric.width(), std::vector<double>(hypotheses.size() * metric.width())};
  parallel_each(static_cast<int64_t>(hypotheses.size()), [&](int64_t line) {
    const auto i = static_cast<size_t>(line);
    Segment segment{hypotheses[i], {}};
    for (const auto& set : references) segment.references.emplace_back(set[i]);
    metric.measure(segment, std::span(statistics.values).subspan(i * statistics.width, statistics.width));
  });
  return statistics;
}

std::string signature(const Metric& metric, size_t references, std::string_view resampling) {
  return fmt::format("nrefs:{}|{}{}{}", references, resampling, resampling.empty() ? "" : "|",
                     metric.settings());
}

}  // namespace transduce
