#include "gnomon/cuda/table.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cuda/devices.h"
#include "gnomon/angles.h"

namespace gnomon {
namespace cuda_table_test {

using std::int64_t;
using testing::as_double;
using testing::in_all_orders;
using testing::message_of;
using testing::same_bits;

// cos or sin of position x frequency, in 256 bits.
double exact(int (*function)(mpfr_t, const mpfr_t, mpfr_rnd_t), int64_t position,
             double frequency) {
  mpfr_t x, f;
  mpfr_init2(x, 256);
  mpfr_init2(f, 256);
  mpfr_set_si(x, position, MPFR_RNDN);
  mpfr_set_d(f, frequency, MPFR_RNDN);
  mpfr_mul(x, x, f, MPFR_RNDN);
  function(x, x, MPFR_RNDN);
  const double result = mpfr_get_d(x, MPFR_RNDN);
  mpfr_clear(x);
  mpfr_clear(f);
  return result;
}

// Half an ulp of T at x.
template <typename T>
double half_step(double x) {
  constexpr int bits = std::is_same_v<T, float> ? 24 : std::is_same_v<T, Half> ? 11 : 8;
  constexpr int least = std::is_same_v<T, Half> ? -14 : -126;
  const int exponent = x == 0 ? least : std::max(std::ilogb(x), least);
  return std::ldexp(1.0, exponent - bits);
}

template <typename T>
std::vector<T> filled(const cuda::Frequencies& frequencies, int64_t begin, int64_t tokens) {
  const int64_t pairs = frequencies.host().rotary_dim() / 2;
  const cuda::Array<T> table(static_cast<std::size_t>(2 * tokens * pairs));
  const View<T, 2> cos(table.data(), {tokens, pairs}),
      sin(table.data() + tokens * pairs, {tokens, pairs});
  cuda::fill_cos_sin(frequencies, begin, cuda::on_device(cos), cuda::on_device(sin));
  return table.to_host();
}
template <typename T>
std::vector<T> filled_at(const cuda::Frequencies& frequencies,
                         const std::vector<int64_t>& positions, int64_t axes = 1) {
  const int64_t pairs = frequencies.host().rotary_dim() / 2,
                tokens = std::ssize(positions) / axes;
  const cuda::Array<int64_t> there{std::span<const int64_t>(positions)};
  const cuda::Array<T> table(static_cast<std::size_t>(2 * tokens * pairs));
  const View<T, 2> cos(table.data(), {tokens, pairs}),
      sin(table.data() + tokens * pairs, {tokens, pairs});
  const View<const int64_t, 2> at(there.data(), {axes, tokens});
  cuda::fill_cos_sin(frequencies, cuda::on_device(at), cuda::on_device(cos),
                     cuda::on_device(sin));
  return table.to_host();
}

template <typename T>
void expect_exact(const std::vector<T>& table, const RotaryFrequencies& f,
                  const std::vector<int64_t>& positions) {
  const std::size_t pairs = f.inv_freq.size(), sines = positions.size() * pairs;
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < pairs; ++i)
      for (const bool sine : {false, true}) {
        const double want =
            f.table_scale * exact(sine ? mpfr_sin : mpfr_cos, positions[t], f.inv_freq[i]);
        const double got = as_double(table[(sine ? sines : 0) + t * pairs + i]);
        ASSERT_LE(std::fabs(got - want), half_step<T>(want) + f.table_scale * 0x1p-46)
            << "position " << positions[t] << ", pair " << i;
      }
}

template <typename T>
class CudaTable : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(CudaTable, Types);

TYPED_TEST(CudaTable, IsWithinTheBound) {
  for (const int64_t rotary_dim : {16, 6, 128})
    for (const int64_t begin :
         {int64_t{0}, int64_t{-70}, int64_t{131'072 - 5}, (int64_t{1} << 31) - 150}) {
      RotaryFrequencies f = lower(Rotary{rotary_dim, Pairing::halves, 500'000.0});
      f.table_scale = begin ? 1.0 : 1.3465;
      const cuda::Frequencies frequencies(f);
      const int64_t tokens = rotary_dim == 128 ? 70 : 151;
      const auto table = in_all_orders<TypeParam>(
          [&] { return filled<TypeParam>(frequencies, begin, tokens); });
      const std::vector<int64_t> positions = testing::iota(begin, tokens);
      expect_exact(table, f, positions);
      EXPECT_TRUE(same_bits(table, filled_at<TypeParam>(frequencies, positions)));
    }
}

// One entry has the same bits in tables of any length and beginning.
TEST(CudaTableRows, DependOnlyOnTheirPosition) {
  const cuda::Frequencies frequencies(lower(Rotary{8, Pairing::halves}));
  const auto all = filled<float>(frequencies, 0, 700);
  const auto some = filled<float>(frequencies, 333, 3);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(some[i], all[333 * 4 + i]);
}

TEST(CudaTableAt, HasAxesAndRefusesFarPositions) {
  RotaryFrequencies f = lower(Rotary{8, Pairing::halves});
  f.axes = {0, 1, 0, 1};
  const cuda::Frequencies frequencies(f);
  const int64_t far = int64_t{1} << 31;
  const auto table = filled_at<float>(frequencies, {7, far + 1, 100, -far}, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    const int64_t first = i % 2 ? 100 : 7;
    EXPECT_NEAR(table[i], exact(mpfr_cos, first, f.inv_freq[i]), 0x1p-24);
    EXPECT_EQ(std::isnan(table[4 + i]), i % 2 == 0);
  }
}

TEST(CudaRotaryTable, IsThatOfTheHost) {
  RotaryFrequencies f = lower(Rotary{16, Pairing::adjacent, 10'000.0, 4});
  const std::vector<int64_t> positions = testing::iota(10, 9);
  const gnomon::RotaryTable host(f, positions);
  const cuda::RotaryTable copied(host), made(f, 10, 9);
  std::vector<double> numbers = testing::random_numbers(9 * 2 * 20);
  const auto x = testing::elements<float>(numbers);
  const auto rotated = [&](const cuda::RotaryTable& table) {
    const cuda::Array<float> there{std::span<const float>(x)};
    cuda::rotate(cuda::on_device(View<float, 3>(there.data(), {9, 2, 20})), table.rotation());
    return there.to_host();
  };
  std::vector<float> want = x;
  rotate(View<float, 3>(want.data(), {9, 2, 20}), host);
  const auto by_copy = rotated(copied), by_made = rotated(made);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(by_copy[i], want[i], 1e-6);
    EXPECT_NEAR(by_made[i], want[i], 1e-6);
  }
  EXPECT_EQ(copied.tokens(), 9);
}

TEST(CudaTableErrors, NameTheRule) {
  const cuda::Frequencies frequencies(lower(Rotary{8, Pairing::halves}));
  const cuda::Array<float> there(64);
  const View<float, 2> good(there.data(), {2, 4}), bad(there.data(), {2, 5});
  const auto says = [&](int64_t begin, const View<float, 2>& view) {
    return message_of([&] {
      cuda::fill_cos_sin(frequencies, begin, cuda::on_device(view), cuda::on_device(view));
    });
  };
  EXPECT_EQ(says(0, bad), "[angles] cos must be [T, R/2] with R/2 = 4, got [2, 5]");
  EXPECT_EQ(says(int64_t{1} << 31, good),
            "[angles] positions must be at most 2^31 in magnitude, got 2147483649");
  RotaryFrequencies growing = lower(Rotary{8, Pairing::halves});
  growing.growth = {1, 1, 1, 1};
  EXPECT_EQ(message_of([&] { cuda::Frequencies there(growing); }),
            "[rotary] growth must be empty for rotation without a table, got 4");
}

}  // namespace cuda_table_test
}  // namespace gnomon
