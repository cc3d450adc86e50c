#include "gnomon/bias/sandwich.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace sandwich_test {

using testing::message_of;

// The inner product of the sinusoidal embeddings of positions m and n.
long double product(long double m, long double n, int dim, long double base) {
  long double sum = 0;
  for (int i = 1; i <= dim / 2; ++i) {
    const long double wavelength =
        std::pow(base, 2 * static_cast<long double>(i) / static_cast<long double>(dim));
    sum += std::sin(m / wavelength) * std::sin(n / wavelength) +
           std::cos(m / wavelength) * std::cos(n / wavelength);
  }
  return sum;
}

TEST(Sandwich, IsTheProductOfSinusoidalEmbeddings) {
  for (const int dim : {2, 10, 128})
    for (const long double base : {10'000.0L, 500.0L}) {
      const Sandwich sandwich{.heads = 3, .width = dim, .base = static_cast<double>(base)};
      constexpr int first = -700, count = 900;
      const StripBias form = lower(sandwich, first, count);
      ASSERT_EQ(std::ssize(form.values), 3 * count);
      for (int h = 0; h < 3; ++h)
        for (int n = 0; n < count; n += 7) {
          const long double query = 1000, key = query + first + n;
          const long double expected =
              (product(query, key, dim, base) - static_cast<long double>(dim) / 2) /
              (8.0L * (h + 1) / 3);
          ASSERT_NEAR(form.values[static_cast<std::size_t>(h * count + n)],
                      static_cast<double>(expected), 0x1p-52 * 701 * dim)
              << h << " " << first + n;
        }
    }
}

// Eight heads have the ratios 1 to 8, as in the paper.
TEST(Sandwich, RatiosRunToEight) {
  EXPECT_EQ(compression_ratios({.heads = 8}), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(compression_ratios({.heads = 4}), (std::vector<double>{2, 4, 6, 8}));
}

// Decreases about logarithmically: each octave of distances lowers the mean by the number of
// cosines whose wavelengths are within one octave.
TEST(Sandwich, FallsAsALogarithm) {
  const StripBias form = lower(Sandwich{.heads = 1}, 0, 4097);
  const auto octave = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t d = from; d < 2 * from; ++d) sum += form.values[d] * 8;
    return sum / static_cast<double>(from);
  };
  EXPECT_EQ(form.values[0], 0);
  const double each = 64 * std::log(2.0) / std::log(1e4);
  for (const std::size_t d : {8u, 32u, 128u, 512u, 1024u})
    EXPECT_NEAR(octave(2 * d) - octave(d), -each, 0.1 * each) << d;
}

TEST(Sandwich, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  set_threads(1);
  const StripBias one = lower(Sandwich{.heads = 2}, -300, 601);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(lower(Sandwich{.heads = 2}, -300, 601), one);
  }
  set_threads(before);
  for (std::size_t n = 0; n < 300; ++n) EXPECT_EQ(one.values[n], one.values[600 - n]);
}

TEST(Sandwich, RefusesWhatBreaksItsBounds) {
  const auto says = [](Sandwich spec, std::int64_t first = 0, std::int64_t count = 1) {
    return message_of([&] { lower(spec, first, count); });
  };
  EXPECT_EQ(says({}), "[sandwich] heads must be at least 1, got 0");
  EXPECT_EQ(says({.heads = 1, .width = 7}),
            "[sandwich] width must be positive and even, got 7");
  EXPECT_EQ(says({.heads = 1, .base = 1}),
            "[sandwich] base must be greater than 1 and finite, got 1");
  EXPECT_THROW(lower(Sandwich{.heads = std::int64_t{1} << 61}, 0, 1), std::exception);
  EXPECT_THROW(lower(Sandwich{.heads = 1, .width = std::int64_t{1} << 62}, 0, 1),
               std::exception);
  EXPECT_EQ(says({.heads = 1}, 0, -2),
            "[sandwich] count of distances must not be negative, got -2");
  EXPECT_EQ(says({.heads = 1}, INT64_MIN, 3),
            "[sandwich] distances must be at most 2^53 in magnitude, got -9223372036854775808");
}

}  // namespace sandwich_test
}  // namespace gnomon
