#include "gnomon/bias/sandwich.h"

#include <cmath>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/bias/strip.h"

namespace gnomon {
namespace {

using std::int64_t;

// Distances of 64 cosines in a piece of work: some 50 us.
constexpr int64_t sandwich_grain = 32;

void check(const Sandwich& sandwich) {
  if (sandwich.heads < 1) refuse("sandwich", "heads must be at least 1", sandwich.heads);
  if (sandwich.width < 2 || sandwich.width % 2)
    refuse("sandwich", "width must be positive and even", sandwich.width);
  if (!(sandwich.base > 1) || !std::isfinite(sandwich.base))
    refuse("sandwich", "base must be greater than 1 and finite", sandwich.base);
}

}  // namespace

std::vector<double> compression_ratios(const Sandwich& sandwich) {
  check(sandwich);
  std::vector<double> ratios;
  ratios.reserve(internal::to_size(sandwich.heads));  // throws at once if it does not fit
  for (int64_t h = 1; h <= sandwich.heads; ++h)
    ratios.push_back(8 * static_cast<double>(h) / static_cast<double>(sandwich.heads));
  return ratios;
}

StripBias lower(const Sandwich& sandwich, int64_t min_distance, int64_t count) {
  const std::vector<double> ratios = compression_ratios(sandwich);
  StripBias strip = internal::empty_strip("sandwich", sandwich.heads, min_distance, count);
  std::vector<double> frequencies;
  frequencies.reserve(internal::to_size(sandwich.width / 2));
  for (int64_t i = 1; i <= sandwich.width / 2; ++i)
    frequencies.push_back(std::pow(
        sandwich.base, -2 * static_cast<double>(i) / static_cast<double>(sandwich.width)));
  parallel_for(count, sandwich_grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto distance = static_cast<double>(min_distance + n);
      double sum = 0;  // sum of cos x - 1 = -2 sin^2 (x / 2), accurate near 0
      for (const double frequency : frequencies) {
        const double sine = std::sin(distance * frequency / 2);
        sum -= 2 * sine * sine;
      }
      for (int64_t h = 0; h < sandwich.heads; ++h)
        strip.values[static_cast<std::size_t>(h * count + n)] =
            sum / ratios[static_cast<std::size_t>(h)];
    }
  });
  return strip;
}

}  // namespace gnomon
