// Compares scalings with the formulas of papers and released code, in long double.
#include "gnomon/rotary/scaling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <string>

#include "testing.h"

namespace gnomon {
namespace scaling_test {

using Real = long double;
constexpr Real pi = std::numbers::pi_v<Real>;

// Expected frequency of one pair, and scale of cos and sin.
struct Case {
  std::string name;
  Rotary rotary;
  RopeScaling scaling;
  std::int64_t length;
  std::function<Real(int)> frequency;
  double table_scale = 1, softmax_scale = 1;
};

Real plain(const Rotary& r, int i, Real base = 0) {
  return 1 / std::pow(base == 0 ? Real{r.base} : base, Real(2 * i) / Real(r.rotary_dim));
}

// Peng et al. 2023, appendix A.2, with the limits of the ramp in the released code.
Real yarn(const Rotary& r, const YarnScaling& s, int i) {
  const auto correction = [&](Real rotations) {
    return Real(r.rotary_dim) * std::log(Real(s.original_length) / (rotations * 2 * pi)) /
           (2 * std::log(Real{r.base}));
  };
  Real low = correction(s.beta_fast), high = correction(s.beta_slow);
  if (s.ramp == YarnRamp::whole_pairs) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  if (low < 0) low = 0;
  if (high > Real(r.rotary_dim - 1)) high = Real(r.rotary_dim - 1);
  if (low == high) high += 0.001L;
  Real ramp = (Real(i) - low) / (high - low);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  const Real extrapolation = 1 - ramp;
  return plain(r, i) / Real{s.factor} * (1 - extrapolation) + plain(r, i) * extrapolation;
}

// The released code: a raised cosine over the pairs, `theta = linspace(0, pi, count)`.
Real clipped(const Rotary& r, int count, int i) {
  const int m = i - (static_cast<int>(r.rotary_dim) / 2 - count);
  if (m <= 0) return plain(r, i);
  return m == count - 1 ? 0 : plain(r, i) * (1 + std::cos(pi * m / (count - 1))) / 2;
}

// Llama 3.1: by wavelength.
Real llama3(const Rotary& r, const Llama3Scaling& s, int i) {
  const Real wave = 2 * pi / plain(r, i), original = Real(s.original_length);
  if (wave < original / Real{s.high_freq_factor}) return plain(r, i);
  if (wave > original / Real{s.low_freq_factor}) return plain(r, i) / Real{s.factor};
  const Real smooth = (original / wave - Real{s.low_freq_factor}) /
                      (Real{s.high_freq_factor} - Real{s.low_freq_factor});
  return (1 - smooth) * plain(r, i) / Real{s.factor} + smooth * plain(r, i);
}

std::vector<double> ramp_of_factors(int pairs, double first, double step) {
  std::vector<double> factors;
  for (int i = 0; i < pairs; ++i) factors.push_back(first + step * i);
  return factors;
}

std::vector<Case> cases() {
  const Rotary llama{.rotary_dim = 128, .pairing = Pairing::halves, .base = 500'000};
  const Rotary small{.rotary_dim = 64, .pairing = Pairing::adjacent, .base = 10'000};
  const Rotary odd{.rotary_dim = 22, .pairing = Pairing::halves, .base = 10'000};
  const Rotary oss{.rotary_dim = 64, .pairing = Pairing::halves, .base = 150'000};
  std::vector<Case> all;
  all.push_back({"none", llama, NoScaling{}, 8192, [=](int i) { return plain(llama, i); }});
  all.push_back(
      {"linear", small, LinearScaling{8}, 8192, [=](int i) { return plain(small, i) / 8; }});
  const auto ntk = [](const Rotary& r, Real factor) {
    return Real{r.base} * std::pow(factor, Real(r.rotary_dim) / Real(r.rotary_dim - 2));
  };
  all.push_back({"ntk", small, NtkScaling{1000}, 8192,
                 [=](int i) { return plain(small, i, ntk(small, 1000)); }});
  all.push_back({"dynamic_inside", odd, DynamicNtkScaling{2, 2048}, 100,
                 [=](int i) { return plain(odd, i); }});
  all.push_back({"dynamic_beyond", odd, DynamicNtkScaling{2, 2048}, 5000,
                 [=](int i) { return plain(odd, i, ntk(odd, 2 * 5000.0L / 2048 - 1)); }});
  const YarnScaling qwen{.factor = 4, .original_length = 32768};
  all.push_back({"yarn", llama, qwen, 8192, [=](int i) { return yarn(llama, qwen, i); },
                 0.1 * std::log(4.0) + 1});
  const YarnScaling deepseek{.factor = 40,
                             .original_length = 4096,
                             .mscale = 1,
                             .mscale_all_dim = 0.5,
                             .softmax_mscale = 0.5};
  const double all_dim = 0.1 * 0.5 * std::log(40.0) + 1;
  all.push_back({"yarn_mscale", small, deepseek, 8192,
                 [=](int i) { return yarn(small, deepseek, i); },
                 (0.1 * std::log(40.0) + 1) / all_dim, all_dim * all_dim});
  const YarnScaling gpt_oss{
      .factor = 32, .original_length = 4096, .ramp = YarnRamp::fractional};
  all.push_back({"yarn_fractional", oss, gpt_oss, 8192,
                 [=](int i) { return yarn(oss, gpt_oss, i); }, 0.1 * std::log(32.0) + 1});
  const YarnScaling given{.factor = 16,
                          .original_length = 64,
                          .beta_fast = 4,
                          .beta_slow = 2,
                          .attention_factor = 1.5};
  all.push_back(
      {"yarn_given", odd, given, 8192, [=](int i) { return yarn(odd, given, i); }, 1.5});
  const YarnScaling narrow{.factor = 2, .original_length = 2};  // both ends of the ramp at 0
  all.push_back({"yarn_no_ramp", odd, narrow, 8192, [=](int i) { return yarn(odd, narrow, i); },
                 0.1 * std::log(2.0) + 1});
  const LongRopeScaling phi{.short_factors = ramp_of_factors(32, 1, 0.03125),
                            .long_factors = ramp_of_factors(32, 1.5, 1.25),
                            .original_length = 4096,
                            .factor = 32};
  const double phi_scale = std::sqrt(1 + std::log(32.0) / std::log(4096.0));
  all.push_back({"longrope_short", small, phi, 4096,
                 [=](int i) { return plain(small, i) / (1 + 0.03125L * i); }, phi_scale});
  all.push_back({"longrope_long", small, phi, 4097,
                 [=](int i) { return plain(small, i) / (1.5L + 1.25L * i); }, phi_scale});
  LongRopeScaling moe = phi;
  moe.attention_factor = 1.25, moe.long_attention_factor = 1.75;
  all.push_back({"longrope_two_scales", small, moe, 5000,
                 [=](int i) { return plain(small, i) / (1.5L + 1.25L * i); }, 1.75});
  const Llama3Scaling llama31{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192};
  all.push_back(
      {"llama3", llama, llama31, 8192, [=](int i) { return llama3(llama, llama31, i); }});
  const Llama3Scaling scout{
      .factor = 16, .low_freq_factor = 1, .high_freq_factor = 1, .original_length = 8192};
  all.push_back(
      {"llama3_step", llama, scout, 8192, [=](int i) { return llama3(llama, scout, i); }});
  all.push_back({"proportional", llama, ProportionalScaling{.rotated_pairs = 16, .factor = 2},
                 8192, [=](int i) { return i < 16 ? plain(llama, i) / 2 : 0; }});
  all.push_back({"factors", small, FrequencyFactors{ramp_of_factors(32, 1, 0.5)}, 8192,
                 [=](int i) { return plain(small, i) / (1 + 0.5L * i); }});
  // The base of Qwen 3.5: 10 of 32 pairs have a period above the training length.
  const Rotary qwen35{.rotary_dim = 64, .pairing = Pairing::halves, .base = 1e7};
  all.push_back({"clipped", qwen35, ClippedScaling{.original_length = 262144}, 8192,
                 [=](int i) { return clipped(qwen35, 10, i); }});
  all.push_back({"clipped_pairs", llama,
                 ClippedScaling{.original_length = 1, .clipped_pairs = 20}, 8192,
                 [=](int i) { return clipped(llama, 20, i); }});
  all.push_back({"clipped_one", llama, ClippedScaling{.original_length = 1, .clipped_pairs = 1},
                 8192, [=](int i) { return plain(llama, i); }});
  return all;
}

class Scaling : public ::testing::TestWithParam<Case> {};

TEST_P(Scaling, FrequenciesAreWithinAnUlpOfTheFormula) {
  const Case& c = GetParam();
  const ScaledFrequencies scaled = scaled_frequencies(c.rotary, c.scaling, c.length);
  ASSERT_EQ(std::ssize(scaled.inv_freq), c.rotary.rotary_dim / 2);
  for (int i = 0; i < c.rotary.rotary_dim / 2; ++i) {
    const auto expected = static_cast<double>(c.frequency(i));
    const double ulp =
        std::nextafter(expected, std::numeric_limits<double>::infinity()) - expected;
    EXPECT_NEAR(scaled.inv_freq[std::size_t(i)], expected, ulp) << i;
  }
  EXPECT_DOUBLE_EQ(scaled.table_scale, c.table_scale);
  EXPECT_DOUBLE_EQ(scaled.softmax_scale, c.softmax_scale);
}

// The frequencies of all cases, as one number (FNV-1a of their bits).
TEST(ScaledFrequencies, HaveTheSameBitsOnEverySystem) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const Case& c : cases())
    for (const double one : scaled_frequencies(c.rotary, c.scaling, c.length).inv_freq) {
      const auto bits = std::bit_cast<std::uint64_t>(one);
      for (int byte = 0; byte < 8; ++byte)
        hash = (hash ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  EXPECT_EQ(hash, 1395086407041477557u);
}

// At large positions, the rounding of a frequency to double adds position x frequency x 2^-53.
TEST_P(Scaling, TablesAndRotationsFollowTheOracle) {
  const Case& c = GetParam();
  const std::vector<std::int64_t> positions{0, 1, 2, 4095, 4096, 131071, 1 << 20};
  const RotaryTable table(lower(c.rotary, c.scaling, c.length), positions);
  const std::int64_t dim = c.rotary.rotary_dim, pairs = dim / 2;
  auto x = testing::random_tensor<float, 3>({std::ssize(positions), 2, dim + 3});
  const auto before = x;
  rotate(x.view(), table);
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (int i = 0; i < pairs; ++i) {
      const Real angle = Real(positions[t]) * c.frequency(i);
      const Real cos = c.table_scale * std::cos(angle), sin = c.table_scale * std::sin(angle);
      const double half_ulp = c.table_scale > 1 ? 0x1p-24 : 0x1p-25;
      const double bound = half_ulp + c.table_scale * (0x1p-46 + 0x1p-33);
      const auto row = static_cast<std::ptrdiff_t>(t);
      EXPECT_NEAR(table.cos()(0, row, i), static_cast<double>(cos), bound);
      EXPECT_NEAR(table.sin()(0, row, i), static_cast<double>(sin), bound);
      const bool halves = c.rotary.pairing == Pairing::halves;
      const std::ptrdiff_t one = halves ? i : 2 * i, two = halves ? i + pairs : 2 * i + 1;
      for (int h = 0; h < 2; ++h) {
        const Real a = before.view()(row, h, one), b = before.view()(row, h, two);
        const auto error =
            static_cast<double>(3 * 0x1p-24L * c.table_scale * (std::abs(a) + std::abs(b)));
        EXPECT_NEAR(x.view()(row, h, one), static_cast<double>(a * cos - b * sin), error);
        EXPECT_NEAR(x.view()(row, h, two), static_cast<double>(a * sin + b * cos), error);
      }
    }
}

TEST_P(Scaling, HasItsName) {
  EXPECT_TRUE(GetParam().name.starts_with(name(GetParam().scaling))) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(All, Scaling, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST(ScalingOfFactorOne, IsPlainRotaryToTheLastBit) {
  for (const std::int64_t dim : {2, 22, 64, 128, 256}) {
    const Rotary rotary{.rotary_dim = dim, .pairing = Pairing::halves, .base = 1e6};
    const std::vector<double> ones(static_cast<std::size_t>(dim / 2), 1.0);
    const RopeScaling scalings[] = {
        NoScaling{},
        LinearScaling{1},
        NtkScaling{1},
        DynamicNtkScaling{1, 64},
        YarnScaling{.factor = 1, .original_length = 4096, .softmax_mscale = 1},
        LongRopeScaling{.short_factors = ones, .long_factors = ones, .original_length = 64},
        Llama3Scaling{1, 1, 4, 8192},
        ProportionalScaling{.rotated_pairs = dim / 2},
        FrequencyFactors{ones},
        ClippedScaling{.original_length = 1, .clipped_pairs = 0},
    };
    static_assert(std::size(scalings) == std::variant_size_v<RopeScaling>);
    for (const RopeScaling& scaling : scalings)
      EXPECT_EQ(scaled_frequencies(rotary, scaling, 64),
                (ScaledFrequencies{.inv_freq = inverse_frequencies(rotary)}))
          << name(scaling) << " " << dim;
  }
}

TEST(ScalingByLength, ChangesWhereItSaysItDoes) {
  const Rotary rotary{.rotary_dim = 8, .pairing = Pairing::halves};
  const RopeScaling dynamic = DynamicNtkScaling{2, 2048};
  const RopeScaling longrope = LongRopeScaling{
      .short_factors = {1, 1, 1, 1}, .long_factors = {1, 2, 3, 4}, .original_length = 512};
  for (const RopeScaling& scaling : {dynamic, longrope}) {
    const std::int64_t at = first_change(scaling).value();
    EXPECT_EQ(lower(rotary, scaling, 1), lower(rotary, scaling, at - 1));
    EXPECT_NE(lower(rotary, scaling, 1), lower(rotary, scaling, at));
  }
  EXPECT_EQ(first_change(YarnScaling{.factor = 4, .original_length = 64}), std::nullopt);
}

TEST(ScalingErrors, NameTheFieldAndItsValue) {
  const auto message = [](const RopeScaling& scaling, std::int64_t length = 16) {
    return testing::message_of([&] {
      scaled_frequencies({.rotary_dim = 8, .pairing = Pairing::halves}, scaling, length);
    });
  };
  EXPECT_EQ(message(NoScaling{}, 0), "[scaling] length must be at least 1, got 0");
  EXPECT_EQ(message(LinearScaling{}), "[scaling] factor must be positive and finite, got 0");
  EXPECT_EQ(message(NtkScaling{-1}), "[scaling] factor must be positive and finite, got -1");
  EXPECT_EQ(message(DynamicNtkScaling{0.5, 4}),
            "[scaling] factor must be finite and at least 1, got 0.5");
  EXPECT_EQ(message(DynamicNtkScaling{2, 0}),
            "[scaling] trained_length must be at least 1, got 0");
  EXPECT_EQ(message(YarnScaling{.factor = 2}),
            "[scaling] original_length must be at least 1, got 0");
  EXPECT_EQ(message(YarnScaling{.factor = 2, .original_length = 8, .beta_fast = 0}),
            "[scaling] beta_fast must be positive and finite, got 0");
  EXPECT_EQ(message(YarnScaling{.factor = 2, .original_length = 8, .ramp = YarnRamp{}}),
            "[scaling] ramp must be whole_pairs (1) or fractional (2), got 0");
  EXPECT_EQ(message(LongRopeScaling{
                .short_factors = {1, 1}, .long_factors = {1, 1, 1, 1}, .original_length = 8}),
            "[scaling] short_factors must be one for each of 4 pairs, got 2");
  EXPECT_EQ(
      message(LongRopeScaling{
          .short_factors = {1, 1, 1, 1}, .long_factors = {1, 1, 0, 1}, .original_length = 8}),
      "[scaling] long_factors must be positive and finite, got 0");
  EXPECT_EQ(message(Llama3Scaling{8, 0, 4, 8192}),
            "[scaling] low_freq_factor must be positive and finite, got 0");
  EXPECT_EQ(message(ProportionalScaling{.rotated_pairs = 5}),
            "[scaling] rotated_pairs must be 0 to 4, got 5");
  EXPECT_EQ(message(FrequencyFactors{}),
            "[scaling] factors must be one for each of 4 pairs, got 0");
  EXPECT_EQ(message(ClippedScaling{}), "[scaling] original_length must be at least 1, got 0");
  EXPECT_EQ(message(ClippedScaling{.original_length = 8, .clipped_pairs = 5}),
            "[scaling] clipped_pairs must be 0 to 4, got 5");
}

// All pairs would take longer than anyone waits.
TEST(ScalingErrors, FrequenciesThatDoNotFitInMemoryAreRefusedAtOnce) {
  const Rotary rotary{.rotary_dim = std::int64_t{1} << 62, .pairing = Pairing::halves};
  for (const RopeScaling& scaling :
       {RopeScaling(NoScaling{}), RopeScaling(LinearScaling{2}), RopeScaling(NtkScaling{2}),
        RopeScaling(DynamicNtkScaling{2, 8}),
        RopeScaling(YarnScaling{.factor = 2, .original_length = 8}),
        RopeScaling(Llama3Scaling{8, 1, 4, 8192}),
        RopeScaling(ProportionalScaling{.rotated_pairs = 4}),
        RopeScaling(ClippedScaling{.original_length = 8})})
    EXPECT_THROW(scaled_frequencies(rotary, scaling, 16), std::exception) << name(scaling);
}

TEST(Scaling, AnInverseDirectionRotatesBack) {
  const ScaledRotary forward{.rotary = {.rotary_dim = 8, .pairing = Pairing::halves},
                             .length = 16};
  ScaledRotary inverse = forward;
  inverse.direction = Direction::inverse;
  const auto there = lower(forward).inv_freq, back = lower(inverse).inv_freq;
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_EQ(back[i], -there[i]);
  inverse.direction = {};
  EXPECT_EQ(testing::message_of([&] { lower(inverse); }),
            "[scaling] direction must be forward (1) or inverse (2), got 0");
}

}  // namespace scaling_test
}  // namespace gnomon
