#include "src/attention/check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/attention/attention.h"

namespace gnomon {
namespace check_test {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

// Two queries and two keys, at the given positions.
std::string says(BiasForm bias, std::vector<std::int64_t> queries = {0, 1},
                 std::vector<std::int64_t> keys = {0, 1}, RelativeForm relative = {}) {
  std::vector<float> x(8, 1.0f), out(8);
  const View<float, 4> q(x.data(), {1, 2, 1, 4}), to(out.data(), {1, 2, 1, 4});
  AttentionPlan plan;
  plan.mask.visibility = Visibility::bidirectional;
  plan.bias = std::move(bias);
  plan.relative = std::move(relative);
  plan.queries = std::make_shared<const Positions>(explicit_ids(queries));
  plan.keys = std::make_shared<const Positions>(explicit_ids(keys));
  try {
    attention({.q = q, .k = q, .v = q}, plan, to);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Check, AStripMustHaveTheDistances) {
  const auto strip = [](std::int64_t first, std::size_t count) {
    return StripBias{.heads = 1, .min_distance = first, .values = std::vector<double>(count)};
  };
  EXPECT_EQ(says(strip(-1, 3)), "");
  EXPECT_EQ(says(strip(0, 3)),
            "[attention] the strip must cover distances -1 to 1, got 0 to 2");
  EXPECT_NE(says(strip(-1, 0)), "");
  // first + count overflows: the end of these ranges wrapped below the distances.
  EXPECT_NE(says(strip(most - 1, 3)), "");
  EXPECT_NE(says(strip(most, 64)), "");
  EXPECT_NE(says(strip(least, 3)), "");
  EXPECT_NE(says(strip(least + 1, 64)), "");
}

// key - query overflows: 2^63 - 1 - (-2^63) is -1, which the strip has.
TEST(Check, PositionsMustBeSubtractable) {
  const StripBias strip{.heads = 1, .min_distance = -8, .values = std::vector<double>(17)};
  const std::vector<std::int64_t> near = {0, 1};
  for (const auto& [queries, keys] :
       {std::pair(std::vector{least, least + 1}, std::vector{most, most}),
        std::pair(std::vector{least, most}, near), std::pair(near, std::vector{least, most})}) {
    EXPECT_NE(says(strip, queries, keys), "");
    EXPECT_NE(says(SlopeBias{{0.5}}, queries, keys), "");
    EXPECT_NE(says(NoBias{}, queries, keys,
                   {.keys = {{.heads = 1,
                              .head_dim = 4,
                              .min_distance = -1,
                              .rows = {0, 0, 0},
                              .values = {1, 1, 1, 1}}},
                    .queries = {},
                    .values = {},
                    .shift = {}}),
              "");
    EXPECT_EQ(says(NoBias{}, queries, keys), "");
  }
}

TEST(Check, PositionsMustHaveTheirSize) {
  AttentionPlan plan;
  plan.mask.visibility = Visibility::causal;
  std::vector<float> x(8), out(8);
  const View<float, 4> q(x.data(), {1, 2, 1, 4}), to(out.data(), {1, 2, 1, 4});
  plan.keys = plan.queries = std::make_shared<const Positions>(
      Positions{.batch = 1, .tokens = 2, .ids = {7}, .sequences = {0}});
  EXPECT_THROW(attention({.q = q, .k = q, .v = q}, plan, to), std::invalid_argument);
}

}  // namespace check_test
}  // namespace gnomon
