#include "apps/lab/data/task.h"
#include "apps/lab/runs/calibration.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/results.h"
#include "apps/lab/statistics/training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/data/draws.h"
#include "apps/lab/report/report_tables.h"

namespace gnomon::lab {
namespace task_results_test {

// Two stretches of training lengths and two beyond. Stretches with -1 in `whole` are not
// applicable.
RunResult run_of(const std::string& name, const std::vector<double>& whole,
                 std::int64_t seed = 1) {
  RunResult run{.encoding = name, .seed = seed};
  run.steps = 100;
  for (const double share : whole) {
    const std::int64_t from = 10 * std::ssize(run.tests.stretches) + 1;
    Stretch one{from, from + 9, from < 20 ? 20 : 40};
    if (share >= 0)
      one = {from, from + 9, one.up_to, true, 100, share, 0.5 + 0.5 * share, 1, 1e-3, 0.1};
    if (share >= 0)  // the first examples are right
      for (int i = 0; i < 100; ++i) {
        one.scores.push_back(i < 100 * share - 1e-9 ? 1 : 0);
        one.seconds.push_back(one.second);
      }
    run.tests.stretches.push_back(one);
  }
  return run;
}

EncodingResult encoding_of(const std::vector<RunResult>& runs) {
  EncodingResult one;
  one.name = one.title = runs.front().encoding;
  one.seeds = std::ssize(runs);
  std::vector<const RunResult*> seeds;
  for (const RunResult& run : runs) seeds.push_back(&run);
  add_example_lengths(one, seeds);
  return one;
}

TEST(ExampleLengths, JoinStretchesAndSeeds) {
  const EncodingResult found =
      encoding_of({run_of("t5", {1, 0.9, 0.5, 0.1}), run_of("t5", {1, 0.94, 0.7, 0.1})});
  EXPECT_EQ(found.stretches.size(), 4u);
  EXPECT_EQ(found.answered_to, 20);
  ASSERT_EQ(found.ranges.size(), 2u);
  EXPECT_EQ(found.ranges[0].from, 1);
  EXPECT_EQ(found.ranges[0].to, 20);
  EXPECT_EQ(found.ranges[1].examples, 200);
  EXPECT_DOUBLE_EQ(found.ranges[0].score, 0.96);
  EXPECT_DOUBLE_EQ(found.ranges[1].score, 0.35);
  EXPECT_NEAR(found.ranges[1].score_deviation, 0.0707, 1e-3);  // 0.3, 0.4
}

TEST(ExampleRankings, SortTieAndLeaveOutWhatHasNoPosition) {
  Results results;
  results.settings.task = &find_task("copy");
  for (const auto& [name, whole] :
       std::vector<std::pair<std::string, std::vector<double>>>{{"rotary", {0.9, 0.8, 0.1, 0}},
                                                                {"learned", {1, 1, -1, -1}},
                                                                {"t5", {1, 1, 0.58, 0.0}},
                                                                {"none", {1, 1, 0.6, 0.0}}}) {
    std::vector<RunResult> runs;
    for (const std::int64_t seed : {1, 2, 3}) runs.push_back(run_of(name, whole, seed));
    runs[2].tests.stretches[2] =
        run_of(name, {0, 0, whole[2] < 0 ? -1 : whole[2] + 0.02}).tests.stretches[2];
    results.runs.insert(results.runs.end(), runs.begin(), runs.end());
    results.encodings.push_back(encoding_of(runs));
  }
  results.settings.seeds = {1, 2, 3};
  judge_training(results);
  rank(results);
  ASSERT_EQ(results.rankings.size(), 2u);
  EXPECT_EQ(results.rankings[0].order.size(), 4u);
  const std::vector<Way>& beyond = results.rankings[1].order;
  ASSERT_EQ(beyond.size(), 3u);
  EXPECT_EQ(beyond[0].name, "none");
  EXPECT_EQ(beyond[1].name, "t5");
  EXPECT_TRUE(may_be_best(beyond[1].verdict));
  EXPECT_EQ(beyond[2].verdict, Verdict::worse);

  const auto answer = example_answer(results);
  ASSERT_EQ(answer.size(), 2u) << answer[0];
  EXPECT_EQ(
      answer[0],
      "Copy, up to 20 letters as in training (by chance: right whole answers 0.1 %, right "
      "bytes 10 %): right whole answers of at least 95 % with learned, t5 and none; less "
      "with rotary (85 %).");
  EXPECT_EQ(
      answer[1],
      "At 21 to 40 letters: which is best is not decided between none (30.3 %) and t5 (29.3 "
      "%); "
      "the first two differ by 1.0 ± 5.3 points; rotary (5.33 %) is worse, by 25.0 ± 16.5 "
      "points.");
}

// A session with one seed of each run.
Results session_of(const char* task, std::vector<RunResult> runs) {
  Results results;
  results.settings.task = &find_task(task);
  results.settings.steps = 100;
  results.runs = std::move(runs);
  for (const RunResult& run : results.runs) results.encodings.push_back(encoding_of({run}));
  judge_training(results);
  rank(results);
  return results;
}

TEST(ExampleAnswer, SaysThatModelsAtChanceShowNothing) {
  RunResult run = run_of("t5", {0, 0, 0, 0});
  for (Stretch& one : run.tests.stretches) one.second = 0.12;  // chance: 0.1
  const auto answer = example_answer(session_of("copy", {run}));
  EXPECT_EQ(
      answer[0].rfind("No advice: no encoding is trained enough. Train longer: --steps 200", 0),
      0u)
      << answer[0];
  EXPECT_EQ(answer[1],
            "Not ranked, because not trained enough: t5 (as in training, not above chance).");
}

// An encoding whose loss falls is left out if a ranked one has a better score.
TEST(ExampleAnswer, RanksAnUnconvergedEncodingThatLeads) {
  std::vector<RunResult> runs{run_of("none", {0.3, 0.3, 0, 0}), run_of("t5", {0.7, 0.7, 0, 0}),
                              run_of("rotary", {0.2, 0.2, 0, 0})};
  for (RunResult& run : runs)
    run.curve = run.encoding == "none"
                    ? std::vector<CurvePoint>{{40, 0, 1.1}, {80, 0, 1.0}, {100, 0, 0.9}}
                    : std::vector<CurvePoint>{{40, 0, 1.5}, {80, 0, 1.0}, {100, 0, 0.9}};
  const Results results = session_of("copy", runs);
  EXPECT_EQ(results.encodings[0].training, Training::enough);
  EXPECT_EQ(results.encodings[1].training, Training::enough);
  EXPECT_EQ(results.encodings[2].training, Training::unconverged);
  EXPECT_EQ(results.rankings[0].order[0].name, "t5");
  const auto answer = example_answer(results);
  EXPECT_EQ(answer[1].rfind("Not ranked, because not trained enough: rotary (0.50 bits)", 0),
            0u)
      << answer[1];
  EXPECT_TRUE(answer[2].ends_with(
      " With twice the steps, the loss of t5 would fall by about 0.50 bits."))
      << answer[2];
  // Without a ranked encoding, none leads.
  for (RunResult& run : runs) run.curve = {{40, 0, 1.5}, {80, 0, 1.0}, {100, 0, 0.9}};
  for (const EncodingResult& one : session_of("copy", runs).encodings)
    EXPECT_EQ(one.training, Training::unconverged) << one.name;
}

TEST(ExampleAnswer, SaysThatNoEncodingBeatsChanceAndRanksTheClassesOfGraphs) {
  std::vector<RunResult> runs{run_of("none", {0.5, 0.5, 0.12, 0.12}),
                              run_of("laplacian", {0.9, 0.9, 0.1, 0.1})};
  for (RunResult& run : runs)
    for (Stretch& one : run.tests.stretches) one.chance_score = 0.11;
  const auto answer = example_answer(session_of("graph", runs));
  ASSERT_EQ(answer.size(), 5u);
  EXPECT_EQ(answer[0].rfind("No advice from 1 seed", 0), 0u);
  EXPECT_EQ(
      answer[2],
      "At 21 to 40 nodes, no encoding has right distances above chance: guessing gives 11 % "
      "(200 examples).");
  EXPECT_EQ(
      answer[3],
      "Right classes at 1 to 20 nodes (by chance 10 %): laplacian (95 %) and none (75 %).");
}

TEST(ExampleAnswer, ClaimsNothingOfEncodingsThatDiverged) {
  std::vector<RunResult> runs{run_of("rotary", {0.5, 0.5, 0, 0}),
                              run_of("none", {0.4, 0.4, 0, 0}), run_of("t5", {0.4, 0.4, 0, 0}),
                              run_of("learned", {0.4, 0.4, -1, -1})};
  runs[2].tests.stretches[3].bits = NAN;
  Results results = session_of("copy", runs);
  EXPECT_TRUE(std::isnan(results.encodings[2].ranges[1].score_interval.low));
  auto answer = example_answer(results);
  ASSERT_EQ(answer.size(), 3u);
  EXPECT_NE(answer[1].find("below 95 % with rotary (50 %), none (40 %), t5 (40 %) and learned"),
            std::string::npos)
      << answer[1];
  EXPECT_EQ(answer[2],
            "At 21 to 40 letters, right whole answers are 0 % with each encoding that has a "
            "result; by right bytes (by chance 10 %), in this order, which other seeds may "
            "change: rotary (50 %) and none (50 %).");
  EXPECT_EQ(outcome(results.runs[2]), "40 % at 1 to 20, diverged at 21 to 40, trained in 0:00");
  runs[0] = run_of("rotary", {0.5, 0.5, 0, 0.5});
  answer = example_answer(session_of("copy", runs));
  EXPECT_EQ(
      answer[2],
      "At 21 to 40 letters: in this order, which other seeds may change: rotary (25 %) and "
      "none (0 %).");
}

TEST(ExampleAnswer, KnowsThatOneSeedOfThreeIsAboveChance) {
  Results results;
  results.settings.task = &find_task("copy");
  results.settings.seeds = {1, 2, 3};
  for (const std::int64_t seed : {1, 2, 3})
    results.runs.push_back(run_of("alibi", {1, 1, seed == 2 ? 0.8 : 0, 0}, seed));
  results.encodings.push_back(encoding_of(results.runs));
  judge_training(results);
  rank(results);
  EXPECT_TRUE(beats_chance(results, 1));
  for (RunResult& run : results.runs) run.tests.stretches[2].score = 0;
  results.encodings[0] = encoding_of(results.runs);
  rank(results);
  EXPECT_FALSE(beats_chance(results, 1));
}

// Encodings that guess, and one that has learned.
TEST(ExampleAnswer, RecommendsHardlyEverFromGuessesAlone) {
  Draws draws{5};
  int near = 0, far = 0;  // sessions that recommend an encoding
  constexpr int sessions = 400;
  for (int session = 0; session <= sessions; ++session) {
    Results results;
    results.settings.task = &find_task("image");
    for (const char* name : {"none", "learned", "rotary", "alibi", "t5", "shaw"}) {
      RunResult run{.encoding = name};
      for (const std::int64_t from : {1, 21}) {
        int right = 0;
        for (int i = 0; i < 200; ++i) right += draws.below(4) == 0;
        if (session == sessions) right = 160;
        run.tests.stretches.push_back(
            {from, from + 19, from + 19, true, 200, right / 200.0, 0, 2, 0.25, 0});
      }
      results.runs.push_back(run);
      results.encodings.push_back(encoding_of({run}));
    }
    judge_training(results);
    rank(results);
    const bool as_in_training =
        std::any_of(results.encodings.begin(), results.encodings.end(),
                    [](const EncodingResult& one) { return one.training == Training::enough; });
    if (session == sessions) {
      EXPECT_TRUE(as_in_training && beats_chance(results, 1));
      continue;
    }
    near += as_in_training, far += beats_chance(results, 1);
    if (as_in_training) continue;
    EXPECT_EQ(example_answer(results)[0].rfind("No advice: no encoding is trained enough.", 0),
              0u)
        << example_answer(results)[0];
  }
  EXPECT_LT(near, sessions / 20);
  EXPECT_LT(far, sessions / 20);
}

constexpr double mebibyte = 1 << 20;

TEST(CostResults, GiveMemoryOnlyWhereItDiffersMeasurably) {
  const std::vector<MeasuredCost> measured{
      {"none",
       {{1024, 100 * mebibyte, 2 * mebibyte}, {4096, 400 * mebibyte, 0}},
       0.2,
       RelativeTime{1, 0.97, 1.02}},
      {"alibi", {{1024, 92 * mebibyte, 0}, {4096, 380 * mebibyte, 0}}, 0.2, {}},
      {"t5",
       {{1024, 104 * mebibyte, 1 * mebibyte}, {4096, 440 * mebibyte, 0}},
       0.25,
       RelativeTime{1.25, 1.24, 1.26}}};
  EncodingResult t5;
  t5.name = "t5";
  t5.position_parameters = 128;
  EncodingResult alibi;
  alibi.name = "alibi";
  const auto cost = cost_results(measured, {t5, alibi});
  ASSERT_EQ(cost.size(), 2u);
  EXPECT_NEAR(cost[0].step_noise.value(), 0.03, 1e-12);
  // Less memory than that of the encoding none.
  for (const MemoryUse& use : cost[1].memory) EXPECT_FALSE(use.extra_bytes);
  EXPECT_EQ(cost[0].position_parameters, 128);
  EXPECT_DOUBLE_EQ(cost[0].relative_step->median, 1.25);
  // 4 MiB, but equal measurements differ by 2 and 1 MiB, and the heap by 2.
  EXPECT_FALSE(cost[0].memory[0].extra_bytes);
  EXPECT_DOUBLE_EQ(*cost[0].memory[1].extra_bytes, 40 * mebibyte);
  EXPECT_TRUE(cost_results({}, {t5}).empty());
}

TEST(CostTable, ClaimsNoCostThatTheMeasurementDoesNotShow) {
  const std::string none = "no measurable cost";
  EncodingCost cost{.name = "t5", .title = "T5", .relative_step = RelativeTime{0.9, 0.8, 1.01}};
  EXPECT_EQ(step_time_text(cost), none);
  cost.relative_step = RelativeTime{1.07, 1.01, 1.16};  // wider than the difference
  EXPECT_EQ(step_time_text(cost), none);
  cost.relative_step = RelativeTime{0.61, 0.34, 0.88};  // faster than without the encoding
  EXPECT_EQ(step_time_text(cost), none);
  cost.relative_step = RelativeTime{1.25, 1.23, INFINITY};
  EXPECT_EQ(step_time_text(cost), none);
  cost.relative_step = RelativeTime{NAN, NAN, NAN};
  EXPECT_EQ(step_time_text(cost), "n/a");
  cost.relative_step = RelativeTime{1.25, 1.23, 1.27};
  EXPECT_EQ(step_time_text(cost), "1.25 ± 0.02");
  cost.step_noise = 0.2;
  EXPECT_EQ(step_time_text(cost), "1.25 ± 0.02");
  cost.step_noise = 0.3;  // as much as two equal models differ
  EXPECT_EQ(step_time_text(cost), none);
  cost.relative_step.reset();
  EXPECT_EQ(step_time_text(cost), "n/a");
  cost.memory = {{.tokens = 1024, .bytes = 5},
                 {.tokens = 2048, .bytes = 5, .extra_bytes = NAN},
                 {.tokens = 4096, .bytes = 5, .extra_bytes = 8 * mebibyte}};
  EXPECT_EQ(memory_text(cost, 0), none);
  EXPECT_EQ(memory_text(cost, 1), none);
  EXPECT_EQ(memory_text(cost, 2), "+8");
}

// Ratios of equal models on a machine with load: pairs deviate by up to 40 %.
TEST(CostTable, ClaimsHardlyEverACostFromNoiseAlone) {
  Draws draws{11};
  const auto measured = [&] {
    std::vector<double> ratios;
    for (int i = 0; i < 8; ++i)
      ratios.push_back(
          std::exp(0.4 * (2 * std::ldexp(static_cast<double>(draws.next() >> 11), -53) - 1)));
    return median_interval(ratios);
  };
  int claims = 0;
  constexpr int samples = 2000;
  for (int i = 0; i < samples; ++i) claims += measured().shows_cost(measured().from_one());
  EXPECT_LT(claims, samples / 100);
}

TEST(MedianInterval, CoversTheMedianOfTheDistributionNineteenTimesInTwenty) {
  // Exponential numbers: their median is ln 2.
  Draws draws{7};
  int covered = 0;
  constexpr int samples = 2000;
  for (int i = 0; i < samples; ++i) {
    std::vector<double> numbers;
    for (int k = 0; k < 25; ++k)
      numbers.push_back(
          -std::log(std::ldexp(static_cast<double>(draws.next() >> 11) + 0.5, -53)));
    const RelativeTime found = median_interval(numbers);
    covered += found.low <= std::log(2) && std::log(2) <= found.high;
  }
  EXPECT_NEAR(static_cast<double>(covered) / samples, 0.95, 0.03);
}

}  // namespace task_results_test
}  // namespace gnomon::lab
