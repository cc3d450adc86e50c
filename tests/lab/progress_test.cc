#include "apps/lab/runs/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gnomon::lab {
namespace progress_test {

TEST(LossCurve, GoesFromTheHighestToTheLowestLoss) {
  LossCurve curve;
  EXPECT_EQ(curve.text(), "            ");
  for (std::int64_t step = 1; step <= 24; ++step)
    curve.add(step, 24, 8 - 0.25 * static_cast<double>(step));
  EXPECT_EQ(curve.text(), "█▇▇▆▅▅▄▄▃▂▂▁");
  LossCurve half;
  for (std::int64_t step = 1; step <= 12; ++step) half.add(step, 24, 5);
  EXPECT_EQ(half.text(), "▁▁▁▁▁▁      ");
  LossCurve few;  // fewer steps than cells
  few.add(1, 2, 6), few.add(2, 2, 5);
  EXPECT_EQ(few.text(), "█     ▁     ");
}

TEST(LossCurve, LeavesOutLossesThatAreNotFinite) {
  LossCurve curve;
  curve.add(1, 12, 6), curve.add(2, 12, NAN), curve.add(3, 12, INFINITY), curve.add(12, 12, 5);
  EXPECT_EQ(curve.text(), "█          ▁");
}

TEST(Duration, HasMinutesAndHours) {
  EXPECT_EQ(duration(65), "1:05");
  EXPECT_EQ(duration(7200), "2:00:00");
}

}  // namespace progress_test
}  // namespace gnomon::lab
