// The recommendations by length, as tables of cases.
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/data/task.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/statistics/task_results.h"
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
            "OneSeed",
            {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}},
            {"128-128: Rotary (better than the next, ALiBi, by 0.14 ± 0.04 bits; 1 seed)",
             "256-256: ALiBi with the whole context or Rotary with its context cut to the last "
             "128 bytes (tied; 1 seed)",
             "1024-1024: ALiBi with the whole context (better than the next, Rotary, by 0.16 ± "
             "0.04 bits; 1 seed)"}},
        Case{"EqualChoicesAreOneRange",
             {{"alibi", "ALiBi", 2.40, 2.41, 2.41},
              {"t5", "T5", 2.41, 2.40, 2.40},
              {"none", "None", 3.00, 3.10, 3.20}},
             {"128-1024: ALiBi or T5 (tied; the best is better than the next, None, by 0.60 ± "
              "0.04 bits or more; 1 seed)"}},
        // Paired seeds whose differences are -0.01, 0 and 0.01: t 4.303, deviation 0.01.
        Case{"SeveralSeeds",
             {{"alibi", "ALiBi", 2.30, 2.30, 2.30, {0, 0.10, 0.20}},
              {"t5", "T5", 2.40, 2.40, 2.40, {-0.01, 0.10, 0.21}}},
             {"128-1024: ALiBi (better than the next, T5, by 0.10 ± 0.02 bits or more; 3 "
              "seeds)"}},
        // The means differ by 0.10 bits, as above, but the seeds contradict each other.
        Case{"SeedsThatContradict",
             {{"alibi", "ALiBi", 2.30, 2.30, 2.30, {0, 0.10, 0.20}},
              {"t5", "T5", 2.40, 2.40, 2.40, {0.20, 0.10, 0}}},
             {"128-1024: ALiBi or T5 (tied; 3 seeds)"}},
        Case{"OneEncoding",
             {{"alibi", "ALiBi", 2.40, 2.40, 2.40}},
             {"128-1024: ALiBi (no other encoding; 1 seed)"}},
        Case{"NoPositions",
             {{"learned", "Learned", 2.40, NAN, NAN}, {"none", "None", 2.60, 2.60, 2.60}},
             {"128-128: Learned (better than the next, None, by 0.20 ± 0.04 bits; 1 seed)",
              "256-1024: Learned with its context cut to the last 128 bytes (better than the "
              "next, None, by 0.20 ± 0.04 bits or more; 1 seed)"}},
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
      run.tests.stretches = {{1, 20, 20, true, 400, near, near, 1, 0.1, 0.1},
                             {21, 40, 40, true, 400, far, far, 1, 0.1, 0.1}};
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
  results.rankings = example_rankings(results.encodings, results.runs);
  return results;
}

class Examples : public ::testing::TestWithParam<ExampleCase> {};
INSTANTIATE_TEST_SUITE_P(
    , Examples,
    ::testing::Values(
        // 0.9 and 0.8 of 400 examples: 1.96 sqrt(0.09 / 400 + 0.16 / 400) = 0.049.
        ExampleCase{"OneSeed",
                    {{"t5", {{0.9, 0.5}}}, {"rotary", {{0.8, 0.46}}}, {"learned", {{0.9, -1}}}},
                    {"1-20: t5 or learned (tied; the best is better than the next, rotary, by "
                     "10.0 ± 4.9 points; 1 seed)",
                     "21-40: t5 or rotary (tied; 1 seed)"}},
        // Seeds that contradict each other: t 4.303, deviation 0.2.
        ExampleCase{"SeedsThatContradict",
                    {{"t5", {{1, 0.9}, {1, 0.7}, {1, 0.5}}},
                     {"rotary", {{0.5, 0.4}, {0.5, 0.6}, {0.5, 0.8}}}},
                    {"1-20: t5 (better than the next, rotary, by 50.0 ± 2.8 points; 3 seeds)",
                     "21-40: t5 or rotary (tied; 3 seeds)"}},
        ExampleCase{"NothingIsBetterThanChanceBeyond",
                    {{"t5", {{1, 0.11}}}, {"rotary", {{0.5, 0.1}}}},
                    {"1-20: t5 (better than the next, rotary, by 50.0 ± 4.9 points; 1 seed)",
                     "21-40: none (no encoding has right whole answers above chance)"}},
        ExampleCase{"NoPositionsBeyond",
                    {{"learned", {{1, -1}}}},
                    {"1-20: learned (no other encoding; 1 seed)",
                     "21-40: none (no encoding has positions for this range)"}},
        ExampleCase{"Unlearnt", {{"t5", {{0.1, 0.1}}}}, {}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Examples, AreRecommendedByRange) {
  EXPECT_EQ(lines_of(recommendations(results_of_examples(GetParam().found))), GetParam().said);
}

}  // namespace recommend_test
}  // namespace gnomon::lab
