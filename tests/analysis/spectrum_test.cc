#include "gnomon/analysis/spectrum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "testing.h"

namespace gnomon::analysis {
namespace spectrum_test {

using ::testing::ElementsAre;
using testing::message_of;

TEST(Wavelengths, ArePositionsPerTurn) {
  EXPECT_THAT(wavelengths(std::vector<double>{M_PI, 0.0}),
              ElementsAre(2.0, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(turns(std::vector<double>{M_PI, 0.0}, 10), ElementsAre(5.0, 0.0));
  EXPECT_THAT(unfinished(std::vector<double>{1, 0.1, 0.01}, 100), ElementsAre(2));
  EXPECT_EQ(message_of([] { turns(std::vector<double>{1}, -1); }),
            "[spectrum] length must not be negative, got -1");
}

// The definition of the power spectrum, in long double.
std::vector<long double> slow_spectrum(const std::vector<double>& signal) {
  const std::size_t n = signal.size();
  std::vector<long double> power;
  for (std::size_t k = 0; k <= n / 2; ++k) {
    long double real = 0, imaginary = 0;
    for (std::size_t t = 0; t < n; ++t) {
      const long double angle = 2 * 3.141592653589793238462643L *
                                static_cast<long double>(k * t % n) /
                                static_cast<long double>(n);
      real += signal[t] * std::cos(angle);
      imaginary -= signal[t] * std::sin(angle);
    }
    const int both = k == 0 || 2 * k == n ? 1 : 2;
    power.push_back(both * (real * real + imaginary * imaginary) /
                    (static_cast<long double>(n) * static_cast<long double>(n)));
  }
  return power;
}

TEST(PowerSpectrum, IsTheDefinitionForEveryLength) {
  for (std::size_t n : {1u, 2u, 3u, 4u, 6u, 7u, 12u, 30u, 64u, 97u, 100u, 121u, 128u, 210u}) {
    const std::vector<double> signal = testing::random_numbers(n, unsigned(n));
    const auto got = power_spectrum(signal);
    const auto expected = slow_spectrum(signal);
    ASSERT_EQ(got.size(), expected.size());
    const double square_mean =
        std::inner_product(signal.begin(), signal.end(), signal.begin(), 0.0) / double(n);
    for (std::size_t k = 0; k < got.size(); ++k)
      EXPECT_NEAR(got[k], static_cast<double>(expected[k]), 0x1p-46 * square_mean) << n;
    // Parseval.
    EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), square_mean,
                0x1p-46 * square_mean);
  }
}

// The error of a plain sum grows with many equal terms. 10007 is prime, so it is one sum of
// 10007 terms.
TEST(PowerSpectrum, KeepsItsErrorForConstantsOfAnyLength) {
  const auto factors = [](std::size_t n) {
    int count = 0;
    for (std::size_t p = 2; n > 1; ++p)
      for (; n % p == 0; n /= p) ++count;
    return count;
  };
  for (std::size_t n : {1u, 101u, 1009u, 2048u, 3000u, 10007u}) {
    const auto power = power_spectrum(std::vector<double>(n, 0.1));
    const long double sum = 0.1 * static_cast<long double>(0.1);
    const auto bound = static_cast<double>(sum) * 0x1p-49 * (1 + factors(n));
    EXPECT_NEAR(power[0], static_cast<double>(sum), bound) << n;
    for (std::size_t k = 1; k < power.size(); ++k) ASSERT_LE(power[k], bound) << n << " " << k;
  }
}

TEST(PowerSpectrum, APureCosineIsOneBin) {
  std::vector<double> signal;
  for (int t = 0; t < 40; ++t) signal.push_back(3 * std::cos(2 * M_PI * 5 * t / 40 + 0.3));
  const auto power = power_spectrum(signal);
  for (std::size_t k = 0; k < power.size(); ++k) EXPECT_NEAR(power[k], k == 5 ? 4.5 : 0, 1e-14);
}

TEST(PowerSpectrum, OfATableGoesByChannel) {
  const auto table = testing::random_tensor<float, 2>({10, 3});
  testing::Tensor<double, 2> out({6, 3}), wrong({5, 3});
  power_spectrum(View<const float, 2>(table.view()), out.view());
  std::vector<double> channel;
  for (int t = 0; t < 10; ++t) channel.push_back(table.view()(t, 2));
  const auto expected = power_spectrum(channel);
  for (int k = 0; k < 6; ++k) EXPECT_EQ(out.view()(k, 2), expected[std::size_t(k)]);
  EXPECT_EQ(
      message_of([&] { power_spectrum(View<const float, 2>(table.view()), wrong.view()); }),
      "[spectrum] out must be [6, 3], got [5, 3]");
  EXPECT_EQ(message_of([] { power_spectrum(std::vector<double>()); }),
            "[spectrum] the signal must have at least one sample, got 0");
}

}  // namespace spectrum_test
}  // namespace gnomon::analysis
