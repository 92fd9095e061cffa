// Learning rates against the formulas they are named after.

#include "transduce/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transduce/base/error.h"

namespace transduce {
namespace {

Schedule made(ScheduleKind kind, double learning_rate, int64_t warmup, int64_t steps = 0) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.learning_rate = learning_rate;
  schedule.warmup = warmup;
  schedule.steps = steps;
  return schedule;
}

// The paper, 5.3: d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), with its d_model and warm-up.
TEST(ScheduleTest, NoamIsThePapers) {
  Schedule schedule = made(ScheduleKind::noam, 1.0, 4000);
  schedule.width = 512;
  EXPECT_NEAR(schedule.at(1), 1 / std::sqrt(512.0) / (4000 * std::sqrt(4000.0)), 1e-15);
  EXPECT_NEAR(schedule.at(1), 1.7469e-7, 1e-11);
  EXPECT_NEAR(schedule.at(4000), 6.9877e-4, 1e-8);  // the peak
  EXPECT_NEAR(schedule.at(16000), schedule.at(4000) / 2, 1e-15);
  EXPECT_NEAR(schedule.at(2000), schedule.at(4000) / 2, 1e-15);
  EXPECT_GT(schedule.at(4000), schedule.at(3999));
  EXPECT_GT(schedule.at(4000), schedule.at(4001));
  schedule.learning_rate = 2.0;  // a factor
  EXPECT_NEAR(schedule.at(4000), 2 * 6.9877e-4, 2e-8);
}

// fairseq's inverse_sqrt with warmup-init-lr 0: lr * step / warmup, then lr * sqrt(warmup) * step^-0.5.
TEST(ScheduleTest, InverseSqrtIsFairseqs) {
  const Schedule schedule = made(ScheduleKind::inverse_sqrt, 5e-4, 4000);
  EXPECT_NEAR(schedule.at(1), 5e-4 / 4000, 1e-18);
  EXPECT_NEAR(schedule.at(1000), 1.25e-4, 1e-16);
  EXPECT_NEAR(schedule.at(4000), 5e-4, 1e-16);
  EXPECT_NEAR(schedule.at(16000), 2.5e-4, 1e-16);
  EXPECT_NEAR(schedule.at(100000), 5e-4 * std::sqrt(4000.0) / std::sqrt(100000.0), 1e-16);
}

TEST(ScheduleTest, ConstantRisesAndStays) {
  const Schedule schedule = made(ScheduleKind::constant, 1e-3, 10);
  EXPECT_DOUBLE_EQ(schedule.at(5), 5e-4);
  EXPECT_DOUBLE_EQ(schedule.at(10), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.at(1000000), 1e-3);
  EXPECT_DOUBLE_EQ(made(ScheduleKind::constant, 1e-3, 0).at(1), 1e-3);
}

// From PyTorch 2.13: the rates of torch.optim.lr_scheduler.CosineAnnealingLR(T_max=90, eta_min=2e-4) and
// LinearLR(start_factor=1, end_factor=0.1, total_iters=90) on a rate of 2e-3, after 0, 1, 30, 45, 89, 90
// steps.
TEST(ScheduleTest, CosineAndLinearArePyTorchs) {
  constexpr int64_t after[] = {0, 1, 30, 45, 89, 90};
  constexpr double cosine[] = {
      0.002, 0.001999451744317186, 0.0015500000000000002, 0.0010999999999999998, 0.00020054825568281383,
      0.0002};
  constexpr double linear[] = {
      0.002, 0.00198, 0.0014000000000000009, 0.0011000000000000005, 0.00022000000000000003, 0.0002};
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::linear}) {
    Schedule schedule = made(kind, 2e-3, 10, 100);
    schedule.floor = 2e-4;
    for (size_t i = 0; i < 6; ++i) {
      // The warm-up of ten steps ends at the peak; from there both count alike.
      EXPECT_NEAR(schedule.at(10 + after[i]), (kind == ScheduleKind::cosine ? cosine : linear)[i], 1e-17)
          << after[i];
    }
    EXPECT_DOUBLE_EQ(schedule.at(5), 1e-3);
    EXPECT_DOUBLE_EQ(schedule.at(1000), 2e-4) << "a run that goes on stays at the floor";
  }
}

TEST(ScheduleTest, IsFiniteAndPositiveEverywhere) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::noam, ScheduleKind::inverse_sqrt,
                                  ScheduleKind::linear, ScheduleKind::cosine}) {
    for (const int64_t warmup : {0, 1, 7, 100}) {
      Schedule schedule = made(kind, 1e-3, warmup, 50);  // also a warm-up longer than the run
      schedule.floor = 1e-5;
      for (int64_t step = 0; step < 200; ++step) {
        EXPECT_GT(schedule.at(step), 0.0) << to_string(kind) << ' ' << warmup << ' ' << step;
        EXPECT_LE(schedule.at(step), 0.05);
      }
    }
  }
}

TEST(ScheduleTest, NamesAndErrors) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::noam, ScheduleKind::inverse_sqrt,
                                  ScheduleKind::linear, ScheduleKind::cosine}) {
    EXPECT_EQ(parse_schedule_kind(to_string(kind)), kind);
  }
  EXPECT_STREQ(to_string(ScheduleKind::inverse_sqrt), "inverse-sqrt");
  EXPECT_THROW(parse_schedule_kind("inverse_sqrt"), InputError);
  EXPECT_NO_THROW(made(ScheduleKind::noam, 1.0, 10).validate());
  EXPECT_THROW(made(ScheduleKind::noam, 0.0, 10).validate(), InputError);
  EXPECT_THROW(made(ScheduleKind::noam, NAN, 10).validate(), InputError);
  EXPECT_THROW(made(ScheduleKind::noam, 1.0, -1).validate(), InputError);
  EXPECT_THROW(made(ScheduleKind::cosine, 1.0, 10).validate(), InputError) << "needs the length of the run";
  Schedule above = made(ScheduleKind::linear, 1e-3, 0, 10);
  above.floor = 1e-2;
  EXPECT_THROW(above.validate(), InputError);
}

}  // namespace
}  // namespace transduce
