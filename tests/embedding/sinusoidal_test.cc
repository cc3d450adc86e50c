#include "gnomon/embedding/sinusoidal.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "embedding/oracle.h"
#include "gnomon/parallel.h"

namespace gnomon {
namespace sinusoidal_test {

using testing::iota;
using testing::message_of;
using testing::Wave;
using testing::Wide;
using enum SinusoidalRecipe;

constexpr auto cosine_first = SinusoidalOrder::cosine_first;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Denominator of the exponent, n - shift, written from the formulas of the header.
struct Denominator {
  double n, shift;
};

Denominator denominator_of(const Sinusoidal& s) {
  const auto width = static_cast<double>(s.width);
  switch (s.recipe) {
    case tensor2tensor:
      return {std::floor(width / 2), 1};
    case timestep:
      return {std::floor(width / 2), s.shift};
    default:
      return {width / 2, 0};
  }
}

// The wave and the pair of channel c; an odd dim may have a `zero` channel.
enum class Kind { sine = 1, cosine, zero };
struct Channel {
  Kind kind;
  std::int64_t pair;
};

Channel channel_of(const Sinusoidal& s, std::int64_t c) {
  const std::int64_t n = s.width / 2, m = (s.width + 1) / 2;
  if (s.recipe == interleaved) return {c % 2 ? Kind::cosine : Kind::sine, c / 2};
  if (s.recipe == half_split)
    return c < m ? Channel{Kind::sine, c} : Channel{Kind::cosine, c - m};
  if (c == 2 * n) return {Kind::zero, 0};
  const bool flipped = s.recipe == timestep && s.order == cosine_first;
  return {(c < n) != flipped ? Kind::sine : Kind::cosine, c % n};
}

std::vector<Sinusoidal> specs() {
  std::vector<Sinusoidal> all;
  for (const double base : {10'000.0, 500.0, 1.5, 1e7})
    for (const std::int64_t width : {1, 2, 3, 4, 5, 7, 16, 37, 64}) {
      all.push_back({.width = width, .recipe = interleaved, .base = base});
      all.push_back({.width = width, .recipe = half_split, .base = base});
      if (width >= 4) {
        all.push_back({.width = width, .recipe = tensor2tensor, .base = base});
        all.push_back({.width = width, .recipe = timestep, .base = base});
      }
      if (width >= 2)
        all.push_back({.width = width,
                       .recipe = timestep,
                       .base = base,
                       .order = cosine_first,
                       .shift = width % 2 ? 0.25 : 0.0});
    }
  return all;
}

std::string told(const Sinusoidal& s, double position, std::int64_t c) {
  return "recipe " + std::to_string(static_cast<int>(s.recipe)) + ", base " +
         std::to_string(s.base) + ", width " + std::to_string(s.width) + ", position " +
         std::to_string(position) + ", channel " + std::to_string(c);
}

// Compares every entry of out with the wave of the frequency that `frequencies` returns.
template <typename T>
void expect_waves(const Sinusoidal& s, std::span<const double> positions,
                  View<const T, 2> out) {
  const std::vector<double> f = frequencies(s);
  for (std::int64_t t = 0; t < out.extent(0); ++t)
    for (std::int64_t pair = 0; pair < (s.width + 1) / 2; ++pair) {
      const double position = s.scale * positions[static_cast<std::size_t>(t)];
      Wave expected{0, 0};
      if (pair < std::ssize(f))
        expected = testing::wave(position, f[static_cast<std::size_t>(pair)]);
      for (std::int64_t c = 0; c < s.width; ++c) {
        const Channel channel = channel_of(s, c);
        const double got = testing::as_double(out(t, c));
        if (channel.kind == Kind::zero) {
          EXPECT_EQ(got, 0) << told(s, position, c);
        } else if (channel.pair == pair) {
          const long double value =
              channel.kind == Kind::sine ? expected.sine : expected.cosine;
          EXPECT_LE(std::fabs(got - value), testing::entry_bound<T>(value))
              << told(s, position, c);
        }
      }
    }
}

TEST(Sinusoidal, FrequenciesAreTheFormulasWithinOneUlp) {
  std::vector<Sinusoidal> all = specs();
  for (const std::int64_t width : {256, 1024, 1280, 4096})
    for (const auto recipe : {interleaved, half_split, tensor2tensor, timestep})
      all.push_back({.width = width, .recipe = recipe});
  for (const Sinusoidal& s : all) {
    const std::vector<double> f = frequencies(s);
    const bool padded = s.recipe == tensor2tensor || s.recipe == timestep;
    ASSERT_EQ(std::ssize(f), padded ? s.width / 2 : (s.width + 1) / 2);
    const auto [n, shift] = denominator_of(s);
    for (std::size_t i = 0; i < f.size(); ++i) {
      Wide expected;
      testing::set_frequency(expected, s.base, static_cast<double>(i), n, shift);
      const long double exact = expected.rounded();
      EXPECT_LE(std::fabs(f[i] - exact), 0x1p-52L * exact) << told(s, 0, 0) << " pair " << i;
    }
    EXPECT_EQ(f[0], 1.0);
  }
  EXPECT_EQ(frequencies({.width = 8, .recipe = tensor2tensor})[3], 1e-4);
  EXPECT_EQ(frequencies({.width = 8, .recipe = interleaved})[2], 1e-2);
}

template <typename T>
class SinusoidalOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(SinusoidalOf, Types);

TYPED_TEST(SinusoidalOf, EveryRecipeIsWithinHalfAnUlp) {
  using T = TypeParam;
  // A long run, then irregular positions; those beyond 2^17 have few nonzero bits.
  std::vector<std::int64_t> positions = iota(-3, 9);
  for (const std::int64_t stray : {63, 64, 65, 511, 131'071, 131'072, 1 << 20, -1 << 27})
    positions.push_back(stray);
  positions.push_back(std::int64_t{1} << 31);
  const std::vector<double> as_doubles(positions.begin(), positions.end());
  for (const Sinusoidal& s : specs()) {
    testing::Tensor<T, 2> out({std::ssize(positions), s.width});
    fill(s, std::span<const std::int64_t>(positions), out.view());
    expect_waves<T>(s, as_doubles, std::as_const(out).view());
  }
}

TYPED_TEST(SinusoidalOf, LongRunsDoNotDrift) {
  using T = TypeParam;
  const Sinusoidal s{.width = 12, .recipe = interleaved, .base = 100};
  const std::vector<std::int64_t> positions = iota(100'000, 1500);
  testing::Tensor<T, 2> out({1500, s.width});
  fill(s, std::span<const std::int64_t>(positions), out.view());
  expect_waves<T>(s, std::vector<double>(positions.begin(), positions.end()),
                  std::as_const(out).view());
}

TYPED_TEST(SinusoidalOf, ContinuousAndScaledPositions) {
  using T = TypeParam;
  const std::vector<double> positions{0, 0.1, -0.75, 1e-3, 3.25, 999.9, 131'071.5, 0x1p31};
  for (Sinusoidal s : specs())
    for (const double scale : {1.0, 0.3}) {
      s.scale = scale;
      testing::Tensor<T, 2> out({std::ssize(positions), s.width});
      const auto some = std::span(positions).first(scale == 1 ? 8 : 7);
      fill(s, some, out.view().slice(0, 0, std::ssize(some)));
      expect_waves<T>(s, some, std::as_const(out).view().slice(0, 0, std::ssize(some)));
    }
  // Score-based models: t in [0, 1] and a scale of 1000; for integers likewise.
  const std::vector<std::int64_t> integers{0, 1, 7};
  for (const double scale : {1000.0, 0.3}) {  // 0.3 is not representable as a float
    const Sinusoidal s{.width = 9, .recipe = timestep, .scale = scale};
    testing::Tensor<T, 2> out({3, s.width});
    fill(s, std::span<const std::int64_t>(integers), out.view());
    expect_waves<T>(s, std::vector<double>(integers.begin(), integers.end()),
                    std::as_const(out).view());
  }
}

TYPED_TEST(SinusoidalOf, StridesChangeNoBitAndTouchNothingElse) {
  using T = TypeParam;
  const std::vector<std::int64_t> positions = iota(5, 6);
  const std::span<const std::int64_t> all(positions);
  for (const Sinusoidal& s : specs()) {
    testing::Tensor<T, 2> plain({6, s.width});
    fill(s, all, plain.view());
    const std::ptrdiff_t width = 3 * s.width + 2;
    testing::Tensor<T, 2> wide({12, width}, T(nan));
    // Every second row from the last on upwards, every third column from the second on.
    const View<T, 2> view(&wide.view()(10, 1), {6, s.width}, {-2 * width, 3});
    fill(s, all, view);
    std::size_t written = 0;
    for (const T& value : wide.values) written += !std::isnan(testing::as_double(value));
    EXPECT_EQ(written, plain.values.size());
    for (std::int64_t t = 0; t < 6; ++t)
      for (std::int64_t c = 0; c < s.width; ++c)
        EXPECT_EQ(view(t, c), plain.view()(t, c)) << told(s, 0, c);
  }
}

// The formula with exact frequencies. The rounding of frequencies to double changes an entry by
// at most position x frequency x 2^-52.
TEST(Sinusoidal, TheRoundingOfFrequenciesCostsLittle) {
  const Sinusoidal s{.width = 64, .recipe = interleaved};
  const std::vector<std::int64_t> positions{1, 255, 4095, 131'071, 1 << 20};
  testing::Tensor<double, 2> out({5, s.width});
  fill(s, std::span<const std::int64_t>(positions), out.view());
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::int64_t pair = 0; pair < 32; ++pair) {
      const auto position = static_cast<double>(positions[t]);
      const Wave wave = testing::true_wave(position, s.base, static_cast<double>(pair), 32);
      const double bound =
          0x1p-45 + 0x1p-52 * position * frequencies(s)[static_cast<std::size_t>(pair)];
      EXPECT_NEAR(out.view()(t, 2 * pair), static_cast<double>(wave.sine), bound);
      EXPECT_NEAR(out.view()(t, 2 * pair + 1), static_cast<double>(wave.cosine), bound);
    }
}

TEST(Sinusoidal, TheTableIsWhatFillFills) {
  const std::vector<std::int64_t> positions{4, 0, 99};
  for (const Sinusoidal& s : specs()) {
    const EmbeddingTable table = lower(s, positions);
    testing::Tensor<float, 2> out({3, s.width});
    fill(s, std::span<const std::int64_t>(positions), out.view());
    EXPECT_EQ(table, (EmbeddingTable{3, s.width, out.values}));
  }
}

TEST(Sinusoidal, NoPositionsGiveNoRows) {
  const Sinusoidal s{.width = 5, .recipe = half_split};
  EXPECT_EQ(lower(s, {}), (EmbeddingTable{0, 5, {}}));
  EXPECT_EQ(
      message_of([&] { fill(s, std::span<const double>(), View<double, 2>(nullptr, {0, 5})); }),
      "");
}

TEST(Sinusoidal, ThreadsChangeNoBit) {
  const Sinusoidal s{.width = 130, .recipe = tensor2tensor};
  const std::vector<std::int64_t> positions = iota(0, 700);
  const int before = threads();
  set_threads(1);
  const EmbeddingTable one = lower(s, positions);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(lower(s, positions), one) << count;
  }
  set_threads(before);
}

TEST(Sinusoidal, RefusesWhatBreaksItsBounds) {
  const auto said = [](const Sinusoidal& s) { return message_of([&] { frequencies(s); }); };
  EXPECT_EQ(said({.width = 4}),
            "[sinusoidal] recipe must be interleaved, half_split, tensor2tensor or timestep, "
            "got 0");
  EXPECT_EQ(said({.width = 0, .recipe = interleaved}),
            "[sinusoidal] width must be at least 1, got 0");
  EXPECT_EQ(said({.width = -2, .recipe = half_split}),
            "[sinusoidal] width must be at least 1, got -2");
  EXPECT_EQ(said({.width = 3, .recipe = tensor2tensor}),
            "[sinusoidal] width must be at least 4, got 3");
  EXPECT_EQ(said({.width = 1, .recipe = timestep}),
            "[sinusoidal] width must be at least 2, got 1");
  EXPECT_EQ(said({.width = 4, .recipe = interleaved, .base = 1}),
            "[sinusoidal] base must be greater than 1 and finite, got 1");
  EXPECT_EQ(said({.width = 4, .recipe = interleaved, .base = HUGE_VAL}),
            "[sinusoidal] base must be greater than 1 and finite, got inf");
  EXPECT_EQ(said({.width = 4, .recipe = interleaved, .base = nan}),
            "[sinusoidal] base must be greater than 1 and finite, got nan");
  EXPECT_EQ(said({.width = 4, .recipe = interleaved, .scale = nan}),
            "[sinusoidal] scale must be finite, got nan");
  EXPECT_EQ(said({.width = 4, .recipe = timestep, .order = SinusoidalOrder{}}),
            "[sinusoidal] order must be sine_first or cosine_first, got 0");
  EXPECT_EQ(said({.width = 5, .recipe = timestep, .shift = 2}),
            "[sinusoidal] shift must be less than 2 and finite, got 2");
  EXPECT_EQ(said({.width = 5, .recipe = timestep, .shift = -HUGE_VAL}),
            "[sinusoidal] shift must be less than 2 and finite, got -inf");
  testing::Tensor<float, 2> out({3, 4});
  const std::vector<std::int64_t> positions{1, 2};
  EXPECT_EQ(message_of([&] {
              fill({.width = 4, .recipe = interleaved},
                   std::span<const std::int64_t>(positions), out.view());
            }),
            "[sinusoidal] out must be [T, C] = [2, 4], got [3, 4]");
}

TEST(Sinusoidal, AnOffsetMovesPositions) {
  const Sinusoidal plain{.width = 8, .recipe = SinusoidalRecipe::tensor2tensor};
  Sinusoidal moved = plain;
  moved.offset = 2;
  const std::int64_t from[] = {0, 1, 7}, to[] = {2, 3, 9};
  EXPECT_EQ(lower(moved, from), lower(plain, to));
}

}  // namespace sinusoidal_test
}  // namespace gnomon
