// Tests the layouts of a table of angles and their rounding: every layout, element type,
// instruction set and odd number of pairs gives the same bits and writes nothing else.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <map>
#include <random>

#include "gnomon/angles.h"
#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace angles_layouts_test {

using testing::as_double;
using testing::half_ulp;
using testing::iota;

struct Wave {
  double cosine, sine;
};

// Computed in 256 bits, rounded to double.
Wave oracle(double position, double frequency) {
  static std::map<std::pair<double, double>, Wave> known;
  const auto [entry, is_new] = known.try_emplace({position, frequency});
  if (!is_new) return entry->second;
  mpfr_t angle, cosine, sine;
  mpfr_inits2(256, angle, cosine, sine, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_d(angle, position, MPFR_RNDN);
  mpfr_mul_d(angle, angle, frequency, MPFR_RNDN);
  mpfr_sin_cos(sine, cosine, angle, MPFR_RNDN);
  entry->second = {mpfr_get_d(cosine, MPFR_RNDN), mpfr_get_d(sine, MPFR_RNDN)};
  mpfr_clears(angle, cosine, sine, static_cast<mpfr_ptr>(nullptr));
  return entry->second;
}

// The first `count` of 130 frequencies.
std::vector<double> frequencies_of(std::int64_t count) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < count; ++i)
    frequencies.push_back(std::pow(1e4, -static_cast<double>(i) / 130));
  return frequencies;
}

template <typename P, typename T>
void fill(const std::vector<P>& positions, std::int64_t count, View<T, 2> cosines,
          View<T, 2> sines, double scale = 1) {
  fill_cos_sin(std::span<const P>(positions), std::span<const double>(frequencies_of(count)),
               cosines, sines, Angles::exact, scale);
}

// [T, N] cosines and sines, in elements of one array.
struct Layout {
  const char* name;
  std::ptrdiff_t cosines, sines, row, column, size;
};
std::vector<Layout> layouts(std::ptrdiff_t tokens, std::ptrdiff_t count) {
  const std::ptrdiff_t all = tokens * count, wide = 3 * count + 5;
  return {
      {"apart", 0, all, count, 1, 2 * all},
      {"apart in wider rows, unaligned", 1, 1 + count, wide, 1, tokens * wide},
      {"cosine first", 0, 1, 2 * count, 2, 2 * all},
      {"sine first", 1, 0, 2 * count, 2, 2 * all},
      {"sine first in wider rows, unaligned", 4, 3, wide, 2, tokens * wide},
      {"every second, not beside", 0, 3, 2 * count + 4, 2, tokens * (2 * count + 4)},
      {"every third", 2, 1, wide, 3, tokens * wide},
      {"columns", 0, all, 1, tokens, 2 * all},
      {"rows upwards", all - count, 2 * all - count, -count, 1, 2 * all},
      {"columns backwards", count - 1, all + count - 1, count, -1, 2 * all},
  };
}

template <typename T>
class AnglesOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(AnglesOf, Types);

TYPED_TEST(AnglesOf, EveryLayoutHasTheBitsOfTheFirstAndTouchesNothingElse) {
  using T = TypeParam;
  const T untouched = T(7.0f);
  const auto long_run = iota(4090, 70);
  std::vector<std::vector<std::int64_t>> tokens{{131'071}, {5, -64}, iota(62, 5), long_run};
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const auto& positions : tokens)
      for (const std::int64_t count : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 64, 65, 130}) {
        if (count > 17 && &positions == &tokens[1]) continue;
        std::vector<T> first;
        const auto rows = std::ssize(positions);
        for (const Layout& layout : layouts(rows, count)) {
          SCOPED_TRACE(std::string(name(isa)) + ", " + layout.name + ", " +
                       std::to_string(rows) + " x " + std::to_string(count));
          std::vector<T> values(static_cast<std::size_t>(layout.size) + 2, untouched);
          const auto part = [&](std::ptrdiff_t begin) {
            return View<T, 2>(values.data() + 1 + begin, {rows, count},
                              {layout.row, layout.column});
          };
          const View<T, 2> cosines = part(layout.cosines), sines = part(layout.sines);
          fill(positions, count, cosines, sines);
          std::vector<T> entries;
          for (std::ptrdiff_t t = 0; t < rows; ++t)
            for (std::ptrdiff_t i = 0; i < count; ++i)
              for (const View<T, 2>& view : {cosines, sines}) {
                entries.push_back(view(t, i));
                view(t, i) = untouched;
              }
          for (const T& value : values) ASSERT_EQ(value, untouched);
          if (first.empty()) {
            first = entries;
            std::size_t next = 0;
            for (const std::int64_t position : positions)
              for (const double frequency : frequencies_of(count)) {
                const auto [cosine, sine] = oracle(static_cast<double>(position), frequency);
                for (const double expected : {cosine, sine}) {
                  const double smallest = std::is_same_v<T, Half> ? 0x1p-25 : 0.0;
                  const double bound =
                      std::fmax(half_ulp<T> * std::fabs(expected), smallest) + 0x1p-46;
                  ASSERT_LE(std::fabs(as_double(first[next++]) - expected), bound);
                }
              }
          }
          ASSERT_EQ(entries, first);
        }
      }
  }
}

// At position 0 a cosine is the scale itself, so the scale tests each rounding.
TYPED_TEST(AnglesOf, EntriesAreRoundedOnceToNearestEven) {
  using T = TypeParam;
  constexpr int mantissa = std::is_same_v<T, Half> ? 10 : std::is_same_v<T, BFloat16> ? 7 : 23;
  std::vector<double> scales{0.0,     1.0,      65'504,   65'519.99, 65'520,
                             1e6,     0x1p-14,  0x1p-24,  0x1p-25,   0x1.8p-25,
                             0x1p-26, 0x1p-133, 0x1p-134, 0x1.8p-133};
  std::mt19937_64 engine(3);
  const int least = std::is_same_v<T, Half> ? -27 : -120;
  for (int i = 0; i < 600; ++i) {
    const int exponent = least + static_cast<int>(engine() % static_cast<unsigned>(14 - least));
    const auto bits = static_cast<double>(engine() % (std::uint64_t{1} << mantissa));
    // A number of T, the tie above it, and the numbers next to the tie.
    const double number = std::ldexp(std::ldexp(bits, -mantissa) + 1, exponent);
    const double tie = number + std::ldexp(0.5, exponent - mantissa);
    for (const double scale : {number, tie, std::nextafter(tie, 0), std::nextafter(tie, 1e9),
                               tie * (1 - 0x1p-30), tie * (1 + 0x1p-30)})
      scales.push_back(scale);
    // Half of the least positive number.
    const double unit = std::ldexp(1.0, std::is_same_v<T, Half> ? -25 : -134);
    if (exponent < -14) scales.push_back(unit * std::floor(number / unit));
  }
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const double size : scales)
      for (const double scale : {size, -size}) {
        constexpr std::size_t pairs = 19;  // two vectors, and a rest
        std::array<T, pairs> cosine, sine;
        fill(std::vector<std::int64_t>{0}, pairs, View<T, 2>(cosine.data(), {1, pairs}),
             View<T, 2>(sine.data(), {1, pairs}), scale);
        for (std::size_t i = 0; i < pairs; ++i) {
          ASSERT_EQ(as_double(cosine[i]), as_double(static_cast<T>(scale)))
              << name(isa) << ", scale " << std::hexfloat << scale;
          ASSERT_EQ(as_double(sine[i]), 0.0);
        }
      }
  }
}

TYPED_TEST(AnglesOf, OneTokenHasTheBitsOfARun) {
  using T = TypeParam;
  const auto run = iota(-70, 300);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const std::int64_t count : {5, 64, 67}) {
      const auto all = static_cast<std::size_t>(count);
      testing::Tensor<T, 2> cosines({300, count}), sines({300, count});
      fill(run, count, cosines.view(), sines.view(), 1.2);
      for (const std::size_t begin : {0, 5, 6, 70, 133, 299})
        for (const std::size_t some : {1, 2, 3, 4, 130}) {
          if (begin + some > run.size()) continue;
          const std::vector<std::int64_t> part(run.begin() + std::ptrdiff_t(begin),
                                               run.begin() + std::ptrdiff_t(begin + some));
          std::vector<T> both(2 * some * all);  // interleaved
          const auto rows = static_cast<std::ptrdiff_t>(some);
          const View<T, 2> cosine(both.data(), {rows, count}, {2 * count, 2});
          const View<T, 2> sine(both.data() + 1, {rows, count}, {2 * count, 2});
          fill(part, count, cosine, sine, 1.2);
          for (std::ptrdiff_t t = 0; t < rows; ++t)
            for (std::ptrdiff_t i = 0; i < count; ++i) {
              const auto row = t + static_cast<std::ptrdiff_t>(begin);
              ASSERT_EQ(cosine(t, i), cosines.view()(row, i)) << some;
              ASSERT_EQ(sine(t, i), sines.view()(row, i)) << some;
            }
        }
    }
  }
}

TYPED_TEST(AnglesOf, TheSameBitsForAnyNumberOfThreadsAndOrder) {
  using T = TypeParam;
  const int before = threads();
  std::vector<std::int64_t> shuffled = iota(-100, 1500);
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(5));
  const std::vector<double> continuous(shuffled.begin(), shuffled.end());
  const auto table = [&]<typename P>(const std::vector<P>& positions) {
    std::vector<T> values(2 * 1500 * 67);
    fill(positions, 67, View<T, 2>(values.data() + 1, {1500, 67}, {134, 2}),
         View<T, 2>(values.data(), {1500, 67}, {134, 2}));
    return values;
  };
  set_threads(1);
  const auto run = table(iota(-100, 1500)), other = table(shuffled), third = table(continuous);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_TRUE(table(iota(-100, 1500)) == run);
    EXPECT_TRUE(table(shuffled) == other);
    EXPECT_TRUE(table(continuous) == third);
  }
  set_threads(before);
  for (std::size_t t = 0; t < shuffled.size(); ++t) {
    const auto from = run.begin() + (shuffled[t] + 100) * 134;
    ASSERT_TRUE(std::equal(from, from + 134, other.begin() + std::ptrdiff_t(t) * 134));
  }
}

}  // namespace angles_layouts_test
}  // namespace gnomon
