#include "transduce/train/schedule.h"

#include <algorithm>
#include <cmath>

#include "transduce/base/names.h"

namespace transduce {
namespace {

constexpr Name<ScheduleKind> kNames[] = {{ScheduleKind::constant, "constant"},
                                                           {ScheduleKind::noam, "noam"},
                                                           {ScheduleKind::inverse_sqrt, "inverse-sqrt"},
                                                           {ScheduleKind::linear, "linear"},
                                                           {ScheduleKind::cosine, "cosine"}};

constexpr double kPi = 3.14159265358979323846;

}  // namespace

double Schedule::at(int64_t step) const {
  const double s = static_cast<double>(std::max<int64_t>(step, 1));
  const double w = static_cast<double>(warmup);
  if (kind == ScheduleKind::noam) {
    const double rise = warmup > 0 ? s * std::pow(w, -1.5) : INFINITY;
    return learning_rate * std::pow(static_cast<double>(width), -0.5) * std::min(std::pow(s, -0.5), rise);
  }
  if (s < w) return learning_rate * s / w;
  const double left = std::max<double>(static_cast<double>(steps) - w, 1.0);
  const double progress = std::clamp((s - w) / left, 0.0, 1.0);
  switch (kind) {
    case ScheduleKind::inverse_sqrt:
      return learning_rate * std::sqrt(std::max(w, 1.0) / s);
    case ScheduleKind::linear:
      return learning_rate + (floor - learning_rate) * progress;
    case ScheduleKind::cosine:
      return floor + (learning_rate - floor) * 0.5 * (1.0 + std::cos(kPi * progress));
    default:
      return learning_rate;
  }
}

void Schedule::validate() const {
  check_input(learning_rate > 0.0 && learning_rate < 1e6,
              "learning rate {} is out of range: give a positive number", learning_rate);
  check_input(warmup >= 0, "warm-up {} is negative: give a number of steps", warmup);
  check_input(floor >= 0.0 && floor <= learning_rate,
              "the final learning rate {} is out of range: give 0 to the learning rate {}", floor,
              learning_rate);
  const bool ends = kind == ScheduleKind::linear || kind == ScheduleKind::cosine;
  check_input(!ends || steps > 0, "schedule {} needs the length of the run: give steps or epochs",
              to_string(kind));
}

const char* to_string(ScheduleKind kind) { return name_in(kNames, kind); }

ScheduleKind parse_schedule_kind(const std::string& name) { return value_in(kNames, "schedule", name); }

}  // namespace transduce
