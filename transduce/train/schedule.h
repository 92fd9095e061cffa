#pragma once

#include <cstdint>
#include <string>

namespace transduce {

enum class ScheduleKind { constant, noam, inverse_sqrt, linear, cosine };

// The learning rate over a run.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double learning_rate = 3e-4;  // the peak; for noam a factor
  int64_t warmup = 0;           // steps of linear rise from 0
  int64_t steps = 0;            // length of the run, where linear and cosine reach `floor`
  int64_t width = 512;          // C, for noam
  double floor = 0.0;           // the learning rate at the end of linear and cosine

  // The learning rate of update `step`, counted from 1:
  //   constant      peak
  //   noam          factor * C^-0.5 * min(step^-0.5, step * warmup^-1.5)   (the paper, 5.3)
  //   inverse-sqrt  peak * sqrt(warmup / step)                             (fairseq's)
  //   linear        from peak straight down to floor at `steps`
  //   cosine        from peak down half a cosine to floor at `steps`       (Loshchilov and Hutter 2017)
  // All but noam rise linearly to the peak during the warm-up.
  double at(int64_t step) const;

  // Errors: InputError that names the value and what fits.
  void validate() const;
};

const char* to_string(ScheduleKind kind);
ScheduleKind parse_schedule_kind(const std::string& name);

}  // namespace transduce
