#include "gnomon/rotary/xpos.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "testing.h"

namespace gnomon {
namespace xpos_test {

using testing::message_of;

// zeta_i as in the paper's code: (2i + 0.4 d) / (1.4 d).
long double zeta(std::int64_t i, std::int64_t dim, long double gamma = 0.4L) {
  const auto d = static_cast<long double>(dim);
  return (2 * static_cast<long double>(i) + gamma * d) / ((1 + gamma) * d);
}

// Pair i of a query (direction 1) or key (-1) as a complex number at a position.
std::complex<long double> factor_of(const XPos& xpos, std::int64_t i, std::int64_t position,
                                    int direction) {
  const auto p = static_cast<long double>(position);
  const long double angle = p * std::pow(static_cast<long double>(xpos.base),
                                         -2 * static_cast<long double>(i) /
                                             static_cast<long double>(xpos.rotary_dim));
  const long double steps = direction * (p - static_cast<long double>(xpos.centre)) /
                            static_cast<long double>(xpos.scale_base);
  return std::polar(std::pow(zeta(i, xpos.rotary_dim, xpos.gamma), steps), angle);
}

TEST(XPos, TablesOfQueriesAndKeys) {
  for (const XPos& xpos : {XPos{.rotary_dim = 16, .pairing = Pairing::halves, .centre = 1024},
                           XPos{.rotary_dim = 10,
                                .pairing = Pairing::adjacent,
                                .base = 5e5,
                                .scale_base = 64,
                                .gamma = 1.5,
                                .centre = -3,
                                .head_offset = 2}}) {
    const auto positions = testing::iota(-20, 300);
    const RotaryTable query(lower_query(xpos), positions), key(lower_key(xpos), positions);
    EXPECT_EQ(query.frequencies().head_offset, xpos.head_offset);
    for (std::int64_t t = 0; t < 300; ++t)
      for (std::int64_t i = 0; i < xpos.rotary_dim / 2; ++i)
        for (const int direction : {1, -1}) {
          const RotaryTable& table = direction == 1 ? query : key;
          const auto expected = factor_of(xpos, i, t - 20, direction);
          // Bound in rotary.h: half an ulp + 2^-46 for cos and sin of the angle, plus 2^-23 for
          // the product with the growth factor, all relative to the growth factor.
          const auto size = static_cast<double>(std::abs(expected));
          const double within = size * (0x1p-24 + 0x1p-46 + 0x1p-23);
          ASSERT_NEAR(table.cos()(0, t, i), static_cast<double>(expected.real()), within);
          ASSERT_NEAR(table.sin()(0, t, i), static_cast<double>(expected.imag()), within);
        }
  }
}

// Re sum a conj(b) zeta^((m - n) / 512) e^(i (m - n) f): the equation of the paper.
TEST(XPos, ScoresDependOnTheDistanceAloneAndDecay) {
  const auto content = testing::random_tensor<double, 3>({1, 2, 32}, 3);
  const auto score = [&](const XPos& xpos, std::int64_t query, std::int64_t key) {
    auto x = content;
    const std::vector<std::int64_t> at_query{query}, at_key{key};
    rotate(x.view().slice(1, 0, 1), RotaryTable(lower_query(xpos), at_query));
    rotate(x.view().slice(1, 1, 1), RotaryTable(lower_key(xpos), at_key));
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
    const XPos xpos{.rotary_dim = 32, .pairing = Pairing::halves, .centre = centre};
    for (std::int64_t distance : {0, 1, 17, 900, 2000})
      for (std::int64_t key : {0, 5, 2000})  // keys before the query, as in a KV cache
        EXPECT_NEAR(score(xpos, key + distance, key), expected(xpos, distance), 2e-4);
  }
}

TEST(XPos, BackwardIsTheTranspose) {
  const XPos xpos{
      .rotary_dim = 12, .pairing = Pairing::adjacent, .scale_base = 16, .centre = 103};
  for (const RotaryFrequencies& frequencies : {lower_query(xpos), lower_key(xpos)}) {
    const RotaryTable table(frequencies, testing::iota(100, 6));
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
  const XPos xpos{.rotary_dim = 8, .pairing = Pairing::halves, .centre = 9};
  RotaryFrequencies query = lower_query(xpos), key = lower_key(xpos);
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

// RetNet as in its code: angle = 1 / 10000 ** linspace(0, 1, d / 2), each repeated twice;
// x cos + rotate_every_two(x) sin.
TEST(XPos, RetNetRotatesToTheLastFrequency) {
  constexpr std::int64_t dim = 16, tokens = 5;
  const RotaryTable table(retnet_frequencies(dim), testing::iota(50, tokens));
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
  EXPECT_EQ(retnet_frequencies(2).inv_freq, std::vector<double>{1});
  EXPECT_DOUBLE_EQ(retnet_frequencies(64).inv_freq.back(), 1e-4);
}

TEST(XPos, RetNetDecaysByHead) {
  EXPECT_EQ(retnet_decays(3), (std::vector<double>{31.0 / 32, 63.0 / 64, 127.0 / 128}));
  EXPECT_EQ(retnet_decays(1, 2), (std::vector<double>{127.0 / 128}));
  EXPECT_EQ(retnet_decays(1, 47)[0], 1 - 0x1p-52);
  EXPECT_TRUE(retnet_decays(0).empty());
}

TEST(XPos, RefusesWhatItCannotMean) {
  XPos spec{.rotary_dim = 8, .pairing = Pairing::halves};
  spec.scale_base = 0;
  EXPECT_EQ(message_of([&] { lower_query(spec); }),
            "[xpos] scale_base and gamma must be finite and greater than 0, got 0");
  spec.scale_base = 512;
  spec.gamma = -0.5;
  EXPECT_EQ(message_of([&] { lower_key(spec); }),
            "[xpos] scale_base and gamma must be finite and greater than 0, got -0.5");
  spec.gamma = 0.4;
  spec.rotary_dim = 7;
  EXPECT_EQ(message_of([&] { lower_key(spec); }), "[rotary] rotary_dim must be even, got 7");
  EXPECT_EQ(message_of([] { retnet_frequencies(3); }),
            "[rotary] rotary_dim must be even, got 3");
  EXPECT_EQ(message_of([] { retnet_decays(-1); }),
            "[retnet] heads and first_head must not be negative, got -1");
}

}  // namespace xpos_test
}  // namespace gnomon
