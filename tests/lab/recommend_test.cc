// The recommendations by length, as tables of cases.
#include "apps/lab/data/task.h"
#include "apps/lab/statistics/rankings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/statistics/answer.h"
#include "lab/invented.h"

namespace gnomon::lab {
namespace recommend_test {

using testing::Found;
using testing::results_of;

// "128-256: Rotary or ALiBi (tied; 1 seed)".
std::vector<std::string> lines_of(const std::vector<Recommendation>& all) {
  std::vector<std::string> lines;
  for (const Recommendation& one : all)
    lines.push_back(std::to_string(one.from) + "-" + std::to_string(one.to) + ": " +
                    choices_text(one) + " (" + one.confidence + ")");
  return lines;
}

struct Case {
  const char* name;
  std::vector<Found> found;
  std::vector<std::string> said;
};

class Texts : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    , Texts,
    ::testing::Values(
        Case{
            "BetterByLength",
            {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}},
            {"128-128: Rotary (better than the next, ALiBi, by 0.14 ± 0.006 bits; 5 seeds)",
             "256-256: ALiBi with the whole context or Rotary with its context cut to the last "
             "128 bytes (equivalent within 0.05 bits; 5 seeds)",
             "1024-1024: ALiBi with the whole context (better than the next, Rotary, by 0.16 ± "
             "0.006 bits; 5 seeds)"}},
        Case{
            "EquivalentChoicesAreOneRange",
            {{"alibi", "ALiBi", 2.40, 2.40, 2.40, {0, 0.001, 0, 0.001, 0}},
             {"t5", "T5", 2.401, 2.401, 2.401, {0, 0, 0.001, 0.001, 0}},
             {"none", "None", 3.00, 3.10, 3.20, {0, 0.001, 0.001, 0, 0}}},
            {"128-1024: ALiBi or T5 (equivalent within 0.05 bits; the first is better than the "
             "next, None, by 0.60 ± 0.001 bits or more; 5 seeds)"}},
        Case{"OneSeed",
             {{"alibi", "ALiBi", 2.60, 2.45, 2.30, {0}},
              {"rotary", "Rotary", 2.46, 2.95, 4.43, {0}}},
             {}},
        // The means differ by 0.10 bits, but the seeds contradict each other.
        Case{"SeedsThatContradict",
             {{"alibi", "ALiBi", 2.30, 2.30, 2.30, {0, 0.10, 0.20}},
              {"t5", "T5", 2.40, 2.40, 2.40, {0.20, 0.10, 0}}},
             {"128-1024: ALiBi or T5 (undecided, about 27 seeds would decide between the first "
              "two; 3 seeds)"}},
        Case{"OneEncoding",
             {{"alibi", "ALiBi", 2.40, 2.40, 2.40}},
             {"128-1024: ALiBi (no other encoding takes part; 5 seeds)"}},
        Case{"NoPositions",
             {{"learned", "Learned", 2.40, NAN, NAN}, {"none", "None", 2.60, 2.60, 2.60}},
             {"128-128: Learned (better than the next, None, by 0.20 ± 0.006 bits; 5 seeds)",
              "256-1024: Learned with its context cut to the last 128 bytes (better than the "
              "next, None, by 0.20 ± 0.006 bits or more; 5 seeds)"}},
        Case{"NotTrainedEnough", {{"alibi", "ALiBi", 4.40, 4.40, 4.40}}, {}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Texts, AreRecommendedByLength) {
  EXPECT_EQ(lines_of(results_of(GetParam().found).recommendations), GetParam().said);
}

// Scores in a range of training lengths and a range beyond, of 400 examples each. Chance: 0.1.
struct Answered {
  const char* name;
  std::vector<std::pair<double, double>> seeds;
};
struct ExampleCase {
  const char* name;
  std::vector<Answered> found;
  std::vector<std::string> said;
};

Results results_of_examples(const std::vector<Answered>& all) {
  Results results;
  results.settings.task = &find_task("copy");
  results.settings.seeds = seeds_up_to(std::ssize(all[0].seeds));
  for (const Answered& one : all) {
    std::vector<RunResult> runs;
    for (const auto& [near, far] : one.seeds) {
      RunResult& run = runs.emplace_back();
      run.encoding = one.name;
      run.seed = std::ssize(runs);
      run.steps = 100;
      run.tests.stretches = {{1, 20, 20, true, 400, near, near, 1, 0.1, 0.1},
                             {21, 40, 40, true, 400, far, far, 1, 0.1, 0.1}};
      for (Stretch& at : run.tests.stretches)
        for (int i = 0; i < 400; ++i) at.scores.push_back(i < 400 * at.score - 1e-9 ? 1 : 0);
      if (far < 0) run.tests.stretches[1] = {21, 40, 40};
    }
    EncodingResult& encoding = results.encodings.emplace_back();
    encoding.name = encoding.title = one.name;
    encoding.seeds = std::ssize(runs);
    std::vector<const RunResult*> pointers;
    for (const RunResult& run : runs) pointers.push_back(&run);
    add_example_lengths(encoding, pointers);
    results.runs.insert(results.runs.end(), runs.begin(), runs.end());
  }
  judge_training(results);
  rank(results);
  return results;
}

class Examples : public ::testing::TestWithParam<ExampleCase> {};
INSTANTIATE_TEST_SUITE_P(
    , Examples,
    ::testing::Values(
        ExampleCase{
            "BetterAndEquivalent",
            {{"t5", {{0.9, 0.5}, {0.9, 0.52}, {0.92, 0.5}}},
             {"rotary", {{0.8, 0.2}, {0.81, 0.2}, {0.8, 0.22}}},
             {"learned", {{0.9, -1}, {0.91, -1}, {0.9, -1}}}},
            {"1-20: t5 or learned (undecided; the first is better than the next, rotary, by "
             "10.3 ± 8.3 points; 3 seeds)",
             "21-40: t5 (better than the next, rotary, by 30.0 ± 27.5 points; 3 seeds)"}},
        ExampleCase{"OneSeed", {{"t5", {{0.9, 0.5}}}, {"rotary", {{0.8, 0.46}}}}, {}},
        ExampleCase{"SeedsThatContradict",
                    {{"t5", {{1, 0.9}, {1, 0.7}, {1, 0.5}}},
                     {"rotary", {{0.5, 0.4}, {0.5, 0.6}, {0.5, 0.8}}}},
                    {"1-20: t5 (better than the next, rotary, by 50.0 ± 6.0 points; 3 seeds)",
                     "21-40: t5 or rotary (undecided, about 99 seeds would decide between the "
                     "first two; 3 seeds)"}},
        ExampleCase{"NothingIsBetterThanChanceBeyond",
                    {{"t5", {{1, 0.11}, {1, 0.11}, {1, 0.11}}},
                     {"rotary", {{0.5, 0.1}, {0.5, 0.1}, {0.5, 0.1}}}},
                    {"1-20: t5 (better than the next, rotary, by 50.0 ± 6.0 points; 3 seeds)",
                     "21-40: none (no encoding has right whole answers above chance)"}},
        ExampleCase{"NoPositionsBeyond",
                    {{"learned", {{1, -1}, {1, -1}, {1, -1}}}},
                    {"1-20: learned (no other encoding takes part; 3 seeds)",
                     "21-40: none (no encoding has positions for this range)"}},
        ExampleCase{"Unlearnt", {{"t5", {{0.1, 0.1}, {0.1, 0.1}, {0.1, 0.1}}}}, {}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Examples, AreRecommendedByRange) {
  EXPECT_EQ(lines_of(recommendations(results_of_examples(GetParam().found))), GetParam().said);
}

}  // namespace recommend_test
}  // namespace gnomon::lab
