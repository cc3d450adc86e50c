// Comparison of two folders, with invented results.
#include "apps/lab/statistics/compare.h"
#include "apps/lab/data/task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "apps/lab/statistics/answer.h"
#include "lab/invented.h"

namespace gnomon::lab {
namespace compare_test {

using testing::results_of;

const LengthDifference& at(const Comparison& found, const std::string& name,
                           std::int64_t length) {
  for (const LengthDifference& one : found.differences)
    if (one.name == name && one.to == length) return one;
  throw std::logic_error("no difference of " + name);
}

TEST(Compare, EqualResultsDifferNowhere) {
  const Results one = results_of(
      {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}});
  const Comparison found = compare(one, one, Texts::same);
  EXPECT_EQ(found.differences.size(), 6u);
  for (const LengthDifference& each : found.differences) {
    EXPECT_EQ(each.difference(), 0);
    EXPECT_FALSE(each.is_measurable());
  }
  for (const Recommended& each : found.recommendations) EXPECT_FALSE(each.changed);
  EXPECT_EQ(found.recommendations.size(), 3u);
  EXPECT_TRUE(found.settings.empty());
  EXPECT_TRUE(found.reaches.empty());
  EXPECT_TRUE(found.warnings.empty());
}

TEST(Compare, OneSeedHasNoInterval) {
  const Results a = results_of({{"alibi", "ALiBi", 2.60, 2.60, 2.60, {0}}});
  Results b =
      results_of({{"alibi", "ALiBi", 2.57, 2.50, 2.60, {0}}, {"t5", "T5", 2.2, 2.2, 2.2, {0}}});
  b.settings.steps = 900;
  const Comparison found = compare(a, b, Texts::same);
  EXPECT_NEAR(at(found, "alibi", 128).difference(), -0.03, 1e-9);
  EXPECT_TRUE(std::isinf(at(found, "alibi", 128).margin));
  EXPECT_FALSE(at(found, "alibi", 256).is_measurable());
  EXPECT_EQ(found.only_b, std::vector<std::string>{"T5"});
  ASSERT_EQ(found.settings.size(), 2u);
  EXPECT_EQ(found.settings[0].key, "encodings");
  EXPECT_EQ(found.settings[1].key, "steps");
  EXPECT_EQ(found.settings[1].b, 900);
  const std::string text = comparison_text(found);
  EXPECT_NE(text.find("Intervals require at least 3 seeds in both folders."), std::string::npos)
      << text;
  EXPECT_EQ(text.find("inf"), std::string::npos) << text;
  EXPECT_EQ(compare(a, b, Texts::other).warnings.size(), 1u);
}

// The margins of three lengths hold together: the quantile at 1 - 0.025 / 3. With 2 degrees of
// freedom 7.6488.
TEST(Compare, SeedsOfOtherSettingsHaveWelchsInterval) {
  // Means 2.5 and 2.4, deviations 0.1 and 0.02, 3 seeds each. Variances of the means: 0.01 / 3
  // and 0.0004 / 3; degrees (Welch and Satterthwaite): 2.16. The units are the same.
  const Results a = results_of({{"alibi", "ALiBi", 2.5, 2.5, 2.5, {-0.1, 0, 0.1}}});
  Results b = results_of({{"alibi", "ALiBi", 2.4, 2.4, 2.4, {-0.02, 0, 0.02}}});
  b.settings.width = 32;
  const LengthDifference one = at(compare(a, b, Texts::same), "alibi", 128);
  EXPECT_NEAR(one.a, 2.5, 1e-12);
  EXPECT_NEAR(one.difference(), -0.1, 1e-12);
  const double degrees =
      std::pow(0.0034667, 2) / (std::pow(0.0033333, 2) / 2 + std::pow(0.00013333, 2) / 2);
  EXPECT_NEAR(one.margin, student_quantile(1 - 0.025 / 3, degrees) * std::sqrt(0.0034667),
              2e-3);
  EXPECT_FALSE(one.is_measurable());
}

TEST(Compare, RunsOfEqualSeedArePairs) {
  // Differences: -0.09, -0.10, -0.11.
  const Results a = results_of({{"alibi", "ALiBi", 2.5, 2.5, 2.5, {-0.2, 0, 0.2}}});
  Results b = results_of({{"alibi", "ALiBi", 2.4, 2.4, 2.4, {-0.19, 0, 0.19}}});
  b.settings.steps = 900;
  EXPECT_NEAR(at(compare(a, b, Texts::same), "alibi", 128).margin,
              7.6488 * 0.01 / std::sqrt(3.0), 1e-4);
  EXPECT_TRUE(at(compare(a, b, Texts::same), "alibi", 128).is_measurable());
  b.settings.width = 32;  // other weights
  EXPECT_FALSE(at(compare(a, b, Texts::same), "alibi", 128).is_measurable());
}

TEST(Compare, SaysWhyAFolderHasNoAdvice) {
  const Results good = results_of({{"alibi", "ALiBi", 2.5, 2.5, 2.5}}),
                diverged = results_of({{"alibi", "ALiBi", INFINITY, INFINITY, INFINITY}}),
                short_one = results_of({{"alibi", "ALiBi", 4.3, 4.3, 4.3}});
  const std::string text = comparison_text(compare(diverged, short_one, Texts::same));
  for (const char* part :
       {"0 of 0 finite differences are measurable. If nothing differed, none would be",
        "\nRecommendations\n  None in A. No advice: every encoding diverged",
        "\n  None in B. No advice: no encoding is trained enough."})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  const std::string half = comparison_text(compare(diverged, good, Texts::same));
  EXPECT_NE(half.find("  128 bytes: A: none; B: ALiBi\n"), std::string::npos) << half;
  EXPECT_EQ(half.find("None in B"), std::string::npos) << half;
}

// Three seeds; other examples are right in `other` sessions.
Results copies(double share, int examples, bool other = false) {
  Results results;
  results.settings.task = &find_task("copy");
  results.settings.train_length = 20;
  results.settings.eval_lengths = {20};
  results.settings.seeds = {1, 2, 3};
  results.metric.name = "right whole answers";
  std::vector<const RunResult*> runs;
  for (const std::int64_t seed : results.settings.seeds) {
    RunResult& run = results.runs.emplace_back();
    run.encoding = "rotary", run.seed = seed, run.steps = 100;
    Stretch one{1, 20, 20, true, examples, share, share, 1, 0.1, 0.1};
    for (int i = 0; i < examples; ++i)
      one.scores.push_back((other ? examples - 1 - i : i) < share * examples - 1e-9 ? 1 : 0);
    run.tests.stretches = {one};
  }
  for (const RunResult& run : results.runs) runs.push_back(&run);
  EncodingResult& one = results.encodings.emplace_back();
  one.name = one.title = "rotary";
  one.seeds = 3;
  add_example_lengths(one, runs);
  judge_training(results);
  rank(results);
  return results;
}

TEST(Compare, ExamplesArePairs) {
  // 40 of 400 examples are right in B only: their deviation is 0.3.
  const Comparison found = compare(copies(0.8, 400), copies(0.9, 400), Texts::same);
  ASSERT_EQ(found.differences.size(), 1u);
  EXPECT_EQ(found.differences[0].from, 1);
  EXPECT_NEAR(found.differences[0].margin, 1.9659 * 0.3 / 20, 1e-3);
  EXPECT_TRUE(found.differences[0].is_measurable());
  // Other examples are right: 0.3 of 400 differ, by 1 or -1, and 0.2 of 20.
  EXPECT_GT(
      compare(copies(0.8, 400), copies(0.9, 400, true), Texts::same).differences[0].margin,
      0.05);
  EXPECT_FALSE(compare(copies(0.8, 20), copies(0.9, 20, true), Texts::same)
                   .differences[0]
                   .is_measurable());
  ASSERT_EQ(found.reaches.size(), 1u);
  EXPECT_EQ(found.reaches[0].b, 20);
  EXPECT_NE(comparison_text(found).find("+10.0 ± 3.0*"), std::string::npos)
      << comparison_text(found);
  EXPECT_EQ(to_json(found).at("differences")[0].at("to"), 20);
}

std::string refusal(const Results& a, const Results& b) {
  try {
    compare(a, b, Texts::same);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Compare, RefusesWhatCannotBeCompared) {
  const Results text = results_of({{"alibi", "ALiBi", 2.5, 2.5, 2.5}});
  EXPECT_EQ(refusal(text, copies(0.8, 400)),
            "[compare] both folders must have the same task, got text and copy");
  Results other = text;
  other.metric.name = "nats";
  EXPECT_NE(refusal(text, other).find("must have the same metric"), std::string::npos);
  EXPECT_NE(refusal(text, results_of({{"t5", "T5", 2.5, 2.5, 2.5}}))
                .find("must have an encoding and a length in common"),
            std::string::npos);
}

}  // namespace compare_test
}  // namespace gnomon::lab
