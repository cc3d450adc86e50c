// Compares sums of two doubles with MPFR in 300 bits.
#include "src/core/wide.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gnomon::internal {
namespace wide_test {

class Exact {
 public:
  Exact() { mpfr_init2(number, 300); }
  explicit Exact(Wide value) : Exact() {
    mpfr_set_d(number, value.high(), MPFR_RNDN);
    mpfr_add_d(number, number, value.low(), MPFR_RNDN);
  }
  ~Exact() { mpfr_clear(number); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;

  mpfr_t number;
};

// |found - expected| / max(|expected|, least)
double error(Wide found, const Exact& expected, double least = 0) {
  Exact difference(found), size;
  mpfr_sub(difference.number, difference.number, expected.number, MPFR_RNDN);
  mpfr_abs(size.number, expected.number, MPFR_RNDN);
  if (mpfr_cmp_d(size.number, least) < 0) mpfr_set_d(size.number, least, MPFR_RNDN);
  if (mpfr_zero_p(difference.number)) return 0;
  mpfr_div(difference.number, difference.number, size.number, MPFR_RNDN);
  return std::abs(mpfr_get_d(difference.number, MPFR_RNDN));
}

using Engine = std::mt19937_64;
double uniform(Engine& engine, double low, double high) {
  return low + (high - low) * (static_cast<double>(engine() >> 11) * 0x1p-53);
}
// Of magnitude 2^-exponents to 2^exponents, with two full parts and any sign.
Wide random(Engine& engine, double exponents) {
  const double high =
      std::exp2(uniform(engine, -exponents, exponents)) * (engine() & 1 ? 1 : -1);
  return Wide(high) + high * uniform(engine, -0x1p-54, 0x1p-54);
}

TEST(Wide, SumsProductsAndQuotients) {
  Engine engine(1);
  for (int i = 0; i < 20'000; ++i) {
    const Wide a = random(engine, i % 2 ? 3 : 200), b = random(engine, i % 2 ? 3 : 200);
    const Exact x(a), y(b);
    Exact result;
    mpfr_add(result.number, x.number, y.number, MPFR_RNDN);
    EXPECT_LE(error(a + b, result), 0x1p-100);
    mpfr_sub(result.number, x.number, y.number, MPFR_RNDN);
    EXPECT_LE(error(a - b, result), 0x1p-100);
    mpfr_mul(result.number, x.number, y.number, MPFR_RNDN);
    EXPECT_LE(error(a * b, result), 0x1p-100);
    mpfr_div(result.number, x.number, y.number, MPFR_RNDN);
    EXPECT_LE(error(a / b, result), 0x1p-100);
    EXPECT_EQ(a < b, mpfr_less_p(x.number, y.number) != 0);
    EXPECT_FALSE(a < a);
    EXPECT_TRUE(a < Wide(a.high(), a.low() + std::abs(a.high()) * 0x1p-60));
  }
}

TEST(Wide, Functions) {
  Engine engine(2);
  const Wide half_pi = wide_pi / 2;
  for (int i = 0; i < 20'000; ++i) {
    const Wide any = random(engine, 400);
    const Wide positive = any < 0 ? -any : any;
    Exact result;
    mpfr_log(result.number, Exact(positive).number, MPFR_RNDN);
    EXPECT_LE(error(log(positive), result, 1), 0x1p-95) << positive.high();
    const Wide near_one = Wide(1) + random(engine, 0) * uniform(engine, -0.5, 0.5);
    mpfr_log(result.number, Exact(near_one).number, MPFR_RNDN);
    EXPECT_LE(error(log(near_one), result, 1), 0x1p-95) << near_one.high();
    const Wide power = Wide(uniform(engine, -699, 699)) + uniform(engine, -0x1p-50, 0x1p-50);
    mpfr_exp(result.number, Exact(power).number, MPFR_RNDN);
    if (std::abs(power.high()) < 600) {  // beyond, the lower part is subnormal
      EXPECT_LE(error(exp(power), result), 0x1p-94) << power.high();
    }
    EXPECT_LE(error(exp(power).high(), result), 0x1.001p-53) << power.high();
    const Wide angle = half_pi * uniform(engine, 0, 1);
    mpfr_sin(result.number, Exact(angle).number, MPFR_RNDN);
    EXPECT_LE(error(sin(angle), result), 0x1p-95) << angle.high();
    const Wide number = Wide(std::round(uniform(engine, -40, 40))) + random(engine, 60);
    mpfr_floor(result.number, Exact(number).number);
    EXPECT_EQ(error(floor(number), result), 0);
    mpfr_ceil(result.number, Exact(number).number);
    EXPECT_EQ(error(ceil(number), result), 0);
  }
  Exact pi;
  mpfr_const_pi(pi.number, MPFR_RNDN);
  EXPECT_LE(error(wide_pi, pi), 0x1p-105);
  EXPECT_EQ(sin(0).high(), 0);
}

TEST(Wide, Powers) {
  for (const double base : {1e4, 5e5, 0.3}) {
    const auto found = powers(base, Wide(-2) / 128, 64);
    ASSERT_EQ(found.size(), 64u);
    for (int i = 0; i < 64; ++i) {
      Exact expected{Wide(base)}, exponent{Wide(-2.0 * i)};
      mpfr_div_d(exponent.number, exponent.number, 128, MPFR_RNDN);
      mpfr_pow(expected.number, expected.number, exponent.number, MPFR_RNDN);
      EXPECT_EQ(found[static_cast<std::size_t>(i)], mpfr_get_d(expected.number, MPFR_RNDN));
    }
  }
  EXPECT_EQ(powers(10, Wide(-1) / 0, 1), std::vector<double>{1});
}

// As those of doubles: no NaN where a double has an infinity or a large number.
TEST(Wide, LargeNumbersAndInfinities) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), huge = 1e308;
  EXPECT_DOUBLE_EQ(double(Wide(1) / huge * huge), 1);
  EXPECT_EQ(double(Wide(huge) * 2), infinity);
  EXPECT_EQ(double(Wide(huge) + huge), infinity);
  EXPECT_EQ(double(Wide(1) / 0), infinity);
  EXPECT_EQ(double(Wide(1) / infinity), 0);
  EXPECT_EQ(double(Wide(1) + infinity), infinity);
  EXPECT_EQ(double(exp(1e6)), infinity);
  EXPECT_EQ(double(exp(-1e6)), 0);
  EXPECT_EQ(double(log(infinity)), infinity);
  EXPECT_NEAR(double(log(huge)), std::log(huge), 1e-13);
  EXPECT_TRUE(std::isnan(double(log(-1))));
}

}  // namespace wide_test
}  // namespace gnomon::internal
