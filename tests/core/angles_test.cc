#include "gnomon/angles.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "src/core/angles.h"
#include "testing.h"

namespace gnomon {
namespace angles_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::Tensor;

// cos and sin of position x frequency in 256 bits, rounded to double.
std::pair<double, double> oracle(double position, double frequency) {
  mpfr_t angle, cosine, sine;
  mpfr_inits2(256, angle, cosine, sine, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_d(angle, position, MPFR_RNDN);
  mpfr_mul_d(angle, angle, frequency, MPFR_RNDN);
  mpfr_sin_cos(sine, cosine, angle, MPFR_RNDN);
  const std::pair<double, double> both{mpfr_get_d(cosine, MPFR_RNDN),
                                       mpfr_get_d(sine, MPFR_RNDN)};
  mpfr_clears(angle, cosine, sine, static_cast<mpfr_ptr>(nullptr));
  return both;
}

std::vector<double> geometric(double base, int count) {
  std::vector<double> frequencies;
  for (int i = 0; i < count; ++i) frequencies.push_back(std::pow(base, -double(i) / count));
  return frequencies;
}

template <typename P, typename T>
void expect_within_bound(const std::vector<P>& positions,
                         const std::vector<double>& frequencies, double scale = 1) {
  const auto tokens = static_cast<std::ptrdiff_t>(positions.size());
  const auto count = static_cast<std::ptrdiff_t>(frequencies.size());
  Tensor<T, 2> cosines({tokens, count}), sines({tokens, count});
  fill_cos_sin(std::span<const P>(positions), std::span<const double>(frequencies),
               cosines.view(), sines.view(), Angles::exact, scale);
  for (std::ptrdiff_t t = 0; t < tokens; ++t)
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const auto [cosine, sine] =
          oracle(static_cast<double>(positions[std::size_t(t)]), frequencies[std::size_t(i)]);
      for (const auto& [got, expected] :
           {std::pair{as_double(cosines.view()(t, i)), scale * cosine},
            std::pair{as_double(sines.view()(t, i)), scale * sine}}) {
        // Half an ulp of the type. Ulps are constant below its normal numbers.
        const double smallest = std::is_same_v<T, Half> ? 0x1p-25 : 0.0;
        const double bound =
            std::fmax(half_ulp<T> * std::fabs(expected), smallest) + scale * 0x1p-46;
        ASSERT_LE(std::fabs(got - expected), bound)
            << "position " << positions[std::size_t(t)] << " frequency "
            << frequencies[std::size_t(i)];
      }
    }
}

template <typename Run>
void on_every_isa(Run run) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    run();
  }
}

TEST(Angles, RunsOfPositionsMeetTheBound) {
  on_every_isa([] {
    for (std::int64_t first : {std::int64_t{0}, std::int64_t{-70}, std::int64_t{131000},
                               (std::int64_t{1} << 31) - 150}) {
      expect_within_bound<std::int64_t, float>(testing::iota(first, 150), geometric(1e4, 13));
      expect_within_bound<std::int64_t, double>(testing::iota(first, 150), geometric(5e5, 7));
    }
  });
}

TEST(Angles, EveryElementTypeIsRoundedOnce) {
  on_every_isa([] {
    const auto positions = testing::iota(4000, 70);
    expect_within_bound<std::int64_t, Half>(positions, geometric(1e4, 9));
    expect_within_bound<std::int64_t, BFloat16>(positions, geometric(1e4, 9));
    expect_within_bound<std::int64_t, float>(positions, geometric(1e4, 9), 1.2761);
  });
}

TEST(Angles, ScatteredPositionsMeetTheBoundToTheEdgesOfTheRange) {
  std::vector<std::int64_t> positions{0, 1, -1, 63, 64, -64, -65, 1 << 20};
  for (int bit = 21; bit <= 31; ++bit)
    for (std::int64_t more : {-1, 0, 1})
      if (bit < 31 || more <= 0) {
        positions.push_back((std::int64_t{1} << bit) + more);
        positions.push_back(-(std::int64_t{1} << bit) - more);
      }
  on_every_isa([&] {
    expect_within_bound<std::int64_t, double>(positions, geometric(1e6, 11));
    expect_within_bound<std::int64_t, double>(positions, {0.0, -1.0, M_PI, 1e-12, 1000.5});
  });
}

TEST(Angles, ContinuousPositionsMeetTheBound) {
  std::vector<double> positions{0, 0.5, -0.25, 1e-30, 1e9 + 0.1, -0x1p31, 0x1p31};
  for (double number : testing::random_numbers(40)) positions.push_back(number * 1e5);
  on_every_isa([&] {
    expect_within_bound<double, double>(positions, geometric(1e4, 9));
    expect_within_bound<double, float>(positions, geometric(1e4, 9));
    expect_within_bound<double, double>({1.0, -3.75}, {0x1p20, -0x1p20 + 0.3});
  });
}

// A KV cache requires that a position has the same bits alone, in a run, and in any run.
TEST(Angles, AnEntryDependsOnItsPositionAlone) {
  const auto frequencies = geometric(1e4, 21);
  const auto table_of = [&](const std::vector<std::int64_t>& positions) {
    Tensor<double, 2> cosines({static_cast<std::ptrdiff_t>(positions.size()), 21}),
        sines = cosines;
    fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
                 cosines.view(), sines.view());
    return cosines.values;
  };
  const auto run = table_of(testing::iota(100, 200));
  const auto later = table_of(testing::iota(173, 50));
  EXPECT_TRUE(std::equal(later.begin(), later.end(), run.begin() + 73 * 21));
  const auto alone = table_of({173});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), later.begin()));
}

TEST(Angles, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const auto positions = testing::iota(5, 1000);
  const auto frequencies = geometric(1e4, 5);
  Tensor<float, 2> one({1000, 5}), many({1000, 5}), sines({1000, 5});
  set_threads(1);
  fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
               one.view(), sines.view());
  for (int count : {2, 7}) {
    set_threads(count);
    fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
                 many.view(), sines.view());
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

// Decoding without a table gives the same bits, for all output strides.
TEST(Angles, PairsOfOneTokenHaveTheBitsOfTheTable) {
  const std::vector<std::int64_t> positions{70'000, -131, 5, 64, (std::int64_t{1} << 31)};
  on_every_isa([&] {
    for (const std::int64_t count : {0, 1, 2, 3, 7, 8, 9, 16, 17, 64, 67}) {
      const auto frequencies = geometric(1e4, static_cast<int>(count));
      Tensor<float, 2> cosines({5, count}), sines({5, count});
      fill_cos_sin(std::span<const std::int64_t>(positions),
                   std::span<const double>(frequencies), cosines.view(), sines.view(),
                   Angles::exact, 1.25);
      const auto size = static_cast<std::size_t>(count);
      for (const std::size_t t : {0, 1, 2, 3, 4}) {
        std::vector<float> cosine(size + 2, 9.0f), sine(size + 2, 9.0f);
        internal::pair_angles()(&positions[t], 0, frequencies.data(), count, 1.25,
                                cosine.data() + 1, sine.data() + 1);
        for (const auto& [got, table] : {std::pair{&cosine, &cosines}, {&sine, &sines}}) {
          EXPECT_TRUE(
              std::equal(got->begin() + 1, got->end() - 1, table->values.data() + t * size));
          EXPECT_EQ(got->front(), 9.0f);
          EXPECT_EQ(got->back(), 9.0f);
        }
      }
      // Every second number of a list, one for each pair, as for the axes of M-RoPE.
      std::vector<std::int64_t> of_pairs;
      for (std::size_t i = 0; i < 2 * size; ++i) of_pairs.push_back(positions[i / 2 % 5]);
      std::vector<float> cosine(size), sine(size);
      internal::pair_angles()(of_pairs.data(), 2, frequencies.data(), count, 1.25,
                              cosine.data(), sine.data());
      for (std::size_t i = 0; i < size; ++i) {
        EXPECT_EQ(cosine[i], cosines.values[i % 5 * size + i]);
        EXPECT_EQ(sine[i], sines.values[i % 5 * size + i]);
      }
    }
  });
}

TEST(Angles, StridedViewsLeaveTheRestAlone) {
  const auto positions = testing::iota(1, 20);
  const std::vector<double> frequencies{1, 0.5, 0.25};
  Tensor<float, 2> both({20, 7}, 9.0f);
  fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
               View<float, 2>(both.values.data() + 1, {20, 3}, {7, 2}),
               View<float, 2>(both.values.data(), {20, 3}, {7, 2}));
  for (int t = 0; t < 20; ++t) {
    EXPECT_NEAR(both.view()(t, 3), std::cos((t + 1) * 0.5), 0x1p-24);
    EXPECT_NEAR(both.view()(t, 4), std::sin((t + 1) * 0.25), 0x1p-24);
    EXPECT_EQ(both.view()(t, 6), 9.0f);
  }
}

TEST(Angles, Float32FollowsTheUsualCode) {
  const std::vector<std::int64_t> positions{3, 131071};
  const std::vector<double> frequencies{std::pow(10000.0, -0.1)};
  Tensor<float, 2> cosines({2, 1}), sines({2, 1});
  fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
               cosines.view(), sines.view(), Angles::float32);
  const float angle = 131071.0f * static_cast<float>(frequencies[0]);
  EXPECT_NEAR(cosines.view()(1, 0), std::cos(double{angle}), 0x1p-23);
  EXPECT_GT(std::fabs(cosines.view()(1, 0) - oracle(131071, frequencies[0]).first), 1e-4);
}

TEST(Angles, EmptyInputsAreFine) {
  const std::vector<std::int64_t> none, one{1};
  const std::vector<double> no_frequency, frequency{1};
  Tensor<float, 2> empty({0, 1}), narrow({1, 0});
  EXPECT_EQ(message_of([&] {
              fill_cos_sin(std::span<const std::int64_t>(none),
                           std::span<const double>(frequency), empty.view(), empty.view());
              fill_cos_sin(std::span<const std::int64_t>(one),
                           std::span<const double>(no_frequency), narrow.view(), narrow.view());
            }),
            "");
}

TEST(Angles, RefusesWhatIsOutOfRange) {
  Tensor<float, 2> out({1, 1}), wide({1, 2});
  const auto message = [&](std::int64_t position, double frequency, View<float, 2> view,
                           Angles angles = Angles::exact, double scale = 1) {
    return message_of([&] {
      fill_cos_sin(std::span<const std::int64_t>(&position, 1),
                   std::span<const double>(&frequency, 1), view, view, angles, scale);
    });
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message((std::int64_t{1} << 31) + 1, 1, out.view()),
            "[angles] positions must be finite, at most 2^31 in magnitude, got 2147483649");
  EXPECT_EQ(message(1, inf, out.view()),
            "[angles] frequencies must be finite, at most 2^20 in magnitude, got inf");
  EXPECT_EQ(message(1, 1, wide.view()), "[angles] cosines must be [T, N] = [1, 1], got [1, 2]");
  EXPECT_EQ(message(1, 1, out.view(), Angles{}),
            "[angles] angles must be exact or float32, got 0");
  EXPECT_EQ(message(1, 1, out.view(), Angles::exact, inf),
            "[angles] scale must be finite, got inf");
}

}  // namespace angles_test
}  // namespace gnomon
