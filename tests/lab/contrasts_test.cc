// Verdicts about invented observations: tables of cases, and simulations with known
// differences.
#include "apps/lab/statistics/contrasts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace contrasts_test {

// One unit for each seed.
Observations of_seeds(const std::vector<double>& numbers, std::int64_t first = 1) {
  Observations all;
  for (const double one : numbers) {
    all.seeds.push_back(first++);
    all.units.push_back({one});
  }
  return all;
}

TEST(Contrasts, OfTwoEntriesAreStudentsOfPairedSeeds) {
  // Differences 0.3, 0.5, 0.1: mean 0.3, deviation 0.2. t with 2 degrees of freedom: 4.3027.
  const Contrasts both({of_seeds({1.3, 2.5, 3.1}), of_seeds({1, 2, 3})}, Better::lower, 1);
  EXPECT_NEAR(both.between(0, 1).difference, 0.3, 1e-12);
  EXPECT_NEAR(both.between(0, 1).margin, 4.30265 * 0.2 / std::sqrt(3.0), 1e-5);
  // Bonferroni for 5 statements: the quantile at 1 - 0.025 / 5 is 9.92484.
  const Contrasts of_five({of_seeds({1.3, 2.5, 3.1}), of_seeds({1, 2, 3})}, Better::lower, 5);
  EXPECT_NEAR(of_five.between(0, 1).margin, 9.92484 * 0.2 / std::sqrt(3.0), 1e-4);
}

TEST(Contrasts, PairSeedsByTheirNumber) {
  Observations a = of_seeds({1.1, 2.1, 3.1}), b = of_seeds({3, 1, 2});
  b.seeds = {3, 1, 2};
  EXPECT_NEAR(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin, 0, 1e-12);
  // Without common seeds: Welch. Deviations 1 and 1 of 3 seeds, 4 degrees of freedom.
  b.seeds = {13, 11, 12};
  EXPECT_NEAR(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin,
              2.77645 * std::sqrt(2.0 / 3), 1e-4);
  // Two common seeds are too few.
  b.seeds = {3, 1, 12};
  EXPECT_TRUE(std::isinf(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin));
}

TEST(Contrasts, ContainTheDeviationOfUnits) {
  // Equal seeds: only the units deviate, by differences of 0, 0.2, 0.4: deviation 0.2.
  Observations a, b;
  a.seeds = b.seeds = {1, 2, 3};
  a.units.assign(3, {1.0, 2.2, 3.4});
  b.units.assign(3, {1.0, 2.0, 3.0});
  EXPECT_NEAR(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin,
              4.30265 * 0.2 / std::sqrt(3.0), 1e-5);
  // Other segments: the deviations of both, 1.2 and 1.
  b.unit_set = 1;
  EXPECT_NEAR(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin,
              4.30265 * std::sqrt((1.44 + 1) / 3), 1e-4);
}

TEST(Contrasts, OfSharesAreNeverCertainAtTheLimits) {
  Observations all, none;
  all.seeds = none.seeds = {1, 2, 3};
  all.units.assign(3, std::vector<double>(20, 1));
  none.units.assign(3, std::vector<double>(20, 0.0));
  const Contrast one = Contrasts({all, none}, Better::higher, 1).between(0, 1);
  EXPECT_EQ(one.difference, 1);
  EXPECT_GT(one.margin, 0.05);
  EXPECT_TRUE(one.above());
}

TEST(Contrasts, OfModelsWithoutTrainingNeedNoSeeds) {
  Observations a, b;
  a.seeds = b.seeds = {1};
  a.trained = b.trained = false;
  a.units = {{1, 2, 3.1}}, b.units = {{0.5, 1.5, 2.5}};
  EXPECT_TRUE(Contrasts({a, b}, Better::lower, 1).between(0, 1).above());
  b.trained = true;
  EXPECT_TRUE(std::isinf(Contrasts({a, b}, Better::lower, 1).between(0, 1).margin));
}

struct VerdictCase {
  const char* name;
  std::vector<std::vector<double>> seeds;  // of each entry
  std::vector<Verdict> verdicts;
  std::vector<bool> usual = {};
  std::size_t statements = 1;
};

class Verdicts : public ::testing::TestWithParam<VerdictCase> {};
INSTANTIATE_TEST_SUITE_P(
    , Verdicts,
    ::testing::Values(VerdictCase{"BestAndWorse",
                                  {{1, 1.01, 0.99}, {2, 2, 2.01}, {3, 3.01, 3}},
                                  {Verdict::best, Verdict::worse, Verdict::worse}},
                      VerdictCase{"Equivalent",
                                  {{1, 1, 1}, {1.01, 1.009, 1.011}, {3, 3.01, 3}},
                                  {Verdict::equivalent, Verdict::equivalent, Verdict::worse}},
                      VerdictCase{"Undecided",
                                  {{1, 1.5, 1.2}, {1.4, 1.1, 1.6}, {9, 9, 9}},
                                  {Verdict::undecided, Verdict::undecided, Verdict::worse}},
                      VerdictCase{"Described",
                                  {{1, 1.1}, {2, 2.1}},
                                  {Verdict::described, Verdict::described}},
                      VerdictCase{"NotFinite",
                                  {{1, 1.01, 0.99}, {NAN, 2, 2}, {3, 3.01, 3}},
                                  {Verdict::best, Verdict::excluded, Verdict::worse}},
                      VerdictCase{"Excluded",
                                  {{1, 1.01, 0.99}, {2, 2, 2.01}, {3, 3.01, 3}},
                                  {Verdict::excluded, Verdict::best, Verdict::worse},
                                  {false, true, true}},
                      // The last one deviates much: 1.2 +- 1.5 with the intervals of all 12
                      // differences together, +- 0.9 with those of 3.
                      VerdictCase{"Holm",
                                  {{2.21, 2.2, 2.22, 2.21, 2.21},
                                   {2.3, 2.29, 2.31, 2.3, 2.31},
                                   {2.4, 2.39, 2.41, 2.39, 2.4},
                                   {2.5, 2.5, 2.51, 2.49, 2.5},
                                   {2.8, 3.2, 3.4, 3.5, 4.25}},
                                  {Verdict::best, Verdict::worse, Verdict::worse,
                                   Verdict::worse, Verdict::worse},
                                  {},
                                  12}),
    [](const auto& info) { return info.param.name; });

TEST_P(Verdicts, FollowFromTheSeeds) {
  std::vector<Observations> entries;
  for (const auto& seeds : GetParam().seeds) entries.push_back(of_seeds(seeds));
  const std::vector<Verdict> found =
      Contrasts(entries, Better::lower, GetParam().statements, GetParam().usual).verdicts(0.05);
  ASSERT_EQ(found.size(), GetParam().verdicts.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_STREQ(name(found[i]), name(GetParam().verdicts[i])) << i;
}

// Losses with known expectations. Seeds deviate by `deviations`, and 20 units by 0.05.
struct Simulation {
  std::vector<double> expected, deviations;
  int seeds = 3;
};
double normal(Draws& draws) {
  double sum = -6;  // of 12 uniform numbers
  for (int i = 0; i < 12; ++i) sum += std::ldexp(static_cast<double>(draws.next() >> 11), -53);
  return sum;
}
std::vector<Observations> drawn(const Simulation& s, Draws& draws) {
  std::vector<Observations> all(s.expected.size());
  std::vector<double> common;
  for (int seed = 0; seed < s.seeds; ++seed) common.push_back(0.05 * normal(draws));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> units;
    for (int u = 0; u < 20; ++u) units.push_back(0.05 * normal(draws));
    for (int seed = 0; seed < s.seeds; ++seed) {
      const double here = s.expected[i] + common[static_cast<std::size_t>(seed)] +
                          s.deviations[i] * normal(draws);
      all[i].seeds.push_back(seed + 1);
      std::vector<double>& numbers = all[i].units.emplace_back();
      for (const double unit : units) numbers.push_back(here + unit);
    }
  }
  return all;
}

// The share of sessions that call an entry worse whose expectation is the best.
double false_shares(const Simulation& s, std::size_t statements) {
  Draws draws{17};
  constexpr int sessions = 400;
  const double best = *std::min_element(s.expected.begin(), s.expected.end());
  int wrong = 0;
  for (int i = 0; i < sessions; ++i) {
    const auto verdicts = Contrasts(drawn(s, draws), Better::lower, statements).verdicts(0.05);
    bool here = false;
    for (std::size_t k = 0; k < verdicts.size(); ++k)
      here = here || (verdicts[k] == Verdict::worse && s.expected[k] == best);
    wrong += here;
  }
  return static_cast<double>(wrong) / sessions;
}

TEST(Simulated, EqualEntriesAreHardlyEverCalledWorse) {
  const std::vector<double> six(6, 3.0), twelve(12, 3.0), two(2, 3.0);
  EXPECT_LE(false_shares({six, std::vector<double>(6, 0.03)}, 15), 0.05);
  EXPECT_LE(false_shares({twelve, std::vector<double>(12, 0.03)}, 33), 0.05);
  EXPECT_LE(false_shares({two, std::vector<double>(2, 0.03)}, 3), 0.05);
  // One entry deviates three times and six times as much as the others.
  EXPECT_LE(false_shares({six, {0.02, 0.02, 0.02, 0.02, 0.02, 0.06}}, 15), 0.05);
  EXPECT_LE(false_shares({six, {0.02, 0.02, 0.02, 0.02, 0.02, 0.12}}, 15), 0.07);
}

TEST(Simulated, KnownDifferencesAreFound) {
  // Steps of 0.2 bits, and seeds that deviate by 0.03.
  const Simulation ladder{{2.4, 2.6, 2.8, 3.0}, std::vector<double>(4, 0.03)};
  Draws draws{5};
  int found = 0;
  constexpr int sessions = 200;
  for (int i = 0; i < sessions; ++i)
    found +=
        Contrasts(drawn(ladder, draws), Better::lower, 3).verdicts(0.05)[0] == Verdict::best;
  EXPECT_GT(found, 0.9 * sessions);
}

TEST(Simulated, SeedsNeededDecide) {
  // A difference of 0.05 with a deviation of 0.03 needs more than 3 seeds.
  Draws draws{23};
  const Simulation pair{{2.4, 2.45}, {0.03, 0.03}};
  int several = 0;
  for (int i = 0; i < 100; ++i)
    several += Contrasts(drawn(pair, draws), Better::lower, 1).seeds_needed(1, 0) > 3;
  EXPECT_GT(several, 30);
}

}  // namespace contrasts_test
}  // namespace gnomon::lab
