// The result of a pair has the same bits for every memory layout and every function. The values
// are checked in rotary_test.
#include <gtest/gtest.h>

#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"
#include "rotated.h"
#include "testing.h"

namespace gnomon {
namespace rotate_layouts_test {

using testing::same_bits;
using testing::Tensor;

template <typename T>
class RotateLayouts : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(RotateLayouts, Types);

constexpr std::int64_t batch = 2, tokens = 70, query_heads = 3, key_heads = 2;

struct Shape {
  Rotary rotary;
  std::int64_t size;
};
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const auto& [dim, first, size] : {std::array<std::int64_t, 3>{2, 0, 2},
                                           {6, 3, 11},
                                           {34, 1, 40},
                                           {56, 0, 56},
                                           {72, 8, 96},
                                           {80, 0, 80},
                                           {128, 0, 128},
                                           {192, 0, 192},
                                           {256, 0, 256},
                                           {514, 0, 515},
                                           {600, 1, 640}})
      all.push_back({{.rotary_dim = dim, .pairing = pairing, .head_offset = first}, size});
  return all;
}

// Rotates each head separately, one token at a time.
template <typename T>
Tensor<T, 4> one_by_one(const Tensor<T, 4>& x, const Rotary& rotary) {
  Tensor<T, 4> turned = x;
  for (std::int64_t t = 0; t < x.view().extent(1); ++t) {
    const RotaryTable table(rotary, std::vector<std::int64_t>{t});
    for (std::int64_t h = 0; h < x.view().extent(2); ++h)
      rotate(turned.view().slice(1, t, 1).slice(2, h, 1), table);
  }
  return turned;
}

// x in memory with another order of axes, at an odd offset from the beginning.
template <typename T>
struct Elsewhere {
  std::vector<T> memory;
  View<T, 4> view;

  Elsewhere(View<const T, 4> x, std::array<std::ptrdiff_t, 4> strides, std::ptrdiff_t size)
      : memory(static_cast<std::size_t>(size + 1)),
        view(memory.data() + 1, x.extents(), strides) {
    copy(x, view);
  }
  static void copy(View<const T, 4> from, View<T, 4> to) {
    for (std::ptrdiff_t b = 0; b < from.extent(0); ++b)
      for (std::ptrdiff_t t = 0; t < from.extent(1); ++t)
        for (std::ptrdiff_t h = 0; h < from.extent(2); ++h)
          for (std::ptrdiff_t d = 0; d < from.extent(3); ++d) to(b, t, h, d) = from(b, t, h, d);
  }
  Tensor<T, 4> back() const {
    Tensor<T, 4> x(view.extents());
    copy(view, x.view());
    return x;
  }
};

TYPED_TEST(RotateLayouts, HaveTheSameBits) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (const auto& [rotary, size] : shapes()) {
      const auto q = testing::random_tensor<T, 4>({batch, tokens, query_heads, size}, 1);
      const auto k = testing::random_tensor<T, 4>({batch, tokens, key_heads, size}, 2);
      const Tensor<T, 4> rotated_q = one_by_one(q, rotary), rotated_k = one_by_one(k, rotary);
      const RotaryTable table(rotary, testing::iota(0, tokens));
      const auto expect = [&](const char* what, const Tensor<T, 4>& x,
                              const Tensor<T, 4>& expected) {
        ASSERT_TRUE(same_bits(x.values, expected.values))
            << what << " " << name(isa) << " " << static_cast<int>(rotary.pairing) << " "
            << rotary.rotary_dim;
      };

      auto both_q = q, both_k = k;
      rotate(both_q.view(), both_k.view(), table);
      expect("q of both", both_q, rotated_q);
      expect("k of both", both_k, rotated_k);

      const auto by_head = [&](const Tensor<T, 4>& x) {
        const std::int64_t heads = x.view().extent(2);
        return Elsewhere<T>(x.view(), {heads * tokens * size, size, tokens * size, 1},
                            batch * heads * tokens * size);
      };
      Elsewhere<T> far_q = by_head(q), far_k = by_head(k);
      rotate(far_q.view, far_k.view, table);
      expect("[B, H, T, D] q", far_q.back(), rotated_q);
      expect("[B, H, T, D] k", far_k.back(), rotated_k);

      constexpr std::int64_t all = query_heads + 2 * key_heads;  // q, k and v of a token
      Elsewhere<T> packed(q.view(), {tokens * all * size, all * size, size, 1},
                          batch * tokens * all * size);
      const auto before = packed.memory;
      rotate(packed.view, table);
      expect("packed", packed.back(), rotated_q);
      Elsewhere<T>::copy(q.view(), packed.view);
      EXPECT_TRUE(same_bits(packed.memory, before)) << "wrote beside q";

      Elsewhere<T> backwards(q.view(),
                             {tokens * query_heads * size, query_heads * size, size, 1},
                             batch * tokens * query_heads * size);
      const View<T, 4> mirrored(&backwards.view(0, 0, query_heads - 1, 0), q.view().extents(),
                                {tokens * query_heads * size, query_heads * size, -size, 1});
      Elsewhere<T>::copy(q.view(), mirrored);
      rotate(mirrored, table);
      Tensor<T, 4> seen(q.view().extents());
      Elsewhere<T>::copy(mirrored, seen.view());
      expect("negative strides", seen, rotated_q);

      Tensor<T, 4> out(q.view().extents());
      rotate(q.view(), table, Direction::forward, out.view());
      expect("out of place", out, rotated_q);
      Elsewhere<T> far_out = by_head(q);
      std::fill(far_out.memory.begin(), far_out.memory.end(), T());
      rotate(q.view(), table, Direction::forward, far_out.view);
      expect("to [B, H, T, D]", far_out.back(), rotated_q);
    }
  }
}

// The inverse rotation is equal to the rotation at the negated positions.
TYPED_TEST(RotateLayouts, BackIsTheRotationByTheOppositeAngle) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (const auto& [rotary, size] : shapes()) {
      std::vector<std::int64_t> opposite = testing::iota(0, tokens);
      for (std::int64_t& p : opposite) p = -p;
      const RotaryTable table(rotary, testing::iota(0, tokens)), back(rotary, opposite);
      const auto q = testing::random_tensor<T, 3>({tokens, query_heads, size}, 1);
      const auto k = testing::random_tensor<T, 3>({tokens, key_heads, size}, 2);
      auto rotated_q = q, rotated_k = k, both_q = q, both_k = k;
      rotate(rotated_q.view(), rotated_k.view(), back);
      rotate(both_q.view(), both_k.view(), table, Direction::inverse);
      ASSERT_TRUE(same_bits(both_q.values, rotated_q.values)) << name(isa) << rotary.rotary_dim;
      ASSERT_TRUE(same_bits(both_k.values, rotated_k.values)) << name(isa) << rotary.rotary_dim;
      Tensor<T, 3> out({tokens, query_heads, size});
      rotate(q.view(), table, Direction::inverse, out.view());
      ASSERT_TRUE(same_bits(out.values, rotated_q.values)) << name(isa) << rotary.rotary_dim;
    }
  }
}

TYPED_TEST(RotateLayouts, AreTheSameForAnyNumberOfThreads) {
  using T = TypeParam;
  const auto q = testing::random_tensor<T, 4>({2, 300, 8, 80}, 1);
  const auto k = testing::random_tensor<T, 4>({2, 300, 2, 80}, 2);
  const RotaryTable table({.rotary_dim = 80, .pairing = Pairing::adjacent},
                          testing::iota(0, 300));
  const int before = threads();
  for (const bool by_head : {false, true}) {
    const auto view = [&](Tensor<T, 4>& x) {
      const std::int64_t heads = x.view().extent(2);
      return by_head ? View<T, 4>(x.values.data(), {2, 300, heads, 80},
                                  {300 * heads * 80, 80, 300 * 80, 1})
                     : x.view();
    };
    std::vector<T> expected_q, expected_k;
    for (const int count : {1, 2, 7}) {
      set_threads(count);
      auto rotated_q = q, rotated_k = k;
      rotate(view(rotated_q), view(rotated_k), table);
      if (count == 1) expected_q = rotated_q.values, expected_k = rotated_k.values;
      EXPECT_TRUE(same_bits(rotated_q.values, expected_q)) << count;
      EXPECT_TRUE(same_bits(rotated_k.values, expected_k)) << count;
    }
  }
  set_threads(before);
}

TYPED_TEST(RotateLayouts, NothingIsRotatedWhereThereIsNothing) {
  using T = TypeParam;
  const Rotary rotary{.rotary_dim = 4, .pairing = Pairing::halves};
  Tensor<T, 4> none({2, 0, 3, 4}), no_heads({2, 1, 0, 4}), some({2, 1, 3, 4});
  rotate(none.view(), none.view(), RotaryTable(rotary, std::vector<std::int64_t>{}));
  const RotaryTable table(rotary, std::vector<std::int64_t>{7});
  rotate(no_heads.view(), some.view(), table);
  rotate(some.view(), no_heads.view(), table);
  Tensor<T, 4> out({2, 1, 0, 4});
  rotate(no_heads.view(), table, Direction::forward, out.view());
}

TEST(RotateErrors, NameTheRuleOfTwoTensors) {
  const RotaryTable table({.rotary_dim = 4, .pairing = Pairing::halves},
                          std::vector<std::int64_t>{7});
  auto q = testing::random_tensor<float, 4>({2, 1, 3, 4});
  auto k = testing::random_tensor<float, 4>({1, 1, 3, 4});
  const auto before = q.values;
  EXPECT_EQ(testing::message_of([&] { rotate(q.view(), k.view(), table); }),
            "[rotary] k must have the rows of q, 2, got 1");
  EXPECT_EQ(testing::message_of([&] { rotate(q.view(), table, Direction::forward, k.view()); }),
            "[rotary] out must have the shape of the input, [2, 1, 3, 4], "
            "got [1, 1, 3, 4]");
  EXPECT_EQ(q.values, before);
}

TEST(RotateErrors, CheckTypesRanksAndDevices) {
  const RotaryTable table({.rotary_dim = 4, .pairing = Pairing::halves},
                          std::vector<std::int64_t>{7});
  auto q = testing::random_tensor<float, 4>({2, 1, 3, 4});
  Tensor<double, 4> other({2, 1, 3, 4});
  Tensor<std::int32_t, 3> whole({1, 3, 4});
  const auto before = q.values;
  const auto says = [](const auto&... arguments) {
    return testing::message_of([&] { rotate(arguments...); });
  };
  EXPECT_EQ(says(whole.view(), table),
            "[rotary] x must have elements of f32, f16, bf16 or f64, got i32");
  EXPECT_EQ(says(View<float, 2>(q.values.data(), {6, 4}), table),
            "[rotary] x must have 3 or 4 axes, got 2 axes, [6, 4]");
  EXPECT_EQ(says(q.view(), other.view(), table),
            "[rotary] k must have elements of f32, got f64");
  EXPECT_EQ(says(q.view(), table, Direction::forward, other.view()),
            "[rotary] out must have elements of f32, got f64");
  EXPECT_EQ(says(q.view(), table, Direction{}),
            "[rotary] direction must be forward or inverse, got 0");
  const View<float, 4> heads = q.view();
  gnomon::Tensor elsewhere = heads;
  elsewhere.device = {DeviceType::cuda, 1};
  EXPECT_EQ(says(elsewhere, table), "[rotary] x must be on the device cpu, got cuda:1");
  EXPECT_EQ(q.values, before);
}

}  // namespace rotate_layouts_test
}  // namespace gnomon
