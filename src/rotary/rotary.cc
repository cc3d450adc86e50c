#include "gnomon/rotary/rotary.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"

namespace gnomon {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

void check(const Rotary& rotary) {
  if (rotary.dim % 2) refuse("rotary", "dim must be even", rotary.dim);
  if (rotary.dim < 2) refuse("rotary", "dim must be at least 2", rotary.dim);
  if (rotary.pairing != Pairing::halves && rotary.pairing != Pairing::adjacent)
    refuse("rotary", "pairing must be halves (1) or adjacent (2)",
           static_cast<int>(rotary.pairing));
  if (!(rotary.base > 1) || !std::isfinite(rotary.base))
    refuse("rotary", "base must be finite and greater than 1", rotary.base);
  if (rotary.first < 0) refuse("rotary", "first must not be negative", rotary.first);
}

// `batch` rows of `positions`, all cosines and then all sines.
std::vector<float> fill(const Rotary& rotary, std::span<const double> inv_freq,
                        std::span<const std::int64_t> positions, double table_scale,
                        Angles angles) {
  const auto tokens = static_cast<std::ptrdiff_t>(positions.size());
  const std::ptrdiff_t pairs = rotary.dim / 2;
  std::vector<float> values(size(2 * tokens * pairs));
  const View<float, 2> cosines(values.data(), {tokens, pairs});
  const View<float, 2> sines(values.data() + tokens * pairs, {tokens, pairs});
  fill_cos_sin(positions, inv_freq, cosines, sines, angles, table_scale);
  return values;
}

}  // namespace

std::vector<double> inverse_frequencies(const Rotary& rotary) {
  check(rotary);
  std::vector<double> inv_freq(size(rotary.dim / 2));
  for (std::int64_t i = 0; i < rotary.dim / 2; ++i) {
    const long double exponent =
        static_cast<long double>(-2 * i) / static_cast<long double>(rotary.dim);
    inv_freq[size(i)] =
        static_cast<double>(std::pow(static_cast<long double>(rotary.base), exponent));
  }
  return inv_freq;
}

RotaryTable::RotaryTable(const Rotary& rotary, const Positions& positions, Angles angles)
    : RotaryTable(rotary, inverse_frequencies(rotary), positions, 1.0, angles) {}

RotaryTable::RotaryTable(const Rotary& rotary, std::span<const std::int64_t> positions,
                         Angles angles)
    : rotary_(rotary),
      batch_(1),
      tokens_(static_cast<std::int64_t>(positions.size())),
      values_(fill(rotary, inverse_frequencies(rotary), positions, 1.0, angles)) {}

RotaryTable::RotaryTable(const Rotary& rotary, std::span<const double> inv_freq,
                         const Positions& positions, double table_scale, Angles angles)
    : rotary_(rotary), batch_(positions.batch), tokens_(positions.tokens) {
  check(rotary);
  if (std::ssize(inv_freq) != rotary.dim / 2)
    refuse("rotary", "inv_freq must have " + std::to_string(rotary.dim / 2) + " frequencies",
           std::ssize(inv_freq));
  if (batch_ < 0) refuse("rotary", "positions must not have a negative batch", batch_);
  if (tokens_ < 0) refuse("rotary", "positions must not have negative tokens", tokens_);
  std::int64_t ids = 0;
  if (__builtin_mul_overflow(batch_, tokens_, &ids) || std::ssize(positions.ids) != ids)
    refuse("rotary",
           "positions must have batch x tokens = " + std::to_string(batch_) + " x " +
               std::to_string(tokens_) + " ids",
           std::ssize(positions.ids));
  if (!std::isfinite(table_scale)) refuse("rotary", "table_scale must be finite", table_scale);
  values_ = fill(rotary, inv_freq, positions.ids, table_scale, angles);
}

View<const float, 3> RotaryTable::cos() const noexcept {
  return {values_.data(), {batch_, tokens_, rotary_.dim / 2}};
}

View<const float, 3> RotaryTable::sin() const noexcept {
  return {values_.data() + batch_ * tokens_ * (rotary_.dim / 2),
          {batch_, tokens_, rotary_.dim / 2}};
}

}  // namespace gnomon
