// Weights of stick-breaking, for inspection. tests/attention/walk_test.cc has the kernels.
#include "gnomon/attention/stick_breaking.h"

#include <gtest/gtest.h>

#include <vector>

#include "naive/walk.h"
#include "testing.h"

namespace gnomon {
namespace stick_breaking_test {

using testing::random_numbers;

TEST(StickBreaking, WeightsAreThoseOfTheNaiveVersion) {
  for (const OwnKey own : {OwnKey::excluded, OwnKey::included})
    for (const std::int64_t keys : {1, 2, 9}) {
      // A query of 1 and keys of one element, so the scores are the keys.
      const auto scores = random_numbers(static_cast<std::size_t>(keys), 3);
      const double one = 1;
      std::vector<double> seen(scores.size(), 1.0), weights = scores;
      if (own == OwnKey::excluded) seen.back() = 0;
      const testing::Matrix k(scores.data(), {keys, 1}), q(&one, {1, 1});
      double log_rest = 0;
      const auto wanted = testing::naive_stick_weights(
          {q, k, k, testing::Matrix(seen.data(), {1, keys}), 1}, 0, log_rest);
      stick_weights({.own_key = own}, weights);
      double rest = 1;
      for (std::size_t j = 0; j < weights.size(); ++j) {
        EXPECT_NEAR(weights[j], wanted[j], 1e-15);
        rest -= weights[j];
      }
      EXPECT_NEAR(rest, std::exp(log_rest), 1e-15);
    }
}

TEST(StickBreaking, LargeScoresDoNotOverflow) {
  std::vector<double> scores = {3, 1e4, -1e4, -1e300};
  stick_weights({.own_key = OwnKey::included}, scores);
  EXPECT_EQ(scores, (std::vector<double>{0, 1, 0, 0}));
  std::vector<double> none;
  stick_weights({}, none);
  EXPECT_TRUE(none.empty());
}

}  // namespace stick_breaking_test
}  // namespace gnomon
