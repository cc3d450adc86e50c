// The choice of seeds and steps, with invented speeds.
#include "apps/lab/runs/calibration.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/tasks.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "lab/tiny.h"

namespace gnomon::lab {
namespace budget_test {

struct Given {
  const char* name;
  std::size_t encodings = 6;
  int jobs = 2;
  double step = 0.1, tests = 10, spent = 0;  // seconds
  bool minutes_given = false;
  double minutes = 8.5;
  std::int64_t seeds_given = 0;
  std::size_t rates = 0;              // of --sweep
  std::int64_t seeds = 0, steps = 0;  // expected
};

class Budgets : public ::testing::TestWithParam<Given> {};
INSTANTIATE_TEST_SUITE_P(
    , Budgets,
    ::testing::Values(
        // A run: 600 x 0.1 x 1.04 + 10 = 72.4 s. 30 runs on 2 threads: 1086 s. 18 runs in 97 %
        // of 510 s, of which 2 s are for the report: (492.7 / 9 - 10) / 0.104.
        Given{.name = "FiveSeedsTakeTooLong", .seeds = 3, .steps = 430},
        Given{.name = "FiveSeedsFit", .minutes = 18.8, .seeds = 5, .steps = 600},
        Given{.name = "OnlyMinutesRaiseTheSteps", .minutes = 30, .seeds = 5, .steps = 600},
        // (3490 / 15 - 10) / 0.104
        Given{.name = "MinutesRaiseTheSteps",
              .minutes_given = true,
              .minutes = 60,
              .seeds = 5,
              .steps = 2141},
        Given{.name = "TimeThatHasPassedCounts",
              .spent = 100,  // (392.7 / 9 - 10) / 0.104
              .seeds = 3,
              .steps = 323},
        Given{.name = "SeedsAreThoseGiven",
              .seeds_given = 1,  // (492.7 / 3 - 10) / 0.104, at most 600
              .seeds = 1,
              .steps = 600},
        // A third of the steps for each of 4 rates: 9 (0.104 n + 10) + 12 x 0.104 n / 3 =
        // 492.7.
        Given{.name = "ASweepCounts", .rates = 4, .seeds = 3, .steps = 298},
        Given{
            .name = "TooSlowForOneStep", .step = 1000, .tests = 1000, .seeds = 3, .steps = 1}),
    [](const auto& info) { return info.param.name; });

TEST_P(Budgets, GiveSeedsAndSteps) {
  const Given& given = GetParam();
  Settings settings;
  settings.encodings.assign(given.encodings, "rotary");
  settings.steps = 600;
  settings.seeds = seeds_up_to(given.seeds_given ? given.seeds_given : 3);
  Options options;
  options.jobs = given.jobs;
  options.minutes = given.minutes;
  options.steps_follow_minutes = given.minutes_given;
  options.seeds_follow_minutes = given.seeds_given == 0;
  options.sweep.assign(given.rates, 0.01);
  const Budget found = choose_budget(settings, options, {given.step, given.tests}, given.spent);
  EXPECT_EQ(found.seeds, seeds_up_to(given.seeds));
  EXPECT_NEAR(static_cast<double>(found.steps), static_cast<double>(given.steps), 2);
  EXPECT_NE(found.reason.find(std::to_string(found.steps)), std::string::npos);
}

// Steps of a minute: without a measured speed, all that a number can be would fit.
TEST(Calibrate, MeasuresTheSpeedOfAStep) {
  Settings settings = testing::tiny();
  settings.encodings = {"none"};
  settings.seeds = {1};
  Settings asked = settings;
  Options options;
  options.minutes = 1;
  options.steps_follow_minutes = true;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::tmpfile(), &std::fclose);
  EXPECT_TRUE(calibrate(settings, asked, options, load_corpus(settings), stream.get()).empty());
  EXPECT_GE(settings.steps, 1);
  EXPECT_LT(settings.steps, 100'000'000);
  EXPECT_EQ(asked.steps, settings.steps);
}

// In a process of its own: LibTorch refuses a backward pass in a child if the parent had one.
TEST(MeasureCost, HasTheTimeOfAStep) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto measured = [] {
    Settings settings = testing::tiny();
    settings.encodings = {"none"};  // the first is measured on the slowest machine
    for (const MeasuredCost& one :
         measure_cost(settings, load_corpus(settings), 1, [] { return false; }))
      std::fprintf(stderr, "%s %d\n", one.encoding.c_str(), one.step_seconds.value_or(0) > 0);
    std::exit(0);
  };
  EXPECT_EXIT(measured(), ::testing::ExitedWithCode(0), "none 1");
}

Options parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "lab");
  std::vector<char*> argv;
  for (const char* word : words) argv.push_back(const_cast<char*>(word));
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

TEST(SeedsFollowMinutes, UnlessTheyOrTheStepsAreGiven) {
  EXPECT_TRUE(parsed({}).seeds_follow_minutes);
  EXPECT_TRUE(parsed({"--minutes", "2"}).seeds_follow_minutes);
  EXPECT_FALSE(parsed({"--seeds", "1"}).seeds_follow_minutes);
  EXPECT_FALSE(parsed({"--steps", "5"}).seeds_follow_minutes);
  EXPECT_FALSE(parsed({"--preset", "full"}).seeds_follow_minutes);
}

TEST(Seeds, AreANumberOrAList) {
  using List = std::vector<std::int64_t>;
  const auto seeds = [](const char* text) { return parsed({"--seeds", text}).settings.seeds; };
  EXPECT_EQ(parsed({"--steps", "5"}).settings.seeds, (List{1, 2, 3}));
  EXPECT_EQ(seeds("3"), (List{1, 2, 3}));
  EXPECT_EQ(seeds("7,1,4"), (List{1, 4, 7}));
  EXPECT_EQ(seeds("4,"), List{4});
  EXPECT_EQ(seeds("2147483648,"), List{2147483648});
  EXPECT_EQ(seeds("100").size(), 100u);
  std::string many;
  for (int i = 1; i <= 101; ++i) many += std::to_string(i) + ",";
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"0", "--seeds must be positive integers, got 0"},
           {"x", "--seeds must be positive integers, got x"},
           {",", "--seeds must be positive integers, got none"},
           {"-1,2", "--seeds must be positive integers, got -1"},
           {"101", "--seeds must be at most 100; A,B,.. is a list, got 101"},
           {"9223372036854775807", "--seeds must be at most 100; A,B,.. is a list"},
           {"1,4,1", "--seeds must be distinct, got 1,4,1"},
           {"2147483649,", "--seeds must be at most 2147483648, got 2147483649"},
           {many, "--seeds must be 1 to 100 numbers, got 101"}})
    try {
      seeds(text.c_str());
      ADD_FAILURE() << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
}

}  // namespace budget_test
}  // namespace gnomon::lab
