#include "gnomon/embedding/fourier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "embedding/oracle.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"

namespace gnomon {
namespace fourier_test {

using testing::as_double;
using ::testing::ElementsAre;
using testing::message_of;
using testing::Tensor;
using testing::Wide;

// sin and cos of `unit` sum_a p_a f_a, in 256 bits; unit 0: pi.
testing::Wave true_waves(std::span<const double> at, std::span<const double> f, double unit) {
  Wide sum, product, sine, cosine;
  for (std::size_t a = 0; a < at.size(); ++a) {
    mpfr_set_d(product.number, at[a], MPFR_RNDN);
    mpfr_mul_d(product.number, product.number, f[a], MPFR_RNDN);
    mpfr_add(sum.number, sum.number, product.number, MPFR_RNDN);
  }
  if (unit == 0)
    mpfr_const_pi(product.number, MPFR_RNDN);
  else
    mpfr_set_d(product.number, unit, MPFR_RNDN);
  mpfr_mul(sum.number, sum.number, product.number, MPFR_RNDN);
  mpfr_sin_cos(sine.number, cosine.number, sum.number, MPFR_RNDN);
  return {sine.rounded(), cosine.rounded()};
}

// Features of the released implementations: lists of columns, concatenated.
std::vector<long double> perceiver_row(std::span<const double> p,
                                       std::span<const double> resolution, int bands) {
  std::vector<long double> row(p.begin(), p.end()), cosines;
  for (std::size_t a = 0; a < p.size(); ++a)
    for (int i = 0; i < bands; ++i) {  // linspace(1, resolution / 2, bands)
      const double f =
          bands == 1 ? 1.0
                     : static_cast<double>(1 + (resolution[a] / 2.0L - 1) * i / (bands - 1));
      const auto wave = true_waves(p.subspan(a, 1), std::span(&f, 1), 0);
      row.push_back(wave.sine);
      cosines.push_back(wave.cosine);
    }
  row.insert(row.end(), cosines.begin(), cosines.end());
  return row;
}

std::vector<long double> nerf_row(std::span<const double> p, int octaves, double unit) {
  std::vector<long double> row(p.begin(), p.end());
  for (int k = 0; k < octaves; ++k) {
    const double f = std::pow(2.0, k);
    for (const bool cosine : {false, true})
      for (std::size_t a = 0; a < p.size(); ++a) {
        const auto wave = true_waves(p.subspan(a, 1), std::span(&f, 1), unit);
        row.push_back(cosine ? wave.cosine : wave.sine);
      }
  }
  return row;
}

template <typename T>
void expect_row(View<T, 2> out, std::int64_t t, std::span<const long double> row) {
  ASSERT_EQ(out.extent(1), static_cast<std::int64_t>(row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    const long double bound = testing::entry_bound<T>(row[i]) - 0x1p-46L + 0x1p-50L;
    EXPECT_LE(std::fabs(as_double(out(t, static_cast<std::int64_t>(i))) - row[i]), bound)
        << "point " << t << " feature " << i;
  }
}

const double points[] = {-1, -0.337, 0.1, 0, 1, 1.0 / 3, 123456.789, -0.75, 2e9};

template <typename T>
class FourierOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(FourierOf, Types);

TYPED_TEST(FourierOf, PerceiverIsItsCode) {
  for (const std::size_t axes : {1u, 2u, 3u})
    for (const int bands : {1, 2, 64}) {
      const double all[] = {224, 16, 56.5};
      const std::span resolution(all, axes);
      const Fourier fourier = fourier_perceiver(resolution, bands);
      EXPECT_EQ(features(fourier), static_cast<std::int64_t>(axes) * (1 + 2 * bands));
      const auto rows = static_cast<std::int64_t>(std::size(points) / axes) - 1;  // without 2e9
      const auto columns = static_cast<std::int64_t>(axes);
      Tensor<TypeParam, 2> out({rows, features(fourier)});
      fill(fourier, View<const double, 2>(points, {rows, columns}), out.view());
      for (std::int64_t t = 0; t < rows; ++t) {
        if constexpr (std::is_same_v<TypeParam, Half>)
          if (axes == 1 && t == 6) continue;  // 123456.789 overflows Half
        const std::span at(points + t * columns, axes);
        expect_row(out.view(), t, perceiver_row(at, resolution, bands));
      }
    }
}

TYPED_TEST(FourierOf, NerfIsItsCodeAndItsPaper) {
  for (const std::size_t axes : {1u, 3u})
    for (const auto unit : {FourierUnit::radian, FourierUnit::half_turn})
      for (const auto input : {FourierInput::first, FourierInput::left_out}) {
        Fourier fourier = fourier_nerf(static_cast<std::int64_t>(axes), 10);
        fourier.unit = unit, fourier.input = input;
        Tensor<TypeParam, 2> out({2, features(fourier)});
        const auto columns = static_cast<std::int64_t>(axes);
        fill(fourier, View<const double, 2>(points, {2, columns}), out.view());
        for (std::int64_t t = 0; t < 2; ++t) {
          auto row = nerf_row(std::span(points + t * columns, axes), 10,
                              unit == FourierUnit::radian ? 1.0 : 0.0);
          if (input == FourierInput::left_out)
            row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(axes));
          expect_row(out.view(), t, row);
        }
      }
  EXPECT_EQ(features(fourier_nerf(3, 10)), 63);  // 60 as in the paper, plus the input
  EXPECT_EQ(features(fourier_nerf(3, 4)), 27);
}

TYPED_TEST(FourierOf, GaussianIsItsCode) {
  const Fourier fourier = fourier_gaussian(3, 17, 10.0, 5);
  const std::vector<double> twice = frequencies(fourier);
  ASSERT_EQ(twice.size(), 51u);
  const auto normal = testing::random_numbers(51, 5);
  for (std::size_t i = 0; i < 51; ++i) EXPECT_EQ(twice[i], 2 * (10.0 * normal[i]));
  Tensor<TypeParam, 2> out({3, 34});
  fill(fourier, View<const double, 2>(points, {3, 3}), out.view());
  for (std::int64_t t = 0; t < 3; ++t) {
    std::vector<long double> row(34);
    for (std::size_t k = 0; k < 17; ++k) {
      const auto wave =
          true_waves(std::span(points + 3 * t, 3), std::span(twice).subspan(3 * k, 3), 0);
      row[k] = wave.sine, row[17 + k] = wave.cosine;
    }
    expect_row(out.view(), t, row);
  }
}

// Products near 2^52, half of which is not an integer, and beyond 2^53, where doubles have no
// odd integers and the low part contains whole turns.
TEST(Fourier, WavesAreExactHoweverManyTurns) {
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const double resolution : {0x1p33, 0x1.fffffffp33, 0x1.23456789abcdfp39})
      for (const double at : {0x1p20 + 0x1p-32, 0x1p20 + 0x3p-31, -0x1.8p20 - 0x5p-32,
                              0x1.fedcba9876543p30, -0x1.3p21}) {
        Tensor<double, 2> out({1, 5});
        fill(fourier_perceiver({&resolution, 1}, 2), View<const double, 2>(&at, {1, 1}),
             out.view());
        expect_row(out.view(), 0, perceiver_row({&at, 1}, {&resolution, 1}, 2));
      }
  }
}

TEST(Fourier, GaussianNumbersHaveTheirDeviation) {
  const std::vector<double> twice = frequencies(fourier_gaussian(2, 5000, 3.0));
  double square = 0;
  for (const double f : twice) square += f * f / 4;
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(twice.size())), 3.0, 0.1);
  EXPECT_NE(frequencies(fourier_gaussian(2, 5, 3.0, 1)),
            frequencies(fourier_gaussian(2, 5, 3.0, 2)));
}

TEST(Fourier, BandsRunFromOneToHalfTheResolution) {
  EXPECT_THAT(frequencies(fourier_perceiver(std::vector<double>{10.0}, 5)),
              ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(frequencies(fourier_perceiver(std::vector<double>{6.0, 10.0}, 2)),
              ElementsAre(1, 0, 3, 0, 0, 1, 0, 5));
  EXPECT_THAT(frequencies(fourier_nerf(1, 4)), ElementsAre(1, 2, 4, 8));
}

TEST(Fourier, GridsRunFromMinusOneToOne) {
  EXPECT_THAT(unit_coordinates(std::vector<std::int64_t>{3}), ElementsAre(-1, 0, 1));
  EXPECT_THAT(unit_coordinates(std::vector<std::int64_t>{2, 1, 2}),
              ElementsAre(-1, -1, -1, -1, -1, 1, 1, -1, -1, 1, -1, 1));
}

TEST(Fourier, StridesAndThreadsChangeNoBitAndTouchNothingElse) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto at = testing::random_tensor<double, 2>({2, 700});
  const View<const double, 2> columns(at.values.data(), {700, 2}, {1, 700});
  const Fourier fourier = fourier_perceiver(std::vector<double>{32.0, 20.0}, 3);
  Tensor<float, 2> plain({700, 14}), wide({1400, 30}, static_cast<float>(nan));
  fill(fourier, columns, plain.view());
  const View<float, 2> view(&wide.view()(1, 1), {700, 14}, {60, 2});
  const int before = threads();
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    fill(fourier, columns, view);
    for (std::int64_t t = 0; t < 700; ++t)
      for (std::int64_t c = 0; c < 14; ++c) EXPECT_EQ(view(t, c), plain.view()(t, c));
  }
  set_threads(before);
  std::size_t written = 0;
  for (const float value : wide.values) written += !std::isnan(value);
  EXPECT_EQ(written, plain.values.size());
  fill(fourier, View<const double, 2>(nullptr, {0, 2}), View<float, 2>(nullptr, {0, 14}));
}

TEST(Fourier, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { features(Fourier{}); }),
            "[fourier] bands must be perceiver, nerf or gaussian, got 0");
  EXPECT_EQ(message_of([] { fourier_nerf(0, 3); }), "[fourier] axes must be at least 1, got 0");
  EXPECT_EQ(message_of([] { fourier_nerf(3, 65); }),
            "[fourier] count must be from 1 to 64, got 65");
  EXPECT_EQ(message_of([] { fourier_gaussian(2, 0, 1); }),
            "[fourier] count must be from 1 to 8388608, got 0");
  EXPECT_EQ(message_of([] { fourier_gaussian(2, 3, 0); }),
            "[fourier] deviation must be positive and at most 2^40, got 0");
  Fourier fourier = fourier_gaussian(1, 3, 1);
  fourier.unit = FourierUnit::radian;
  EXPECT_EQ(message_of([&] { features(fourier); }),
            "[fourier] unit must be half_turn except in nerf, got 2");
  fourier.unit = {};
  EXPECT_EQ(message_of([&] { features(fourier); }),
            "[fourier] unit must be half_turn or radian, got 0");
  fourier.input = {};
  EXPECT_EQ(message_of([&] { features(fourier); }),
            "[fourier] input must be first or left_out, got 0");
  const std::vector<double> negative{224.0, -1.0};
  EXPECT_EQ(message_of([&] { fourier_perceiver(negative, 64); }),
            "[fourier] resolution must be positive and at most 2^40, got -1");
  fourier = fourier_perceiver(std::vector<double>{8.0}, 2);
  fourier.axes = 2;
  EXPECT_EQ(message_of([&] { features(fourier); }),
            "[fourier] resolution must have one entry per axis, 2, got 1");
  fourier = fourier_nerf(2, 1);
  Tensor<double, 2> at({3, 2}), out({3, 6});
  EXPECT_EQ(message_of([&] { fill(fourier, at.view(), Tensor<float, 2>({3, 5}).view()); }),
            "[fourier] out must be [T, F] = [3, 6], got [3, 5]");
  EXPECT_EQ(message_of([&] { fill(fourier, out.view(), out.view()); }),
            "[fourier] coordinates must be [T, A] with A = 2, got [3, 6]");
  at.values[3] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message_of([&] { fill(fourier, at.view(), out.view()); }),
            "[fourier] a coordinate must be within 2^31 and finite, got inf");
  EXPECT_EQ(message_of([] { unit_coordinates(std::vector<std::int64_t>{2, 0}); }),
            "[fourier] every extent of a grid must be at least 1, got 0");
}

}  // namespace fourier_test
}  // namespace gnomon
