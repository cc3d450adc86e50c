#include "gnomon/analysis/invariance.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gnomon/bias/alibi.h"
#include "gnomon/bias/fire.h"
#include "gnomon/bias/t5.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon::analysis {
namespace analysis_invariance_test {

using testing::message_of;

constexpr OrderContent content{.tokens = 12, .heads = 2, .head_dim = 16};
constexpr std::int64_t offset = 37;
const Sinusoidal waves{.width = 32, .recipe = SinusoidalRecipe::interleaved};
const Rotary turns{.rotary_dim = 16, .pairing = Pairing::halves};

EmbeddingTable waves_at(std::int64_t first, std::int64_t count) {
  return lower(waves, consecutive(count, first).ids);
}

// A table of vectors by distance that covers both windows.
RelativeVectors vectors_by_distance(unsigned seed) {
  RelativeVectors table{
      .heads = 1, .head_dim = 16, .min_distance = -60, .rows = {}, .values = {}};
  for (int d = -60; d <= 60; ++d) table.rows.push_back(std::clamp(d, -3, 3) + 3);
  table.values = testing::random_numbers(7 * 16, seed);
  return table;
}

LayerPlan rotations(const std::vector<HeadRotation>& of_queries,
                    const std::vector<HeadRotation>& of_keys) {
  LayerPlan plan;
  plan.query_rotations = of_queries, plan.key_rotations = of_keys;
  return plan;
}
LayerPlan cosines(const std::vector<double>& scales) {
  LayerPlan plan;
  plan.cosine = scales;
  return plan;
}
LayerPlan turned(const RotaryTable& table) {
  return {{.query_rotary = table, .key_rotary = table}};
}

TEST(Permutation, IsNotSeenWithoutPosition) {
  EXPECT_LE(permutation_deviation(content, {}), 1e-14);
  const EmbeddingTable table = waves_at(0, 12);
  const RotaryTable rotary(turns, consecutive(12));
  const RelativeForm relative{{vectors_by_distance(1)}, {}, {}, {}};
  const RelativeForm values{{}, {}, {vectors_by_distance(2)}, {}};
  EXPECT_GT(permutation_deviation(content, {{}, table}), 0.01);
  EXPECT_GT(permutation_deviation(content, turned(rotary)), 0.01);
  EXPECT_GT(permutation_deviation(content, {{.bias = lower(Alibi{.heads = 2})}}), 0.01);
  EXPECT_GT(permutation_deviation(content, {{.relative = relative}}), 0.01);
  EXPECT_GT(permutation_deviation(content, {{.relative = values}}), 0.01);
  // A constant added to all queries does not encode position.
  const RelativeForm shift{{}, {}, {}, testing::random_numbers(32, 3)};
  EXPECT_LE(permutation_deviation(content, {{.relative = shift}}), 1e-14);
  const std::vector<double> scales = {5, 7};
  EXPECT_LE(permutation_deviation(content, cosines(scales)), 1e-14);
}

TEST(Reversal, IsNotSeenByWhatIsSymmetric) {
  EXPECT_LE(reversal_deviation(content, {}), 1e-14);
  EXPECT_LE(reversal_deviation(content, {{.bias = lower(Alibi{.heads = 2})}}), 1e-14);
  const EmbeddingTable table = waves_at(0, 12);
  const RotaryTable rotary(turns, consecutive(12));
  EXPECT_GT(reversal_deviation(content, {{}, table}), 0.01);
  EXPECT_GT(reversal_deviation(content, turned(rotary)), 0.01);
  const T5Bias t5{.heads = 2, .direction = T5Direction::bidirectional};
  const auto buckets = testing::random_tensor<float, 2>({t5.buckets, 2});
  EXPECT_GT(reversal_deviation(content, {{.bias = lower(t5, buckets.view(), -12, 25)}}), 0.01);
}

TEST(Shift, IsNotSeenByWhatGoesByDistance) {
  const RotaryTable here(turns, consecutive(12)), keys(turns, consecutive(12 + offset)),
      there(turns, consecutive(12, offset));
  EXPECT_LE(shift_deviation(content, turned(here),
                            {{.query_rotary = there, .key_rotary = keys}}, offset),
            1e-6);
  const RelativeForm relative{
      {vectors_by_distance(1)}, {vectors_by_distance(2)}, {}, testing::random_numbers(32, 3)};
  EXPECT_LE(
      shift_deviation(content, {{.relative = relative}}, {{.relative = relative}}, offset),
      1e-14);
  const BiasForm slopes = lower(Alibi{.heads = 2});
  EXPECT_LE(shift_deviation(content, {{.bias = slopes}}, {{.bias = slopes}}, offset), 1e-14);
  // If only the queries rotate, scores do not depend on the distance alone.
  EXPECT_GT(
      shift_deviation(content, {{.query_rotary = here}}, {{.query_rotary = there}}, offset),
      0.01);
  const EmbeddingTable near = waves_at(0, 12), far = waves_at(offset, 12);
  EXPECT_GT(shift_deviation(content, {{}, near}, {{}, far}, offset), 0.01);
  EXPECT_EQ(shift_deviation(content, {{}, near}, {{}, near}, 0), 0);
}

TEST(Cache, RepeatsTheFullPass) {
  const EmbeddingTable table = waves_at(0, 12), first = waves_at(0, 7), second = waves_at(7, 4),
                       third = waves_at(11, 1);
  const RotaryTable all(turns, consecutive(12)), seven(turns, consecutive(7)),
      eleven(turns, consecutive(11)), four(turns, consecutive(4, 7)),
      last(turns, consecutive(1, 11));
  const RelativeForm relative{{vectors_by_distance(1)}, {}, {vectors_by_distance(2)}, {}};
  const BiasForm slopes = lower(Alibi{.heads = 2});
  const std::vector<double> scales = {5, 7};
  const auto plan = [&](const EmbeddingTable& added, const RotaryTable& of_queries,
                        const RotaryTable& of_keys) {
    LayerPlan one{{.query_rotary = of_queries,
                   .key_rotary = of_keys,
                   .bias = slopes,
                   .relative = relative}};
    one.table = added;
    one.cosine = scales;
    return one;
  };
  const CachedPiece pieces[] = {{7, plan(first, seven, seven)},
                                {4, plan(second, four, eleven)},
                                {1, plan(third, last, all)}};
  const LayerPlan whole = plan(table, all, all);
  EXPECT_LE(cache_deviation(content, whole, pieces), 0x1p-16);
  // The positions of the second piece start at 0 again, a known bug of caches.
  CachedPiece wrong[] = {pieces[0], pieces[1], pieces[2]};
  const RotaryTable again(turns, consecutive(4));
  wrong[1].plan.query_rotary = again;
  EXPECT_GT(cache_deviation(content, whole, wrong), 1e-3);
}

// A rotation that attention does not apply itself has the same effect as one that it applies.
// The rotation of V-JEPA 2, which is not a rotation of pairs, is also consistent with a cache.
TEST(Cache, TakesRotationsOfHeads) {
  const RotaryTable all(turns, consecutive(12)), seven(turns, consecutive(7)),
      five(turns, consecutive(5, 7));
  const LayerPlan before = rotations({all}, {all});
  EXPECT_NEAR(reversal_deviation(content, turned(all)), reversal_deviation(content, before),
              1e-12);
  const Vjepa2 vjepa2{.head_dim = 16};
  const auto rows = [&](std::int64_t tokens, std::int64_t first) {
    const std::vector<Positions> axes(3, consecutive(tokens, first));
    return std::vector<HeadRotation>{Vjepa2Table(vjepa2, axes)};
  };
  const auto whole = rows(12, 0), first = rows(7, 0), second = rows(5, 7);
  const CachedPiece pieces[] = {{7, rotations(first, first)}, {5, rotations(second, whole)}};
  const LayerPlan plan = rotations(whole, whole);
  EXPECT_LE(cache_deviation(content, plan, pieces), 0x1p-16);
  EXPECT_GT(reversal_deviation(content, plan), 0.01);
  EXPECT_GT(
      shift_deviation(content, {{.bias = lower(Alibi{.heads = 2})}},
                      {{.softmax = {.factor = 0.5}, .bias = lower(Alibi{.heads = 2})}}, 0),
      0.1);
}

TEST(Invariance, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { reversal_deviation({.tokens = 1}, {}); }),
            "[invariance] tokens must be at least 2, got 1");
  EXPECT_EQ(message_of([] { permutation_deviation({.heads = 0}, {}); }),
            "[invariance] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { permutation_deviation({.head_dim = 0}, {}); }),
            "[invariance] head_dim must be at least 1, got 0");
  EXPECT_EQ(message_of([] { permutation_deviation({.shared = 2}, {}); }),
            "[invariance] shared must be from 0 to 1, got 2");
  const EmbeddingTable table = waves_at(0, 11);
  EXPECT_EQ(message_of([&] { reversal_deviation(content, {{}, table}); }),
            "[invariance] the table must be [12, 32], got [11, 32]");
  const std::vector<double> scales = {5, 7, 9};
  EXPECT_EQ(message_of([&] { reversal_deviation(content, cosines(scales)); }),
            "[invariance] cosines must have a scale for each head, 2, got 3");
  EXPECT_EQ(message_of([] { shift_deviation(content, {}, {}, -1); }),
            "[invariance] offset must not be negative, got -1");
  constexpr std::int64_t wide = std::int64_t{1} << 32;
  EXPECT_EQ(message_of(
                [] { reversal_deviation({.tokens = 2, .heads = wide, .head_dim = wide}, {}); }),
            "[invariance] tokens x heads x head_dim must fit in memory, "
            "got 2 x 4294967296 x 4294967296");
  EXPECT_EQ(message_of([] { shift_deviation(content, {}, {}, INT64_MAX); }),
            "[invariance] offset + tokens must fit 64 bits, got 9223372036854775807 + 12");
  EXPECT_EQ(message_of([] { shift_deviation(content, {}, {}, INT64_MAX - 15); }),
            "[invariance] offset x heads x head_dim must fit in memory, got "
            "9223372036854775792 x 2 x 16");
  const CachedPiece pieces[] = {{7, {}}, {4, {}}};
  EXPECT_EQ(message_of([&] { cache_deviation(content, {}, pieces); }),
            "[invariance] pieces must hold the 12 tokens, got 11");
  const CachedPiece none[] = {{12, {}}, {0, {}}};
  EXPECT_EQ(message_of([&] { cache_deviation(content, {}, none); }),
            "[invariance] pieces must hold the 12 tokens, at least one each, got 0");
}

}  // namespace analysis_invariance_test
}  // namespace gnomon::analysis
