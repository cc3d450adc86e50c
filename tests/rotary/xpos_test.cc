#include "gnomon/rotary/xpos.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "testing.h"

namespace gnomon {
namespace {

using testing::message_of;

// zeta_i as the paper's code has it: (2i + 0.4 d) / (1.4 d).
long double zeta(std::int64_t i, std::int64_t dim, long double gamma = 0.4L) {
  const auto d = static_cast<long double>(dim);
  return (2 * static_cast<long double>(i) + gamma * d) / ((1 + gamma) * d);
}

// Pair i of a query (direction 1) or key (-1) as a complex number at a position.
std::complex<long double> factor_of(const XPos& xpos, std::int64_t i, std::int64_t position,
                                    int direction) {
  const auto p = static_cast<long double>(position);
  const long double angle =
      p * std::pow(static_cast<long double>(xpos.base),
                   -2 * static_cast<long double>(i) / static_cast<long double>(xpos.dim));
  const long double steps = direction * (p - static_cast<long double>(xpos.centre)) /
                            static_cast<long double>(xpos.scale_base);
  return std::polar(std::pow(zeta(i, xpos.dim, xpos.gamma), steps), angle);
}

TEST(XPos, TablesOfQueriesAndKeys) {
  for (const XPos& xpos : {XPos{.dim = 16, .pairing = Pairing::halves, .centre = 1024},
                           XPos{.dim = 10,
                                .pairing = Pairing::adjacent,
                                .base = 5e5,
                                .scale_base = 64,
                                .gamma = 1.5,
                                .centre = -3,
                                .first = 2}}) {
    const auto positions = testing::iota(-20, 300);
    const RotaryTable query(query_schedule(xpos), positions),
        key(key_schedule(xpos), positions);
    EXPECT_EQ(query.schedule().first, xpos.first);
    for (std::int64_t t = 0; t < 300; ++t)
      for (std::int64_t i = 0; i < xpos.dim / 2; ++i)
        for (const int direction : {1, -1}) {
          const RotaryTable& table = direction == 1 ? query : key;
          const auto expected = factor_of(xpos, i, t - 20, direction);
          // The header of rotary.h: within half an ulp + 2^-46 of the angle's cos and sin,
          // grown, and that within 2^-23.
          const auto size = static_cast<double>(std::abs(expected));
          const double within = size * (0x1p-24 + 0x1p-46 + 0x1p-23);
          ASSERT_NEAR(table.cos()(0, t, i), static_cast<double>(expected.real()), within);
          ASSERT_NEAR(table.sin()(0, t, i), static_cast<double>(expected.imag()), within);
        }
  }
}

// Re sum a conj(b) zeta^((m - n) / 512) e^(i (m - n) f): the paper's equation, with its decay.
TEST(XPos, ScoresDependOnTheDistanceAloneAndDecay) {
  const auto content = testing::random_tensor<double, 3>({1, 2, 32}, 3);
  const auto score = [&](const XPos& xpos, std::int64_t query, std::int64_t key) {
    auto x = content;
    const std::vector<std::int64_t> at_query{query}, at_key{key};
    rotate(x.view().slice(1, 0, 1), RotaryTable(query_schedule(xpos), at_query));
    rotate(x.view().slice(1, 1, 1), RotaryTable(key_schedule(xpos), at_key));
    double sum = 0;
    for (std::int64_t d = 0; d < 32; ++d) sum += x.view()(0, 0, d) * x.view()(0, 1, d);
    return sum;
  };
  const auto expected = [&](const XPos& xpos, std::int64_t distance) {
    std::complex<long double> sum = 0;
    for (std::int64_t i = 0; i < 16; ++i) {
      const auto pair = [&](int h) {
        return std::complex<long double>(content.view()(0, h, i), content.view()(0, h, i + 16));
      };
      XPos uncentred = xpos;
      uncentred.centre = 0;
      sum += pair(0) * std::conj(pair(1)) * factor_of(uncentred, i, distance, 1);
    }
    return static_cast<double>(sum.real());
  };
  for (std::int64_t centre : {0, 700, 2048}) {
    const XPos xpos{.dim = 32, .pairing = Pairing::halves, .centre = centre};
    for (std::int64_t distance : {0, 1, 17, 900, 2000})
      for (std::int64_t key : {0, 5, 2000})  // the key is older than the query: as in a cache
        EXPECT_NEAR(score(xpos, key + distance, key), expected(xpos, distance), 2e-4);
  }
}

TEST(XPos, BackwardIsTheTranspose) {
  const XPos xpos{.dim = 12, .pairing = Pairing::adjacent, .scale_base = 16, .centre = 103};
  for (const RotarySchedule& schedule : {query_schedule(xpos), key_schedule(xpos)}) {
    const RotaryTable table(schedule, testing::iota(100, 6));
    const auto x = testing::random_tensor<double, 3>({6, 2, 14}, 1);
    const auto y = testing::random_tensor<double, 3>({6, 2, 14}, 2);
    auto forward = x, backward = y;
    rotate(forward.view(), table);
    rotate(backward.view(), table, Direction::inverse);
    double left = 0, right = 0;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      left += forward.values[i] * y.values[i];
      right += x.values[i] * backward.values[i];
    }
    EXPECT_NEAR(left, right, 1e-12);
  }
}

TEST(XPos, QueriesAndKeysGrowAgainstEachOther) {
  const XPos xpos{.dim = 8, .pairing = Pairing::halves, .centre = 9};
  RotarySchedule query = query_schedule(xpos), key = key_schedule(xpos);
  EXPECT_EQ(query.centre, 9);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(query.growth[i], static_cast<double>(std::log(zeta(std::int64_t(i), 8)) / 512),
                1e-18);
    EXPECT_EQ(query.growth[i], -key.growth[i]);
  }
  query.growth.clear();
  key.growth.clear();
  EXPECT_EQ(query, key);
}

// RetNet as its code has it: angle = 1 / 10000 ** linspace(0, 1, d / 2), each twice;
// x cos + rotate_every_two(x) sin.
TEST(XPos, RetNetTurnsToTheLastFrequency) {
  constexpr std::int64_t dim = 16, tokens = 5;
  const RotaryTable table(retnet_schedule(dim), testing::iota(50, tokens));
  const auto before = testing::random_tensor<double, 3>({tokens, 1, dim});
  auto after = before;
  rotate(after.view(), table);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t d = 0; d < dim; ++d) {
      const double angle =
          static_cast<double>(50 + t) / std::pow(1e4, static_cast<double>(d / 2) / 7.0);
      const double x = before.view()(t, 0, d);
      const double other =
          d % 2 == 0 ? -before.view()(t, 0, d + 1) : before.view()(t, 0, d - 1);
      ASSERT_NEAR(after.view()(t, 0, d), x * std::cos(angle) + other * std::sin(angle),
                  3 * 0x1p-24 * (std::fabs(x) + std::fabs(other)));
    }
  EXPECT_EQ(retnet_schedule(2).inv_freq, std::vector<double>{1});
  EXPECT_DOUBLE_EQ(retnet_schedule(64).inv_freq.back(), 1e-4);
}

TEST(XPos, RetNetDecaysByHead) {
  EXPECT_EQ(retnet_decays(3), (std::vector<double>{31.0 / 32, 63.0 / 64, 127.0 / 128}));
  EXPECT_EQ(retnet_decays(1, 2), (std::vector<double>{127.0 / 128}));
  EXPECT_EQ(retnet_decays(1, 47)[0], 1 - 0x1p-52);
  EXPECT_TRUE(retnet_decays(0).empty());
}

TEST(XPos, RefusesWhatItCannotMean) {
  XPos spec{.dim = 8, .pairing = Pairing::halves};
  spec.scale_base = 0;
  EXPECT_EQ(message_of([&] { query_schedule(spec); }),
            "[xpos] scale_base and gamma must be finite and greater than 0, got 0");
  spec.scale_base = 512;
  spec.gamma = -0.5;
  EXPECT_EQ(message_of([&] { key_schedule(spec); }),
            "[xpos] scale_base and gamma must be finite and greater than 0, got -0.5");
  spec.gamma = 0.4;
  spec.dim = 7;
  EXPECT_EQ(message_of([&] { key_schedule(spec); }), "[rotary] dim must be even, got 7");
  EXPECT_EQ(message_of([] { retnet_schedule(3); }), "[rotary] dim must be even, got 3");
  EXPECT_EQ(message_of([] { retnet_decays(-1); }),
            "[retnet] heads and first_head must not be negative, got -1");
}

}  // namespace
}  // namespace gnomon
