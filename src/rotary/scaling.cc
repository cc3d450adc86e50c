#include "gnomon/rotary/scaling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/wide.h"
#include "src/rotary/check.h"

namespace gnomon {

using internal::to_size;
namespace {

using rotary_internal::check;

using Real = internal::Wide;
constexpr Real two_pi{2 * internal::wide_pi.high(), 2 * internal::wide_pi.low()};
Real real(std::int64_t number) { return static_cast<double>(number); }

void check_positive(const char* what, double value) {
  if (!(value > 0) || !std::isfinite(value))
    refuse("scaling", std::string(what) + " must be positive and finite", value);
}

void check_length(const char* what, std::int64_t length) {
  if (length < 1) refuse("scaling", std::string(what) + " must be at least 1", length);
}

void check_factors(const char* what, const std::vector<double>& factors, std::int64_t pairs) {
  if (std::ssize(factors) != pairs)
    refuse("scaling",
           std::string(what) + " must be one for each of " + std::to_string(pairs) + " pairs",
           std::ssize(factors));
  for (const double factor : factors) check_positive(what, factor);
}

// Returns base^(-2i/R).
class Frequencies {
 public:
  explicit Frequencies(const Rotary& rotary)
      : step_(log(Real(rotary.base)) * -2 / real(rotary.rotary_dim)) {}
  Real operator()(std::int64_t i) const { return exp(step_ * real(i)); }

 private:
  Real step_;
};

template <typename Divisor>
std::vector<double> divided(const Rotary& rotary, Divisor divisor) {
  std::vector<double> inv_freq;
  inv_freq.reserve(to_size(rotary.rotary_dim / 2));  // throws at once if it does not fit
  const Frequencies frequency(rotary);
  for (std::int64_t i = 0; i < rotary.rotary_dim / 2; ++i)
    inv_freq.push_back(static_cast<double>(frequency(i) / divisor(i)));
  return inv_freq;
}

// Returns the factor on a frequency between unchanged (share 0) and divided by `factor` (share
// 1). Exactly 1 if `factor` is 1.
Real slowed(Real share, double factor) { return 1 - share * (1 - 1 / Real(factor)); }

// b' = b factor^(R/(R-2)), so f_i' = f_i factor^(-2i/(R-2)).
std::vector<double> ntk(const Rotary& rotary, Real factor) {
  std::vector<double> inv_freq{1.0};
  inv_freq.reserve(to_size(rotary.rotary_dim / 2));
  const Frequencies frequency(rotary);
  const Real step = log(factor) * -2;
  for (std::int64_t i = 1; i < rotary.rotary_dim / 2; ++i)
    inv_freq.push_back(
        static_cast<double>(frequency(i) * exp(step * real(i) / real(rotary.rotary_dim - 2))));
  return inv_freq;
}

double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

ScaledFrequencies apply(const Rotary& rotary, const NoScaling&, std::int64_t) {
  return {.inv_freq = inverse_frequencies(rotary)};
}

ScaledFrequencies apply(const Rotary& rotary, const LinearScaling& s, std::int64_t) {
  check_positive("factor", s.factor);
  return {.inv_freq = divided(rotary, [&](std::int64_t) { return Real(s.factor); })};
}

ScaledFrequencies apply(const Rotary& rotary, const NtkScaling& s, std::int64_t) {
  check_positive("factor", s.factor);
  return {.inv_freq = ntk(rotary, s.factor)};
}

ScaledFrequencies apply(const Rotary& rotary, const DynamicNtkScaling& s, std::int64_t length) {
  if (!(s.factor >= 1) || !std::isfinite(s.factor))
    refuse("scaling", "factor must be finite and at least 1", s.factor);
  check_length("trained_length", s.trained_length);
  const Real longer = real(std::max(length, s.trained_length)) / real(s.trained_length);
  return {.inv_freq = ntk(rotary, 1 + Real(s.factor) * (longer - 1))};
}

ScaledFrequencies apply(const Rotary& rotary, const YarnScaling& s, std::int64_t) {
  check_positive("factor", s.factor);
  check_length("original_length", s.original_length);
  check_positive("beta_fast", s.beta_fast);
  check_positive("beta_slow", s.beta_slow);
  if (s.ramp != YarnRamp::whole_pairs && s.ramp != YarnRamp::fractional)
    refuse("scaling", "ramp must be whole_pairs (1) or fractional (2)",
           static_cast<int>(s.ramp));
  // Returns the pair that makes `times` full rotations within the original length.
  const auto pair_with = [&](Real times) {
    return real(rotary.rotary_dim) * log(real(s.original_length) / (times * two_pi)) /
           (2 * log(Real(rotary.base)));
  };
  Real low = pair_with(s.beta_fast), high = pair_with(s.beta_slow);
  if (s.ramp == YarnRamp::whole_pairs) low = floor(low), high = ceil(high);
  low = std::max<Real>(low, 0);
  high = std::min<Real>(high, real(rotary.rotary_dim - 1));  // as released: not R/2 - 1
  if (low == high) high = high + 0.001;
  ScaledFrequencies scaled;
  scaled.inv_freq.reserve(to_size(rotary.rotary_dim / 2));
  const Frequencies frequency(rotary);
  for (std::int64_t i = 0; i < rotary.rotary_dim / 2; ++i) {
    const Real ramp = std::clamp<Real>((real(i) - low) / (high - low), 0, 1);
    scaled.inv_freq.push_back(static_cast<double>(frequency(i) * slowed(ramp, s.factor)));
  }
  if (s.attention_factor) {
    scaled.table_scale = *s.attention_factor;
  } else if (s.mscale != 0 && s.mscale_all_dim != 0) {
    scaled.table_scale =
        yarn_magnitude(s.factor, s.mscale) / yarn_magnitude(s.factor, s.mscale_all_dim);
  } else {
    scaled.table_scale = yarn_magnitude(s.factor, 1);
  }
  const double softmax = yarn_magnitude(s.factor, s.softmax_mscale);
  scaled.softmax_scale = softmax * softmax;
  return scaled;
}

ScaledFrequencies apply(const Rotary& rotary, const LongRopeScaling& s, std::int64_t length) {
  if (s.original_length < 2)  // its logarithm divides
    refuse("scaling", "original_length must be at least 2", s.original_length);
  check_positive("factor", s.factor);
  check_factors("short_factors", s.short_factors, rotary.rotary_dim / 2);
  check_factors("long_factors", s.long_factors, rotary.rotary_dim / 2);
  const bool extended = length > s.original_length;
  const auto& factors = extended ? s.long_factors : s.short_factors;
  ScaledFrequencies scaled{
      .inv_freq = divided(rotary, [&](std::int64_t i) { return Real{factors[to_size(i)]}; })};
  const auto& given =
      extended && s.long_attention_factor ? s.long_attention_factor : s.attention_factor;
  if (given)
    scaled.table_scale = *given;
  else if (s.factor > 1)
    scaled.table_scale =
        std::sqrt(1 + std::log(s.factor) / std::log(static_cast<double>(s.original_length)));
  return scaled;
}

ScaledFrequencies apply(const Rotary& rotary, const Llama3Scaling& s, std::int64_t) {
  check_positive("factor", s.factor);
  check_length("original_length", s.original_length);
  check_positive("low_freq_factor", s.low_freq_factor);
  check_positive("high_freq_factor", s.high_freq_factor);
  ScaledFrequencies scaled;
  scaled.inv_freq.reserve(to_size(rotary.rotary_dim / 2));
  const Frequencies frequency(rotary);
  for (std::int64_t i = 0; i < rotary.rotary_dim / 2; ++i) {
    const Real plain = frequency(i);
    const Real rotations = real(s.original_length) * plain / two_pi;
    const Real low = s.low_freq_factor, high = s.high_freq_factor;
    Real stays = rotations < low ? 0 : 1;
    if (!(rotations < low) && !(high < rotations) && low < high)
      stays = (rotations - low) / (high - low);
    scaled.inv_freq.push_back(static_cast<double>(plain * slowed(1 - stays, s.factor)));
  }
  return scaled;
}

ScaledFrequencies apply(const Rotary& rotary, const ProportionalScaling& s, std::int64_t) {
  check_positive("factor", s.factor);
  if (s.rotated_pairs < 0 || s.rotated_pairs > rotary.rotary_dim / 2)
    refuse("scaling", "rotated_pairs must be 0 to " + std::to_string(rotary.rotary_dim / 2),
           s.rotated_pairs);
  ScaledFrequencies scaled{.inv_freq =
                               divided(rotary, [&](std::int64_t) { return Real(s.factor); })};
  std::fill(scaled.inv_freq.begin() + s.rotated_pairs, scaled.inv_freq.end(), 0.0);
  return scaled;
}

ScaledFrequencies apply(const Rotary& rotary, const FrequencyFactors& s, std::int64_t) {
  check_factors("factors", s.factors, rotary.rotary_dim / 2);
  return {.inv_freq =
              divided(rotary, [&](std::int64_t i) { return Real{s.factors[to_size(i)]}; })};
}

ScaledFrequencies apply(const Rotary& rotary, const ClippedScaling& s, std::int64_t) {
  check_length("original_length", s.original_length);
  const std::int64_t pairs = rotary.rotary_dim / 2;
  std::int64_t clipped = s.clipped_pairs.value_or(0);
  if (clipped < 0 || clipped > pairs)
    refuse("scaling", "clipped_pairs must be 0 to " + std::to_string(pairs), clipped);
  ScaledFrequencies scaled{.inv_freq = inverse_frequencies(rotary)};  // throws at once
  const Frequencies frequency(rotary);
  const Real slow = two_pi / real(s.original_length);
  while (!s.clipped_pairs && clipped < pairs && frequency(pairs - 1 - clipped) < slow)
    ++clipped;
  for (std::int64_t m = 1; m < clipped; ++m) {
    const std::int64_t i = pairs - clipped + m;
    // (1 + cos(pi m / n)) / 2 = sin(pi (n - m) / 2n)^2, without cancellation.
    const Real kept = sin(internal::wide_pi * real(clipped - 1 - m) / (2 * real(clipped - 1)));
    scaled.inv_freq[to_size(i)] = static_cast<double>(frequency(i) * kept * kept);
  }
  return scaled;
}

}  // namespace

std::string_view name(const RopeScaling& scaling) noexcept {
  static constexpr std::string_view names[] = {"none",    "linear",   "ntk",    "dynamic",
                                               "yarn",    "longrope", "llama3", "proportional",
                                               "factors", "clipped"};
  static_assert(std::size(names) == std::variant_size_v<RopeScaling>);
  return names[scaling.index()];
}

ScaledFrequencies scaled_frequencies(const Rotary& rotary, const RopeScaling& scaling,
                                     std::int64_t length) {
  check_length("length", length);
  check(rotary);
  return std::visit([&](const auto& one) { return apply(rotary, one, length); }, scaling);
}

RotaryFrequencies lower(const Rotary& rotary, const RopeScaling& scaling, std::int64_t length) {
  ScaledFrequencies scaled = scaled_frequencies(rotary, scaling, length);
  return {.pairing = rotary.pairing,
          .head_offset = rotary.head_offset,
          .inv_freq = std::move(scaled.inv_freq),
          .table_scale = scaled.table_scale};
}

RotaryFrequencies lower(const ScaledRotary& scaled) { return lower(scaled, scaled.length); }

RotaryFrequencies lower(const ScaledRotary& scaled, std::int64_t length) {
  RotaryFrequencies result = lower(scaled.rotary, scaled.scaling, length);
  result.axes = scaled.axes;
  switch (scaled.direction) {
    case Direction::inverse:
      for (double& frequency : result.inv_freq) frequency = -frequency;
      [[fallthrough]];
    case Direction::forward:
      return result;
  }
  refuse("scaling", "direction must be forward (1) or inverse (2)",
         static_cast<int>(scaled.direction));
}

std::optional<std::int64_t> first_change(const RopeScaling& scaling) noexcept {
  if (const auto* dynamic = std::get_if<DynamicNtkScaling>(&scaling))
    return dynamic->trained_length + 1;
  if (const auto* longrope = std::get_if<LongRopeScaling>(&scaling))
    if (longrope->short_factors != longrope->long_factors ||
        (longrope->long_attention_factor &&
         longrope->long_attention_factor != longrope->attention_factor))
      return longrope->original_length + 1;
  return std::nullopt;
}

}  // namespace gnomon
