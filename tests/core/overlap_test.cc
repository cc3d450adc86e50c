#include "src/core/overlap.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon {
namespace overlap_test {

using internal::may_overlap;
using internal::overlaps_itself;
using Heads = View<float, 4>;

std::vector<float> pattern(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17);
  return values;
}

template <typename Body>
std::string message(Body&& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

// All pairs of views of one buffer in which engines keep queries and keys.
struct Packed {
  std::string name;
  Heads q, k;
};
std::vector<Packed> packed(float* x) {
  constexpr std::ptrdiff_t b = 2, t = 3, h = 4, hk = 2, d = 8, w = (h + 2 * hk) * d;
  return {
      {"[B, T, (H + 2 Hk) D]",
       {x, {b, t, h, d}, {t * w, w, d, 1}},
       {x + h * d, {b, t, hk, d}, {t * w, w, d, 1}}},
      {"with padded rows",
       {x, {b, t, h, d}, {t * w + 5, w, d, 1}},
       {x + h * d, {b, t, hk, d}, {t * w + 5, w, d, 1}}},
      {"with padded tokens",
       {x, {b, t, h, d}, {t * (w + 3), w + 3, d, 1}},
       {x + h * d, {b, t, hk, d}, {t * (w + 3), w + 3, d, 1}}},
      {"[B, T, H, 3, D]",
       {x, {b, t, h, d}, {t * h * 3 * d, h * 3 * d, 3 * d, 1}},
       {x + d, {b, t, h, d}, {t * h * 3 * d, h * 3 * d, 3 * d, 1}}},
      {"[B, T, 3, H, D]",
       {x, {b, t, h, d}, {t * 3 * h * d, 3 * h * d, d, 1}},
       {x + h * d, {b, t, h, d}, {t * 3 * h * d, 3 * h * d, d, 1}}},
      {"[3, B, T, H, D]",
       {x, {b, t, h, d}, {t * h * d, h * d, d, 1}},
       {x + b * t * h * d, {b, t, h, d}, {t * h * d, h * d, d, 1}}},
      {"[B, 3, H, T, D]",
       {x, {b, t, h, d}, {3 * h * t * d, d, t * d, 1}},
       {x + h * t * d, {b, t, h, d}, {3 * h * t * d, d, t * d, 1}}},
      {"[B, H, T, 2, D]",
       {x, {b, t, h, d}, {h * t * 2 * d, 2 * d, t * 2 * d, 1}},
       {x + d, {b, t, h, d}, {h * t * 2 * d, 2 * d, t * 2 * d, 1}}},
      {"[T, 2, B, H, D]",
       {x, {b, t, h, d}, {h * d, 2 * b * h * d, d, 1}},
       {x + b * h * d, {b, t, h, d}, {h * d, 2 * b * h * d, d, 1}}},
      {"a slot of a cache and its neighbour",
       {x, {b, 1, h, d}, {t * h * d, h * d, d, 1}},
       {x + h * d, {b, 1, h, d}, {t * h * d, h * d, d, 1}}},
      {"tokens backwards",
       {x + (t - 1) * w, {1, t, h, d}, {0, -w, d, 1}},
       {x + h * d, {1, t, hk, d}, {0, w, d, 1}}},
  };
}

TEST(Overlap, SlicesOfOneArrayAreDisjoint) {
  std::vector<float> x = pattern(4096);
  const RotaryTable table(Rotary{.rotary_dim = 8, .pairing = Pairing::halves}, consecutive(3));
  const RotaryTable one(Rotary{.rotary_dim = 8, .pairing = Pairing::halves}, consecutive(1));
  for (const auto& [name, q, k] : packed(x.data())) {
    EXPECT_FALSE(may_overlap(q, k)) << name;
    EXPECT_FALSE(may_overlap(k, q)) << name;
    EXPECT_FALSE(overlaps_itself(q)) << name;
    const RotaryTable& by = q.extent(1) == 1 ? one : table;
    EXPECT_NO_THROW(rotate(q, k, by)) << name;
    if (q.extents() != k.extents()) continue;
    EXPECT_NO_THROW(rotate(q, by, Direction::forward, k)) << name;
  }
}

TEST(Overlap, OneElementInCommonIsFound) {
  std::vector<float> x = pattern(4096);
  for (const auto& [name, q, k] : packed(x.data())) {
    EXPECT_TRUE(may_overlap(q, q)) << name;
    for (const std::ptrdiff_t by : {-1, 1}) {  // k moves by an element, into q or another head
      const Heads moved(k.data() + by, k.extents(), k.strides());
      std::set<const float*> of_q;
      const auto each = [](const Heads& of, auto body) {
        for (std::ptrdiff_t b = 0; b < of.extent(0); ++b)
          for (std::ptrdiff_t t = 0; t < of.extent(1); ++t)
            for (std::ptrdiff_t h = 0; h < of.extent(2); ++h)
              for (std::ptrdiff_t d = 0; d < of.extent(3); ++d) body(&of(b, t, h, d));
      };
      each(q, [&](const float* one) { of_q.insert(one); });
      bool common = false;
      each(moved, [&](const float* one) { common |= of_q.contains(one); });
      EXPECT_TRUE(may_overlap(q, moved) || !common) << name << " " << by;
    }
  }
}

// Drawn pairs of views of one small buffer. Never a false "disjoint", and for slices of one
// row-major array never a false "overlap".
TEST(Overlap, AgreesWithTheElementsOfDrawnViews) {
  std::mt19937 draw(7);
  const auto below = [&](std::uint32_t most) {
    return static_cast<std::ptrdiff_t>(draw() % most);
  };
  std::array<float, 1> origin{};
  int disjoint = 0, common = 0, refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const bool slices = trial % 2;
    const std::array<std::ptrdiff_t, 3> shape{1 + below(4), 1 + below(4), 1 + below(4)};
    const auto view = [&] {
      std::array<std::ptrdiff_t, 3> extents, strides;
      std::ptrdiff_t offset = 0;
      if (slices) {  // ranges with steps of 1 or -1 of an array of the shape
        std::ptrdiff_t step = 1;
        for (std::size_t axis = 3; axis-- > 0; step *= shape[axis]) {
          extents[axis] = 1 + below(static_cast<std::uint32_t>(shape[axis]));
          const std::ptrdiff_t first =
              below(static_cast<std::uint32_t>(shape[axis] - extents[axis] + 1));
          const bool back = below(2);
          strides[axis] = back ? -step : step;
          offset += (back ? first + extents[axis] - 1 : first) * step;
        }
      } else {
        for (std::size_t axis = 0; axis < 3; ++axis)
          extents[axis] = below(4), strides[axis] = below(13) - 6;
        offset = below(40);
      }
      return View<float, 3>(origin.data() + offset, extents, strides);
    };
    const auto elements = [&](const View<float, 3>& of) {
      std::multiset<const float*> all;
      for (std::ptrdiff_t i = 0; i < of.extent(0); ++i)
        for (std::ptrdiff_t j = 0; j < of.extent(1); ++j)
          for (std::ptrdiff_t k = 0; k < of.extent(2); ++k)
            all.insert(of.data() + i * of.stride(0) + j * of.stride(1) + k * of.stride(2));
      return all;
    };
    const View<float, 3> a = view(), b = view();
    const auto of_a = elements(a), of_b = elements(b);
    bool meet = false, itself = false;
    for (const float* one : of_a) meet |= of_b.contains(one), itself |= of_a.count(one) > 1;
    const bool said = may_overlap(a, b);
    ASSERT_TRUE(said || !meet) << trial;
    ASSERT_TRUE(said == meet || !slices) << trial;
    ASSERT_TRUE(overlaps_itself(a) || !itself) << trial;
    (meet ? common : said ? refused : disjoint) += 1;
  }
  EXPECT_GT(disjoint, 4000);
  EXPECT_GT(common, 4000);
  EXPECT_LT(refused, 4000);
}

TEST(Overlap, RotationsOfOverlappingArraysAreRefused) {
  std::vector<float> x = pattern(512);
  const RotaryTable table(Rotary{.rotary_dim = 8, .pairing = Pairing::halves}, consecutive(3));
  const std::array<std::ptrdiff_t, 4> shape{2, 3, 4, 8};
  const Heads q(x.data(), shape), shifted(x.data() + 8, shape),
      other_order(x.data(), shape, {96, 8, 24, 1});
  EXPECT_EQ(message([&] { rotate(q, q, table); }),
            "[rotary] k must not overlap q, got one array");
  EXPECT_EQ(message([&] { rotate(q, shifted, table); }),
            "[rotary] k must not overlap q, got arrays with elements in common");
  EXPECT_EQ(message([&] { rotate(q, table, Direction::forward, shifted); }),
            "[rotary] out must be the input itself, for an operation in place, or must not "
            "overlap it, got arrays with elements in common");
  EXPECT_NE(message([&] { rotate(q, table, Direction::forward, other_order); }), "");

  EXPECT_NE(message([&] { rotate_append(q, table, shifted); }), "");
  EXPECT_NE(message([&] { copy_append(q, shifted); }), "");
  const std::vector<std::int64_t> positions = {0, 1, 2};
  const View<const std::int64_t, 1> at(positions.data(), {3});
  const auto frequencies = table.frequencies();
  EXPECT_EQ(message([&] { rotate_at(q, q, at, frequencies); }),
            "[rotary] k must not overlap q, got one array");
  EXPECT_NE(message([&] { rotate_append_at(q, q, at, frequencies, shifted); }), "");
  const Heads expanded(x.data(), shape, {0, 32, 8, 1});
  EXPECT_EQ(message([&] { rotate(expanded, table); }),
            "[rotary] x must not overlap itself, since it is changed in place, strides, got "
            "[0, 32, 8, 1]");
  EXPECT_EQ(x, pattern(512));  // nothing is written before a refusal
  EXPECT_EQ(message([&] { rotate(q, table, Direction::forward, q); }), "");  // in place
}

}  // namespace overlap_test
}  // namespace gnomon
