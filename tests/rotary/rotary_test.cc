#include "gnomon/rotary/rotary.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace rotary_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::Tensor;

// base^(-2i/R) in 256 bits.
double frequency(double base, std::int64_t dim, std::int64_t i) {
  mpfr_t b, exponent;
  mpfr_inits2(256, b, exponent, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_d(b, base, MPFR_RNDN);
  mpfr_set_si(exponent, -2 * i, MPFR_RNDN);
  mpfr_div_si(exponent, exponent, dim, MPFR_RNDN);
  mpfr_pow(b, b, exponent, MPFR_RNDN);
  const double result = mpfr_get_d(b, MPFR_RNDN);
  mpfr_clears(b, exponent, static_cast<mpfr_ptr>(nullptr));
  return result;
}

TEST(Rotary, FrequenciesAreWithinOneUlp) {
  for (double base : {1.5, 1e4, 5e5, 1e6, 1e7})
    for (std::int64_t dim : {2, 4, 10, 64, 80, 128, 256}) {
      const auto got =
          inverse_frequencies({.rotary_dim = dim, .pairing = Pairing::halves, .base = base});
      ASSERT_EQ(std::ssize(got), dim / 2);
      EXPECT_EQ(got[0], 1.0);
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        const double expected = frequency(base, dim, i);
        const double ulp = std::nextafter(expected, 2.0) - expected;
        EXPECT_NEAR(got[static_cast<std::size_t>(i)], expected, ulp) << base << " " << dim;
      }
    }
}

// Pair i of a head vector, from the layout in the header.
std::pair<std::int64_t, std::int64_t> elements(const Rotary& rotary, std::int64_t i) {
  if (rotary.pairing == Pairing::halves)
    return {rotary.head_offset + i, rotary.head_offset + rotary.rotary_dim / 2 + i};
  return {rotary.head_offset + 2 * i, rotary.head_offset + 2 * i + 1};
}

struct Case {
  Rotary rotary;
  std::int64_t batch, tokens, heads, size;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const auto& [dim, first, size] : {std::array<std::int64_t, 3>{2, 0, 2},
                                           {8, 0, 8},
                                           {6, 3, 11},
                                           {56, 0, 56},
                                           {72, 8, 96},
                                           {80, 0, 80},
                                           {128, 0, 128},
                                           {34, 1, 40},
                                           {16, 24, 40},
                                           {600, 0, 601}})
      all.push_back({{.rotary_dim = dim, .pairing = pairing, .base = 5e5, .head_offset = first},
                     2,
                     3,
                     2,
                     size});
  return all;
}

// |x' - exact| <= 3 2^-24 (|a| + |b|), plus half an ulp of the type for 16-bit types.
template <typename T>
void expect_rotated(const Case& one, const Positions& positions, View<const T, 4> before,
                    View<const T, 4> after, int direction) {
  const auto& r = one.rotary;
  for (std::int64_t b = 0; b < before.extent(0); ++b)
    for (std::int64_t t = 0; t < before.extent(1); ++t)
      for (std::int64_t h = 0; h < before.extent(2); ++h) {
        std::vector<bool> turned(static_cast<std::size_t>(one.size));
        for (std::int64_t i = 0; i < r.rotary_dim / 2; ++i) {
          const auto [x, y] = elements(r, i);
          turned[std::size_t(x)] = turned[std::size_t(y)] = true;
          const long double position = static_cast<long double>(
              positions.ids[std::size_t((positions.batch == 1 ? 0 : b) * one.tokens + t)]);
          const long double angle = direction * position *
                                    std::pow(static_cast<long double>(r.base),
                                             -2.0L * static_cast<long double>(i) /
                                                 static_cast<long double>(r.rotary_dim));
          const double a = as_double(before(b, t, h, x)), c = as_double(before(b, t, h, y));
          const auto left = static_cast<double>(a * std::cos(angle) - c * std::sin(angle));
          const auto right = static_cast<double>(a * std::sin(angle) + c * std::cos(angle));
          const double sum = 3 * 0x1p-24 * (std::fabs(a) + std::fabs(c));
          const double rounding = sizeof(T) == 2 ? half_ulp<T> : 0.0;
          const double least = std::is_same_v<T, Half> ? 0x1p-25 : 0.0;  // rounds subnormals
          ASSERT_NEAR(as_double(after(b, t, h, x)), left,
                      sum + rounding * (std::fabs(left) + sum) + least);
          ASSERT_NEAR(as_double(after(b, t, h, y)), right,
                      sum + rounding * (std::fabs(right) + sum) + least);
        }
        for (std::int64_t d = 0; d < one.size; ++d)
          if (!turned[std::size_t(d)]) {
            ASSERT_EQ(as_double(after(b, t, h, d)), as_double(before(b, t, h, d)));
          }
      }
}

template <typename T>
void check_all() {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.rotary.rotary_dim);
    const Positions shared = consecutive(one.tokens, 131000);
    const std::vector<std::int64_t> ids{0, 7, -3, 5, 1 << 20, 2};
    const Positions own = explicit_ids(View<const std::int64_t, 2>(ids.data(), {2, 3}));
    for (const Positions& positions : {shared, own}) {
      const RotaryTable table(one.rotary, positions);
      const auto before =
          testing::random_tensor<T, 4>({one.batch, one.tokens, one.heads, one.size});
      auto after = before;
      rotate(after.view(), table);
      expect_rotated<T>(one, positions, before.view(), after.view(), 1);
      after = before;
      rotate(after.view(), table, Direction::inverse);
      expect_rotated<T>(one, positions, before.view(), after.view(), -1);
    }
  }
}

TEST(Rotary, RotatesEveryTypeLayoutAndSizeOnEveryIsa) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_all<float>();
    check_all<double>();
    check_all<Half>();
    check_all<BFloat16>();
  }
}

// Packed QKV [T, 3, H, D + 1]: q and k are separate, rows are not aligned, v is not changed.
TEST(Rotary, StridedViewsRotateInPlaceAndTouchNothingElse) {
  constexpr std::int64_t tokens = 5, heads = 3, size = 10;
  const Case one{
      {.rotary_dim = 10, .pairing = Pairing::halves, .base = 5e5}, 1, tokens, heads, size};
  auto packed = testing::random_tensor<float, 4>({tokens, 3, heads, size + 1});
  const auto before = packed;
  const auto part = [&](float* data, int which) {
    return View<float, 4>(data + which * heads * (size + 1), {1, tokens, heads, size},
                          {0, 3 * heads * (size + 1), size + 1, 1});
  };
  const Positions positions = consecutive(tokens, 9);
  const RotaryTable table(one.rotary, positions);
  auto original = before;
  for (int which : {0, 1}) {
    rotate(part(packed.values.data(), which), table);
    expect_rotated<float>(one, positions, part(original.values.data(), which),
                          part(packed.values.data(), which), 1);
  }
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t d = 0; d <= size; ++d)
        EXPECT_EQ(packed.view()(t, 2, h, d), before.view()(t, 2, h, d));
      EXPECT_EQ(packed.view()(t, 0, h, size), before.view()(t, 0, h, size));
    }
}

TEST(Rotary, QueriesAndKeysOfDifferentHeadCountsShareATable) {
  const Rotary rotary{.rotary_dim = 16, .pairing = Pairing::adjacent};
  const RotaryTable table(rotary, testing::iota(3, 4));
  auto q = testing::random_tensor<float, 3>({4, 8, 16});
  const auto before = q;
  rotate(q.view(), table);
  // Keys: the first two heads.
  Tensor<float, 3> k({4, 2, 16});
  for (std::int64_t t = 0; t < 4; ++t)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < 16; ++d) k.view()(t, h, d) = before.view()(t, h, d);
  rotate(k.view(), table);
  for (std::int64_t t = 0; t < 4; ++t)
    for (std::int64_t d = 0; d < 16; ++d) EXPECT_EQ(k.view()(t, 1, d), q.view()(t, 1, d));
}

TEST(Rotary, ScoresDependOnTheDistanceAlone) {
  const Rotary rotary{.rotary_dim = 64, .pairing = Pairing::halves};
  const auto content = testing::random_tensor<double, 3>({1, 2, 64});
  const auto score = [&](std::int64_t query, std::int64_t key) {
    auto x = content;
    const std::vector<std::int64_t> at_query{query}, at_key{key};
    rotate(x.view().slice(1, 0, 1), RotaryTable(rotary, at_query));
    rotate(x.view().slice(1, 1, 1), RotaryTable(rotary, at_key));
    double sum = 0;
    for (std::int64_t d = 0; d < 64; ++d) sum += x.view()(0, 0, d) * x.view()(0, 1, d);
    return sum;
  };
  for (std::int64_t distance : {0, 1, 17, 900})
    for (std::int64_t at : {1, 5000, 1000000})
      EXPECT_NEAR(score(at + distance, at), score(distance, 0), 1e-4);
}

// <R x, y> = <x, R' y>, the definition of a gradient, and R' R = 1.
TEST(Rotary, BackwardIsTheTransposeAndUndoes) {
  const Rotary rotary{.rotary_dim = 12, .pairing = Pairing::adjacent, .head_offset = 1};
  const RotaryTable table(rotary, testing::iota(100, 6));
  const auto x = testing::random_tensor<double, 3>({6, 2, 14}, 1);
  const auto y = testing::random_tensor<double, 3>({6, 2, 14}, 2);
  auto turned = x, back = y;
  rotate(turned.view(), table);
  rotate(back.view(), table, Direction::inverse);
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    forward += turned.values[i] * y.values[i];
    backward += x.values[i] * back.values[i];
  }
  EXPECT_NEAR(forward, backward, 1e-12 * static_cast<double>(x.values.size()));
  rotate(turned.view(), table, Direction::inverse);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    EXPECT_NEAR(turned.values[i], x.values[i], 1e-6);
}

// DeepSeek's attention: the last 64 elements of a query head of 192 are rotated, and one key
// head of 64 that all query heads share. A view of the slice is equivalent to `first`.
TEST(Rotary, TheLastSliceOfAHeadMeetsASharedKey) {
  constexpr std::int64_t tokens = 4, heads = 3, plain = 128, turned = 64;
  Rotary rotary{.rotary_dim = turned, .pairing = Pairing::adjacent};
  const RotaryTable key_table(rotary, testing::iota(7, tokens));
  rotary.head_offset = plain;
  const RotaryTable query_table(rotary, testing::iota(7, tokens));
  const auto before = testing::random_tensor<float, 3>({tokens, heads, plain + turned});
  auto query = before, sliced = before;
  rotate(query.view(), query_table);
  rotate(sliced.view().slice(2, plain, turned), key_table);
  EXPECT_EQ(query.values, sliced.values);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t d = 0; d < plain; ++d)
        ASSERT_EQ(query.view()(t, h, d), before.view()(t, h, d));

  // A key that contains the slice of a query, at the same position, has the score of the
  // unrotated slices.
  Tensor<float, 3> key({tokens, 1, turned});
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t d = 0; d < turned; ++d)
      key.view()(t, 0, d) = before.view()(t, 1, plain + d);
  rotate(key.view(), key_table);
  for (std::int64_t t = 0; t < tokens; ++t) {
    double score = 0, expected = 0;
    for (std::int64_t d = 0; d < turned; ++d) {
      score += double(query.view()(t, 2, plain + d)) * double(key.view()(t, 0, d));
      expected +=
          double(before.view()(t, 2, plain + d)) * double(before.view()(t, 1, plain + d));
    }
    EXPECT_NEAR(score, expected, 1e-4);
  }
}

TEST(Rotary, CallersFrequenciesAndTableScale) {
  const std::vector<double> frequencies{0.5, 0.125};
  const RotaryTable table(
      {.pairing = Pairing::halves, .inv_freq = frequencies, .table_scale = 1.25},
      consecutive(3, 10));
  for (std::int64_t t = 0; t < 3; ++t)
    for (std::int64_t i = 0; i < 2; ++i) {
      const double angle = static_cast<double>(10 + t) * frequencies[std::size_t(i)];
      EXPECT_NEAR(table.cos()(0, t, i), 1.25 * std::cos(angle), 1.25 * 0x1p-24);
      EXPECT_NEAR(table.sin()(0, t, i), 1.25 * std::sin(angle), 1.25 * 0x1p-24);
    }
}

TEST(Rotary, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const RotaryTable table(Rotary{.rotary_dim = 64, .pairing = Pairing::halves},
                          testing::iota(0, 300));
  const auto x = testing::random_tensor<BFloat16, 3>({300, 8, 64});
  auto one = x;
  set_threads(1);
  rotate(one.view(), table);
  for (int count : {2, 7}) {
    set_threads(count);
    auto many = x;
    rotate(many.view(), table);
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

TEST(Rotary, EmptyInputsAreFine) {
  const Rotary rotary{.rotary_dim = 4, .pairing = Pairing::halves};
  Tensor<float, 3> none({0, 2, 4}), headless({3, 0, 4});
  EXPECT_EQ(message_of([&] {
              rotate(none.view(), RotaryTable(rotary, consecutive(0)));
              rotate(headless.view(), RotaryTable(rotary, consecutive(3)));
            }),
            "");
}

TEST(Rotary, RefusesWhatBreaksItsBounds) {
  const auto message = [](const Rotary& rotary) {
    return message_of([&] { inverse_frequencies(rotary); });
  };
  EXPECT_EQ(message({.rotary_dim = 7, .pairing = Pairing::halves}),
            "[rotary] rotary_dim must be even, got 7");
  EXPECT_EQ(message({.rotary_dim = 0, .pairing = Pairing::halves}),
            "[rotary] rotary_dim must be at least 2, got 0");
  EXPECT_EQ(message({.rotary_dim = 8}),
            "[rotary] pairing must be halves (1) or adjacent (2), got 0");
  EXPECT_EQ(message({.rotary_dim = 8, .pairing = Pairing::halves, .base = 1}),
            "[rotary] base must be finite and greater than 1, got 1");
  EXPECT_EQ(message({.rotary_dim = 8, .pairing = Pairing::halves, .head_offset = -1}),
            "[rotary] head_offset must not be negative, got -1");
  const Rotary rotary{.rotary_dim = 8, .pairing = Pairing::halves};
  const auto table_of = [](RotaryFrequencies bad) {
    bad.pairing = Pairing::halves;
    return message_of([&] { RotaryTable(bad, consecutive(2)); });
  };
  EXPECT_EQ(table_of({}), "[rotary] inv_freq must have a frequency for each pair, got 0");
  EXPECT_EQ(table_of({.inv_freq = {1, 1}, .axes = {0}}),
            "[rotary] axes must be empty or have one element for each of 2 pairs, got 1");
  EXPECT_EQ(table_of({.inv_freq = {1, 1}, .axes = {0, 1}}),
            "[rotary] axes must be 0 to 0, got 1");
  // The product of batch and tokens is 0 in 64 bits.
  const Positions lying{.batch = std::int64_t{1} << 32,
                        .tokens = std::int64_t{1} << 32,
                        .ids = {},
                        .sequences = {}};
  EXPECT_EQ(message_of([&] { RotaryTable(rotary, lying); }),
            "[rotary] positions must hold batch x tokens = 4294967296 x 4294967296 ids, got 0");

  const RotaryTable table(rotary, consecutive(3, 0, 2));
  Tensor<float, 4> tokens({2, 4, 1, 8}), rows({3, 3, 1, 8}), narrow({2, 3, 1, 6}),
      wide({2, 3, 1, 16});
  EXPECT_EQ(message_of([&] { rotate(tokens.view(), table); }),
            "[rotary] x must have the table's 3 tokens, got 4");
  EXPECT_EQ(message_of([&] { rotate(rows.view(), table); }),
            "[rotary] x must have the table's 2 rows, got 3");
  EXPECT_EQ(message_of([&] { rotate(narrow.view(), table); }),
            "[rotary] x must have at least head_offset + rotary_dim = 0 + 8 elements per head, "
            "got 6");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(message_of([&] {
              rotate(wide.view(), RotaryTable(Rotary{.rotary_dim = 8,
                                                     .pairing = Pairing::halves,
                                                     .head_offset = most},
                                              consecutive(3)));
            }),
            "[rotary] x must have at least head_offset + rotary_dim = " + std::to_string(most) +
                " + 8 elements per head, got 16");
  EXPECT_EQ(message_of([&] {
              rotate(View<float, 4>(wide.values.data(), {2, 3, 1, 8}, {48, 16, 16, 2}), table);
            }),
            "[rotary] the elements of a head must be contiguous: stride 1, got 2");
}

}  // namespace rotary_test
}  // namespace gnomon
