// Caches whose methods run out of memory: each is as it was before the call.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "allocations.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/attention/layer_plan.h"
#include "gnomon/attention/segment_memory.h"
#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon {
namespace exhausted_memory_caches_test {

using std::int64_t;
using testing::random_tensor;

constexpr int64_t batch = 2, heads = 2, size = 16, rows = 700, capacity = 2000;

RotaryFrequencies frequencies(double base = 10'000) {
  return lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves, .base = base});
}

// All that a cache shows.
struct Contents {
  std::vector<float> elements;
  std::vector<Positions> positions;
  int64_t dropped = 0;
  std::optional<RotaryFrequencies> frequencies;
  bool operator==(const Contents&) const = default;
};
Contents contents(const KvCache<float>& cache) {
  Contents all;
  all.dropped = cache.dropped(), all.frequencies = cache.frequencies();
  for (const auto& view : {cache.keys(), cache.values()})
    for (int64_t b = 0; b < view.extent(0); ++b)
      for (int64_t t = 0; t < view.extent(1); ++t)
        for (int64_t h = 0; h < view.extent(2); ++h)
          for (int64_t d = 0; d < view.extent(3); ++d) all.elements.push_back(view(b, t, h, d));
  all.positions.push_back(cache.positions());
  return all;
}

// Calls a method of a full cache while each of its allocations fails.
void expect_unchanged(const char* name, const KvCacheShape& shape,
                      const std::function<void(KvCache<float>&)>& method) {
  const auto k = random_tensor<float, 4>({batch, rows, heads, size}, 1);
  int64_t failures = 0;
  for (int64_t n = 0;; ++n, ++failures) {
    KvCache<float> cache(shape, frequencies());
    cache.append(k.view(), k.view(), consecutive(rows, 0, batch));
    const Contents before = contents(cache);
    testing::fail_allocations(n, testing::Failing::one);
    bool thrown = false;
    try {
      method(cache);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const bool failed = testing::end_failures();
    EXPECT_TRUE(failed || !thrown) << name;
    EXPECT_EQ(contents(cache) == before, thrown) << name << ", allocation " << n;
    if (!failed) break;
  }
  std::printf("%s: %lld failing allocations\n", name, static_cast<long long>(failures));
}

TEST(ExhaustedMemoryOfCaches, KvCachesAreUnchanged) {
  const KvCacheShape shape{.batch = batch,
                           .capacity = capacity,
                           .heads = heads,
                           .head_dim = size,
                           .value_dim = size};
  const auto k = random_tensor<float, 4>({batch, 20, heads, size}, 2);
  const Positions more = consecutive(20, rows, batch);
  expect_unchanged("append", shape,
                   [&](auto& cache) { cache.append(k.view(), k.view(), more); });
  expect_unchanged("insert", shape,
                   [&](auto& cache) { cache.insert(5, k.view(), k.view(), more); });
  expect_unchanged("remove", shape, [](auto& cache) { cache.remove(3, 9); });
  expect_unchanged("shift", shape, [](auto& cache) { cache.shift(2, 600, 7); });
  expect_unchanged("drop", shape, [](auto& cache) { cache.drop(2, 7); });
  expect_unchanged("truncate", shape, [](auto& cache) { cache.truncate(7); });
  const RotaryFrequencies other = frequencies(500);
  expect_unchanged("change_frequencies", shape,
                   [&](auto& cache) { cache.change_frequencies(other); });
  KvCacheShape window = shape;
  window.capacity = rows + 10, window.window = 300;
  expect_unchanged("append to a window", window,
                   [&](auto& cache) { cache.append(k.view(), k.view(), more); });
}

TEST(ExhaustedMemoryOfCaches, SegmentMemoriesAreUnchanged) {
  const auto k = random_tensor<float, 4>({batch, 20, heads, size}, 1);
  for (int64_t n = 0;; ++n) {
    SegmentMemory<float> memory({.batch = batch,
                                 .memory = 30,
                                 .segment = 20,
                                 .heads = heads,
                                 .head_dim = size,
                                 .value_dim = size},
                                frequencies()),
        twin = memory;
    for (auto* one : {&memory, &twin})
      for (int i = 0; i < 3; ++i) one->append(k.view(), k.view());
    testing::fail_allocations(n, testing::Failing::one);
    bool thrown = false;
    try {
      memory.append(k.view(), k.view());
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const bool failed = testing::end_failures();
    EXPECT_TRUE(failed || !thrown);
    const auto one = memory.append(k.view(), k.view());
    if (!thrown) twin.append(k.view(), k.view());
    const auto other = twin.append(k.view(), k.view());
    EXPECT_EQ(one.first, other.first);
    EXPECT_EQ(one.offset, other.offset);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < other.keys.extent(1); ++t)
        EXPECT_EQ(one.keys(b, t, 1, 3), other.keys(b, t, 1, 3)) << n << ' ' << t;
    if (!failed) break;
  }
}

// A plan rotates in attention as before, or in `prepare`.
TEST(ExhaustedMemoryOfCaches, RotateInPrepareLeavesThePlan) {
  const RotaryTable table(frequencies(), consecutive(9));
  for (int64_t n = 0;; ++n) {
    LayerPlan plan;
    plan.query_rotary = plan.key_rotary = table;
    testing::fail_allocations(n, testing::Failing::one);
    try {
      rotate_in_prepare(plan);
    } catch (const std::bad_alloc&) {
    }
    if (!testing::end_failures()) {
      EXPECT_EQ(plan.query_rotations.size(), 1u);
      EXPECT_EQ(plan.key_rotations.size(), 1u);
      break;
    }
    EXPECT_TRUE(plan.query_rotations.empty());
    EXPECT_TRUE(plan.key_rotations.empty());
    ASSERT_TRUE(plan.query_rotary && plan.key_rotary);
    EXPECT_TRUE(plan.query_rotary->frequencies() == table.frequencies());
    EXPECT_TRUE(plan.key_rotary->frequencies() == table.frequencies());
  }
}

}  // namespace exhausted_memory_caches_test
}  // namespace gnomon
