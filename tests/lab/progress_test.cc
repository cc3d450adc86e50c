#include "apps/lab/runs/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

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

// What a run writes to a file: an event for each call, and a line for its result.
TEST(Progress, OfARunIsAnEventAndALine) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> lines(std::tmpfile(), std::fclose),
      events(std::tmpfile(), std::fclose);
  Settings settings;
  settings.encodings = {"rotary", "transformer_xl"};
  settings.seeds = {1, 2};
  settings.steps = 10;
  {
    Progress progress(settings, lines.get(), events.get());
    const Job job{"rotary", 2};
    progress.training(job, 10, 2.5, 400);
    progress.testing(job);
    progress.finished(job, "2.1 bits");
    progress.note("a note");
  }
  const auto text = [](std::FILE* file) {
    std::string all(4096, '\0');
    std::rewind(file);
    all.resize(std::fread(all.data(), 1, all.size(), file));
    return all;
  };
  EXPECT_EQ(text(lines.get()), "rotary         seed 2  2.1 bits\na note\n");
  EXPECT_EQ(text(events.get()),
            R"({"event":"training","run":"rotary-seed2","step":10,"steps":10,"bits":2.5,)"
            R"("tokens_per_second":400.0})"
            "\n"
            R"({"event":"testing","run":"rotary-seed2"})"
            "\n"
            R"({"event":"finished","run":"rotary-seed2","outcome":"2.1 bits"})"
            "\n");
}

}  // namespace progress_test
}  // namespace gnomon::lab
