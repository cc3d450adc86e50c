#include "gnomon/rotary/cached_keys.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "gnomon/rotary/mrope.h"
#include "gnomon/rotary/scaling.h"
#include "rotary/rotated.h"
#include "testing.h"

namespace gnomon {
namespace cached_keys_test {

using testing::as_double;
using testing::expect_rotated;
using testing::GuardedHeads;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::same_bits;
using testing::Tensor;

struct Case {
  RotaryFrequencies frequencies;
  std::int64_t size;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const auto& [dim, first, size] : {std::array<std::int64_t, 3>{2, 0, 2},
                                           {6, 3, 11},
                                           {72, 8, 96},
                                           {128, 0, 128},
                                           {600, 0, 601}})
      all.push_back(
          {lower(Rotary{
               .rotary_dim = dim, .pairing = pairing, .base = 5e5, .head_offset = first}),
           size});
  return all;
}

std::int64_t axis_of(const RotaryFrequencies& s, std::size_t i) {
  return s.axes.empty() ? 0 : s.axes[i];
}

constexpr std::ptrdiff_t batch = 2, tokens = 3, heads = 2;

template <typename T, typename U>
void append_all() {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.frequencies.rotary_dim());
    const std::vector<std::int64_t> ids{0, 7, -3, 5, 1 << 20, 2};
    const Positions own = explicit_ids(View<const std::int64_t, 2>(ids.data(), {2, 3}));
    for (const Positions& positions : {consecutive(tokens, 131000), own}) {
      RotaryFrequencies scaled = one.frequencies;
      scaled.table_scale = 1.25;
      const RotaryTable table(scaled, positions);
      const GuardedHeads<T> k({batch, tokens, heads, one.size});
      GuardedHeads<U> slot({batch, tokens, heads, one.size}, 4);
      const GuardedHeads<T> k_before = k;
      const GuardedHeads<U> slot_before = slot;
      rotate_append(k.view(), table, slot.view());
      EXPECT_TRUE(same_bits(k.all.values, k_before.all.values));
      EXPECT_TRUE(slot.intact(slot_before));
      const View<const U, 4> got = slot.view();
      expect_rotated<T, U>(
          scaled, k.view(), got, [&](std::int64_t b, std::int64_t t, std::size_t i) {
            const auto row = positions.row(positions.batch == 1 ? 0 : b);
            return std::pair(static_cast<long double>(row[std::size_t(t)]) * scaled.inv_freq[i],
                             1.25L);
          });
      // Bit-identical to `rotate` of a copy, rounded.
      GuardedHeads<T> copy = k;
      rotate(copy.view(), table);
      for (std::ptrdiff_t b = 0; b < batch; ++b)
        for (std::ptrdiff_t t = 0; t < tokens; ++t)
          for (std::ptrdiff_t h = 0; h < heads; ++h)
            for (std::ptrdiff_t d = 0; d < one.size; ++d)
              ASSERT_EQ(got(b, t, h, d), static_cast<U>(as_double(copy.view()(b, t, h, d))));
    }
  }
}

TEST(RotateAppend, RotatesOnTheWayIntoTheCacheOnEveryIsa) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    append_all<float, float>();
    append_all<double, double>();
    append_all<Half, Half>();
    append_all<BFloat16, BFloat16>();
    append_all<float, Half>();
    append_all<float, BFloat16>();
  }
}

template <typename T, typename U>
void copy_all() {
  const GuardedHeads<T> x({batch, tokens, heads, 19});
  GuardedHeads<U> slot({batch, tokens, heads, 19}, 4);
  const GuardedHeads<U> before = slot;
  copy_append(x.view(), slot.view());
  EXPECT_TRUE(slot.intact(before));
  for (std::ptrdiff_t b = 0; b < batch; ++b)
    for (std::ptrdiff_t t = 0; t < tokens; ++t)
      for (std::ptrdiff_t h = 0; h < heads; ++h)
        for (std::ptrdiff_t d = 0; d < 19; ++d)
          ASSERT_EQ(slot.view()(b, t, h, d), static_cast<U>(as_double(x.view()(b, t, h, d))));
}

TEST(CopyAppend, CopiesAndRoundsOnceOnEveryIsa) {
  for (Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    copy_all<float, float>();
    copy_all<double, double>();
    copy_all<Half, Half>();
    copy_all<BFloat16, BFloat16>();
    copy_all<float, Half>();
    copy_all<float, BFloat16>();
  }
}

// Heads, tokens and whole tensors that are contiguous, and those that are not.
TEST(CopyAppend, HasTheSameBitsInEveryLayout) {
  constexpr std::ptrdiff_t size = 5, all = batch * tokens * heads * size;
  const std::array<std::ptrdiff_t, 4> shape{batch, tokens, heads, size};
  const std::array<std::array<std::ptrdiff_t, 4>, 4> layouts{
      {{tokens * heads * size, heads * size, size, 1},
       {tokens * (heads * size + 3), heads * size + 3, size, 1},
       {tokens * heads * (size + 2), heads * (size + 2), size + 2, 1},
       {heads * tokens * size, size, tokens * size, 1}}};
  const auto x = random_tensor<float, 4>(shape);
  for (const auto& from : layouts)
    for (const auto& to : layouts) {
      std::vector<float> source(2 * all, -1), target(2 * all, -1), expected(2 * all, -1);
      const View<float, 4> keys(source.data(), shape, from), slot(target.data(), shape, to),
          copied(expected.data(), shape, to);
      for (std::ptrdiff_t b = 0; b < batch; ++b)
        for (std::ptrdiff_t t = 0; t < tokens; ++t)
          for (std::ptrdiff_t h = 0; h < heads; ++h)
            for (std::ptrdiff_t d = 0; d < size; ++d)
              keys(b, t, h, d) = copied(b, t, h, d) = x.view()(b, t, h, d);
      copy_append(keys, slot);
      EXPECT_EQ(target, expected);
    }
}

// A thread begins within a batch, whose end is not followed by the next one.
TEST(CopyAppend, DividesTheTokensOfABatchAmongThreads) {
  const int before = threads();
  set_threads(3);
  constexpr std::ptrdiff_t many = 3000, row = 2 * 16, next = many * row + 7;
  std::vector<float> source(2 * next, -1), target(2 * next, -2), expected(2 * next, -2);
  for (std::ptrdiff_t b = 0; b < 2; ++b)
    for (std::ptrdiff_t i = b * next; i < b * next + many * row; ++i)
      source[std::size_t(i)] = expected[std::size_t(i)] = static_cast<float>(i);
  const std::array<std::ptrdiff_t, 4> shape{2, many, 2, 16}, strides{next, row, 16, 1};
  copy_append(View<float, 4>(source.data(), shape, strides),
              View<float, 4>(target.data(), shape, strides));
  EXPECT_TRUE(target == expected);
  set_threads(before);
}

template <typename U>
void shift_all() {
  for (const Case& one : cases())
    for (std::int64_t delta : {1, -1, 17, -4096, 1 << 20, -(1 << 20)}) {
      SCOPED_TRACE(std::to_string(one.frequencies.rotary_dim()) + " by " +
                   std::to_string(delta));
      RotaryFrequencies scaled = one.frequencies;
      scaled.table_scale = 7;  // already in the keys
      scaled.centre = 5;       // no effect without growth
      GuardedHeads<U> keys({batch, tokens, heads, one.size});
      const GuardedHeads<U> before = keys;
      shift_keys(keys.view(), scaled, delta);
      EXPECT_TRUE(keys.intact(before));
      const View<const U, 4> got = keys.view();
      expect_rotated<U, U>(
          scaled, before.view(), got, [&](std::int64_t, std::int64_t, std::size_t i) {
            return std::pair(delta * static_cast<long double>(scaled.inv_freq[i]), 1.0L);
          });
    }
}

TEST(ShiftKeys, RotatesByTheDifferenceOnEveryIsa) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    shift_all<float>();
    shift_all<double>();
    shift_all<Half>();
    shift_all<BFloat16>();
  }
}

TEST(ShiftKeys, GrowsByTheDifferenceAlone) {
  RotaryFrequencies s = lower(Rotary{.rotary_dim = 6, .pairing = Pairing::adjacent});
  s.growth = {-0.01, -0.002, 0.003};
  s.centre = 900;
  s.table_scale = 3;
  for (std::int64_t delta : {250, -250}) {
    GuardedHeads<float> keys({1, 4, 1, 7});
    const GuardedHeads<float> before = keys;
    shift_keys(keys.view(), s, delta);
    const View<const float, 4> got = keys.view();
    expect_rotated<float, float>(
        s, before.view(), got, [&](std::int64_t, std::int64_t, std::size_t i) {
          const auto d = static_cast<long double>(delta);
          return std::pair(d * s.inv_freq[i], std::exp(d * s.growth[i]));
        });
  }
}

TEST(ShiftKeys, MovesEachAxisByItsOwn) {
  const std::vector<std::int64_t> sections{4, 3, 3}, deltas{12, 0, -700};
  const RotaryFrequencies s = lower(MRope{.rotary_dim = 20,
                                          .pairing = Pairing::halves,
                                          .sections = sections,
                                          .order = MRopeOrder::sequential});
  GuardedHeads<float> keys({1, 4, 2, 24});
  const GuardedHeads<float> before = keys;
  shift_keys(keys.view(), s, deltas);
  const View<const float, 4> got = keys.view();
  expect_rotated<float, float>(
      s, before.view(), got, [&](std::int64_t, std::int64_t, std::size_t i) {
        return std::pair(
            static_cast<long double>(deltas[std::size_t(axis_of(s, i))]) * s.inv_freq[i], 1.0L);
      });
  // One delta for all axes is equal to three equal deltas.
  GuardedHeads<float> one = before, three = before;
  shift_keys(one.view(), s, 5);
  shift_keys(three.view(), s, std::vector<std::int64_t>{5, 5, 5});
  EXPECT_TRUE(same_bits(one.all.values, three.all.values));
}

// Compares keys rotated for p and moved by d (two roundings) with keys rotated for p + d (one).
TEST(ShiftKeys, GiveTheKeysOfTheNewPositions) {
  for (Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (std::int64_t delta : {3, -90, 1 << 20}) {
      RotaryFrequencies s = lower(Rotary{.rotary_dim = 64, .pairing = pairing});
      s.table_scale = 1.5;
      s.growth.assign(32, -1e-7);
      const auto k = random_tensor<float, 3>({100, 2, 64});
      auto moved = k, fresh = k;
      rotate(moved.view(), RotaryTable(s, testing::iota(1000, 100)));
      shift_keys(moved.view(), s, delta);
      rotate(fresh.view(), RotaryTable(s, testing::iota(1000 + delta, 100)));
      for (std::size_t i = 0; i < k.values.size(); ++i)
        ASSERT_NEAR(moved.values[i], fresh.values[i], 1e-5);
    }
}

template <typename U>
void expect_shifts_add_up(double least) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 32, .pairing = Pairing::halves});
  const auto before = random_tensor<U, 3>({8, 2, 32});
  const View<const U, 3> x = before.view();
  auto keys = before;
  double greatest = 0, allowed = 0;
  for (int n = 1; n <= 60; ++n) {
    shift_keys(keys.view(), s, -3);
    const double h = sizeof(U) == 2 ? half_ulp<U> : 0;
    const View<const U, 3> y = keys.view();
    for (std::ptrdiff_t t = 0; t < 8; ++t)
      for (std::ptrdiff_t g = 0; g < 2; ++g)
        for (std::ptrdiff_t i = 0; i < 16; ++i) {
          const double a = as_double(x(t, g, i)), b = as_double(x(t, g, i + 16));
          const double angle = -3.0 * n * s.inv_freq[std::size_t(i)];
          const double c = std::cos(angle), d = std::sin(angle);
          const double error = std::hypot(as_double(y(t, g, i)) - (a * c - b * d),
                                          as_double(y(t, g, i + 16)) - (a * d + b * c));
          allowed = (std::pow(1 + 0x1p-21 + h, n) - 1) * std::hypot(a, b) + n * least;
          ASSERT_LE(error, allowed) << n;
          greatest = std::max(greatest, error / allowed);
        }
  }
  EXPECT_GT(greatest, 0.01);  // the bound is not too loose
}

TEST(ShiftKeys, AddUpWithinTheBound) {
  expect_shifts_add_up<float>(0);
  expect_shifts_add_up<double>(0);
  expect_shifts_add_up<Half>(0x1p-24);
  expect_shifts_add_up<BFloat16>(0);
}

template <typename U>
void rerotate_all() {
  for (const Case& one : cases())
    for (bool grows : {false, true}) {
      SCOPED_TRACE(one.frequencies.rotary_dim());
      RotaryFrequencies from = one.frequencies, to = one.frequencies;
      from.table_scale = 1.25;
      to.table_scale = 0.75;
      for (std::size_t i = 0; i < to.inv_freq.size(); ++i)
        to.inv_freq[i] /= 1 + 0.37 * static_cast<double>(i);
      if (grows) {
        to.growth.assign(to.inv_freq.size(), -2e-6);
        from.growth.assign(to.inv_freq.size(), -1e-6);
        from.centre = 1000;
        to.centre = 70'000;
      }
      const std::vector<std::int64_t> ids{0, 70001, -3, 5, 1 << 20, -(1 << 20)};
      const Positions own = explicit_ids(View<const std::int64_t, 2>(ids.data(), {2, 3}));
      for (const Positions& positions : {consecutive(tokens, 131000), own}) {
        GuardedHeads<U> keys({batch, tokens, heads, one.size});
        const GuardedHeads<U> before = keys;
        rerotate_keys(keys.view(), from, to, positions);
        EXPECT_TRUE(keys.intact(before));
        const View<const U, 4> got = keys.view();
        expect_rotated<U, U>(
            to, before.view(), got, [&](std::int64_t b, std::int64_t t, std::size_t i) {
              const auto p = static_cast<long double>(
                  positions.row(positions.batch == 1 ? 0 : b)[std::size_t(t)]);
              long double m = 0.75L / 1.25L;
              if (grows) m *= std::exp(-2e-6L * (p - 70'000)) / std::exp(-1e-6L * (p - 1000));
              return std::pair(p * to.inv_freq[i] - p * from.inv_freq[i], m);
            });
      }
    }
}

TEST(RerotateKeys, RotatesByTheDifferenceOfSchedulesOnEveryIsa) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    rerotate_all<float>();
    rerotate_all<double>();
    rerotate_all<Half>();
    rerotate_all<BFloat16>();
  }
}

// The two scalings that depend on the length, at the length where their frequencies change,
// with more tokens than one chunk.
TEST(RerotateKeys, GiveTheKeysOfTheNewSchedule) {
  const Rotary rotary{.rotary_dim = 32, .pairing = Pairing::halves};
  LongRopeScaling longrope{.short_factors = std::vector<double>(16, 1.0),
                           .long_factors = {},
                           .original_length = 4096,
                           .factor = 32};
  for (int i = 0; i < 16; ++i) longrope.long_factors.push_back(1 + i * 3.7);
  longrope.attention_factor = 1.0;
  longrope.long_attention_factor = 1.19;
  const RopeScaling scalings[] = {DynamicNtkScaling{.factor = 2, .trained_length = 4096},
                                  longrope};
  for (const RopeScaling& scaling : scalings) {
    SCOPED_TRACE(name(scaling));
    const RotaryFrequencies from = lower(rotary, scaling, 4096),
                            to = lower(rotary, scaling, 5000);
    ASSERT_NE(from, to);
    const Positions positions = consecutive(1100, 3500);
    const auto k = random_tensor<float, 3>({1100, 1, 32});
    auto turned = k, fresh = k;
    rotate(turned.view(), RotaryTable(from, positions));
    rerotate_keys(turned.view(), from, to, positions);
    rotate(fresh.view(), RotaryTable(to, positions));
    for (std::size_t i = 0; i < k.values.size(); ++i)
      ASSERT_NEAR(turned.values[i], fresh.values[i], 1e-5);
  }
}

TEST(RerotateKeys, ReadsThePositionsOfEachAxis) {
  const std::vector<std::int64_t> sections{4, 3, 3};
  const RotaryFrequencies from = lower(MRope{.rotary_dim = 20,
                                             .pairing = Pairing::halves,
                                             .sections = sections,
                                             .order = MRopeOrder::interleaved});
  RotaryFrequencies to = from;
  for (double& f : to.inv_freq) f *= 0.25;
  const std::vector<Positions> axes{consecutive(5, 100), consecutive(5, 7000),
                                    consecutive(5, -33)};
  GuardedHeads<float> keys({2, 5, 2, 20});
  const GuardedHeads<float> before = keys;
  rerotate_keys(keys.view(), from, to, axes);
  const View<const float, 4> got = keys.view();
  expect_rotated<float, float>(
      to, before.view(), got, [&](std::int64_t, std::int64_t t, std::size_t i) {
        const auto p =
            static_cast<long double>(axes[std::size_t(axis_of(to, i))].ids[std::size_t(t)]);
        return std::pair(p * to.inv_freq[i] - p * from.inv_freq[i], 1.0L);
      });
}

TEST(CachedKeys, WhatChangesNothingLeavesEveryBit) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 8, .pairing = Pairing::halves});
  auto keys = random_tensor<Half, 3>({3, 1, 8});
  keys.values[3] = Half::from_bits(0x7d01);  // a signalling NaN
  keys.values[5] = Half::from_bits(0x8000);  // -0
  const auto before = keys;
  shift_keys(keys.view(), s, 0);
  rerotate_keys(keys.view(), s, s, consecutive(3, 4));
  EXPECT_TRUE(same_bits(keys.values, before.values));
}

TEST(CachedKeys, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  RotaryFrequencies s = lower(Rotary{.rotary_dim = 64, .pairing = Pairing::adjacent}), to = s;
  for (double& f : to.inv_freq) f *= 0.5;
  const auto k = random_tensor<float, 3>({700, 4, 64});
  const RotaryTable table(s, testing::iota(0, 700));
  const auto run = [&](int count) {
    set_threads(count);
    Tensor<BFloat16, 3> cache({700, 4, 64});
    rotate_append(k.view(), table, cache.view());
    shift_keys(cache.view(), s, -12);
    rerotate_keys(cache.view(), s, to, consecutive(700, 0));
    return cache.values;
  };
  const auto one = run(1);
  EXPECT_EQ(one, run(2));
  EXPECT_EQ(one, run(7));
  set_threads(before);
}

TEST(CachedKeys, EmptyInputsAreFine) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 4, .pairing = Pairing::halves});
  RotaryFrequencies to = s;
  to.inv_freq[1] = 0.5;
  Tensor<float, 3> none({0, 2, 4}), headless({3, 0, 4});
  EXPECT_EQ(message_of([&] {
              rotate_append(none.view(), RotaryTable(s, consecutive(0)), none.view());
              rotate_append(headless.view(), RotaryTable(s, consecutive(3)), headless.view());
              copy_append(none.view(), none.view());
              shift_keys(none.view(), s, 3);
              shift_keys(headless.view(), s, 3);
              rerotate_keys(none.view(), s, to, consecutive(0, 0));
              rerotate_keys(headless.view(), s, to, consecutive(3, 0));
            }),
            "");
}

}  // namespace cached_keys_test
}  // namespace gnomon
