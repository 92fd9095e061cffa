// The learning rate of the paper (5.3): a linear rise during the warm-up, then a fall with the root of the
// step.

#include "transduce/train/schedule.h"

#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

constexpr int64_t kSteps = 20000;

Schedule warm_up(int64_t width, int64_t steps) {
  return {.kind = ScheduleKind::noam, .learning_rate = 1.0, .warmup = steps, .width = width};
}

struct Peak {
  int64_t step = 0;
  double learning_rate = 0.0;
};

Peak peak_of(const Schedule& schedule) {
  Peak peak;
  for (int64_t step = 1; step <= kSteps; ++step) {
    if (schedule.at(step) > peak.learning_rate) peak = {step, schedule.at(step)};
  }
  return peak;
}

}  // namespace

Findings schedule() {
  Findings findings;
  LineChart chart{{}, "The paper's learning rate", "update", "learning rate"};
  bool as_the_formula = true;
  for (const int64_t width : {256, 512, 1024}) {
    for (const int64_t steps : {2000, 4000, 8000}) {
      const Schedule schedule = warm_up(width, steps);
      const Peak peak = peak_of(schedule);
      const double expected = 1.0 / std::sqrt(static_cast<double>(width) * static_cast<double>(steps));
      as_the_formula =
          as_the_formula && peak.step == steps && std::abs(peak.learning_rate - expected) < 1e-12;
      if (width != 512 && steps != 4000) continue;  // five curves tell it
      Series curve{fmt::format("width {}, warm-up {}", width, steps)};
      for (int64_t step = 100; step <= kSteps; step += 100) {
        curve.x.push_back(static_cast<double>(step));
        curve.y.push_back(schedule.at(step));
      }
      chart.series.push_back(curve);
    }
  }
  const Schedule base = warm_up(512, 4000);
  const Peak peak = peak_of(base);
  findings.claims = {
      holds("width 512, warm-up 4,000: the peak",
            fmt::format("{:.3e} at update {}", peak.learning_rate, peak.step), peak.step == 4000),
      holds(
          "the peak is at the end of the warm-up and is (width x warm-up)^-0.5, for 3 widths and 3 warm-ups",
          as_the_formula ? "9 of 9" : "not all", as_the_formula),
      holds("half way up it is half the peak; at four times the warm-up it has fallen to half",
            fmt::format("{:.4f} and {:.4f}", base.at(2000) / peak.learning_rate,
                        base.at(16000) / peak.learning_rate),
            std::abs(base.at(2000) / peak.learning_rate - 0.5) < 1e-12 &&
                std::abs(base.at(16000) / peak.learning_rate - 0.5) < 1e-12),
  };
  findings.pictures.emplace_back(chart);
  return findings;
}

}  // namespace transduce::lab
