// The choice of seeds and steps, with invented speeds.
#include "apps/lab/runs/budget.h"
#include "apps/lab/tasks/tasks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gnomon::lab {
namespace budget_test {

struct Given {
  const char* name;
  const Task* task = &text_task;
  std::size_t encodings = 6;
  int jobs = 2;
  double step = 0.1, tests = 10;  // seconds
  bool minutes_given = false;
  double minutes = 6.5;
  std::int64_t seeds_given = 0;
  std::int64_t seeds, steps;  // expected
  const char* said;
};

class Budgets : public ::testing::TestWithParam<Given> {};
INSTANTIATE_TEST_SUITE_P(
    , Budgets,
    ::testing::Values(
        // A run: 600 x 0.1 x 1.04 + 10 = 72.4 s. 18 runs on 2 threads: 9 x 72.4 = 652 s.
        Given{.name = "ThreeSeedsTakeTooLong",
              .seeds = 1,
              .steps = 600,
              .said = "1 seed: 3 seeds of 600 steps take about 10.9 minutes, and the limit is "
                      "6.5. To train them: --seeds 3 --steps 600."},
        Given{.name = "ThreeSeedsFitOnEightThreads",
              .jobs = 8,  // 3 x 72.4 = 217 s
              .seeds = 3,
              .steps = 600,
              .said = "3 seeds: 3 seeds of 600 steps take about 3.6 minutes, and the limit is "
                      "6.5."},
        Given{.name = "TwoEncodingsFitOnTwoThreads",
              .encodings = 2,
              .seeds = 3,
              .steps = 600,
              .said = "3 seeds"},
        // 1.5 runs for each thread last as long as 2.
        Given{.name = "ThreeRunsOnTwoThreadsTakeTwoRounds",
              .encodings = 1,
              .step = 0.3,  // 197 s
              .tests = 10,
              .seeds = 1,
              .steps = 600,
              .said = "3 seeds of 600 steps take about 6.6 minutes"},
        Given{.name = "TheStepsAreReducedWithOneSeedOnly",
              .step = 0.4,  // (390 / 3 - 10) / 0.416
              .seeds = 1,
              .steps = 288,
              .said = "\nNumber of steps reduced from 600 to 288, to stay within 6.5 minutes."},
        Given{.name = "GivenSeedsWin",
              .step = 0.1,  // (390 / 6 - 10) / 0.104
              .seeds_given = 2,
              .seeds = 2,
              .steps = 528,
              .said = "Number of steps reduced from 600 to 528"},
        Given{.name = "OneGivenSeedStaysOne",
              .encodings = 2,
              .seeds_given = 1,
              .seeds = 1,
              .steps = 600,
              .said = ""},
        // 60 minutes: (3600 / 9 - 10) / 0.104.
        Given{.name = "MinutesForMoreSteps",
              .minutes_given = true,
              .minutes = 60,
              .seeds = 3,
              .steps = 3750,
              .said = "3 seeds: 3 seeds of 600 steps take about 10.9 minutes, and the limit is "
                      "60.0."},
        Given{.name = "MinutesForOneSeed",
              .minutes_given = true,
              .minutes = 10,  // (600 / 3 - 10) / 0.104
              .seeds = 1,
              .steps = 1826,
              .said = "1 seed"},
        Given{.name = "ExamplesTakeAtMostThreeMinutesForThreeSeeds",
              .task = &copy_task,
              .jobs = 8,  // 3.6 minutes
              .seeds = 1,
              .steps = 600,
              .said = "and the limit is 3.0"},
        Given{.name = "ExamplesWithMinutes",
              .task = &copy_task,
              .jobs = 8,
              .minutes_given = true,
              .minutes = 4,  // (240 / 3 - 10) / 0.104
              .seeds = 3,
              .steps = 673,
              .said = "and the limit is 4.0"},
        Given{.name = "TooSlowForOneStep",
              .step = 1000,
              .tests = 1000,
              .seeds = 1,
              .steps = 1,
              .said = "reduced from 600 to 1"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Budgets, GiveSeedsAndSteps) {
  const Given& given = GetParam();
  Settings settings;
  settings.task = given.task;
  settings.encodings.assign(given.encodings, "rotary");
  settings.steps = 600;
  settings.seeds = seeds_up_to(given.seeds_given ? given.seeds_given : 1);
  Options options;
  options.jobs = given.jobs;
  options.minutes = given.minutes;
  options.steps_follow_minutes = given.minutes_given;
  options.seeds_follow_minutes = given.seeds_given == 0;
  const Budget found = choose_budget(settings, options, {given.step, given.tests});
  EXPECT_EQ(found.seeds, seeds_up_to(given.seeds));
  EXPECT_NEAR(static_cast<double>(found.steps), static_cast<double>(given.steps), 1);
  EXPECT_NE(found.reason.find(given.said), std::string::npos) << found.reason;
  EXPECT_EQ(found.reason.empty(), given.said[0] == '\0') << found.reason;
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
  EXPECT_EQ(parsed({"--steps", "5"}).settings.seeds, List{1});
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
