#include "gnomon/rotary/cached_keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/rotary/check.h"
#include "src/rotary/growth.h"
#include "src/rotary/key_shift.h"
#include "src/rotary/rotate.h"

namespace gnomon {

using internal::to_size;
namespace {

using rotary_internal::growth;

constexpr std::int64_t chunk = 512;  // tokens whose cosines and sines are stored at a time

std::int32_t axis_of(const RotaryFrequencies& frequencies, std::size_t pair) {
  return frequencies.axes.empty() ? 0 : frequencies.axes[pair];
}

// Cosines and sines of the difference between two rotations, for a chunk of tokens at a time.
class DifferenceAngles {
 public:
  // Reads only the axes of `frequencies`. frequencies: [R/2].
  DifferenceAngles(const RotaryFrequencies& frequencies, const std::vector<double>& inv_freq,
                   std::int64_t tokens)
      : pairs_(std::ssize(inv_freq)), tokens_(std::min(tokens, chunk)) {
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const std::size_t axis = to_size(axis_of(frequencies, i));
      if (axes_.size() <= axis) axes_.resize(axis + 1);
      axes_[axis].inv_freq.push_back(inv_freq[i]);
      axes_[axis].columns.push_back(i);
    }
    exact_.resize(to_size(tokens_ * 2 * pairs_));
    factors_.resize(to_size(tokens_ * 2 * pairs_));
  }

  // positions(a): positions of at most a chunk of tokens on axis a. factor(i, p): factor on cos
  // and sin of pair i at position p.
  template <typename PositionsOfAxis, typename Factor>
  void fill(std::int64_t tokens, PositionsOfAxis&& positions, Factor&& factor) {
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const Axis& axis = axes_[a];
      const std::ptrdiff_t count = std::ssize(axis.columns);
      if (count == 0) continue;
      const std::span<const std::int64_t> at = positions(a);
      const View<double, 2> cosines(exact_.data(), {tokens, count});
      const View<double, 2> sines(exact_.data() + tokens * count, {tokens, count});
      fill_cos_sin(at, axis.inv_freq, cosines, sines);
      float* const cos = factors_.data();
      float* const sin = cos + tokens_ * pairs_;
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::ptrdiff_t k = 0; k < count; ++k) {
          const std::size_t i = axis.columns[to_size(k)];
          const double m = factor(i, at[to_size(t)]);
          cos[to_size(t * pairs_) + i] = static_cast<float>(m * cosines(t, k));
          sin[to_size(t * pairs_) + i] = static_cast<float>(m * sines(t, k));
        }
    }
  }

  // Views of the cosines and sines as [batch, tokens, R/2].
  rotary_internal::CosSin each(std::int64_t batch, std::int64_t tokens) const {
    const float* const cos = factors_.data();
    return {{cos, {batch, tokens, pairs_}, {0, pairs_, 1}},
            {cos + tokens_ * pairs_, {batch, tokens, pairs_}, {0, pairs_, 1}}};
  }
  // The cosines and sines of one token.
  std::vector<float> factors() && { return std::move(factors_); }

 private:
  struct Axis {
    std::vector<double> inv_freq;
    std::vector<std::size_t> columns;
  };

  std::int64_t pairs_;
  std::int64_t tokens_;
  std::vector<Axis> axes_;
  std::vector<double> exact_;   // cosines and sines of one axis
  std::vector<float> factors_;  // cos [tokens, R/2], sin [tokens, R/2]
};

void check_factor(const char* what, double factor) {
  if (!(std::fabs(factor) <= static_cast<double>(std::numeric_limits<float>::max())))
    refuse("rotary", what, factor);
}

}  // namespace

rotary_internal::KeyShift::KeyShift(const RotaryFrequencies& frequencies,
                                    std::span<const std::int64_t> deltas)
    : frequencies_(&frequencies) {
  if (deltas.empty()) refuse("rotary", "there must be one delta per axis", 0);
  rotary_internal::check(frequencies, std::ssize(deltas));
  if (std::ranges::all_of(deltas, [](std::int64_t delta) { return delta == 0; })) return;
  const auto factor = [&](std::size_t i, std::int64_t delta) {
    return std::exp(growth(frequencies, i, static_cast<double>(delta)));
  };
  for (std::size_t i = 0; i < frequencies.growth.size(); ++i)
    check_factor("the growth factor of a pair must fit in float",
                 factor(i, deltas[to_size(axis_of(frequencies, i))]));
  DifferenceAngles row(frequencies, frequencies.inv_freq, 1);
  row.fill(1, [&](std::size_t a) { return deltas.subspan(a, 1); }, factor);
  factors_ = std::move(row).factors();
}

template <typename U>
void rotary_internal::KeyShift::apply(View<U, 4> cached) const {
  if (factors_.empty()) return;
  const std::int64_t pairs = std::ssize(factors_) / 2;
  const std::array<std::int64_t, 3> shape{cached.extent(0), cached.extent(1), pairs},
      strides{0, 0, 1};
  const float* const cos = factors_.data();
  rotate_together(*frequencies_, CosSin{{cos, shape, strides}, {cos + pairs, shape, strides}},
                  InputOutput<U, U>(cached));
}
template void rotary_internal::KeyShift::apply(View<float, 4>) const;
template void rotary_internal::KeyShift::apply(View<Half, 4>) const;
template void rotary_internal::KeyShift::apply(View<BFloat16, 4>) const;
template void rotary_internal::KeyShift::apply(View<double, 4>) const;

namespace {

void check_same_layout(const RotaryFrequencies& from, const RotaryFrequencies& to) {
  const auto layout = [](const RotaryFrequencies& frequencies) {
    RotaryFrequencies plain = frequencies;
    plain.growth.clear();
    plain.inv_freq.assign(frequencies.inv_freq.size(), 0);
    plain.table_scale = 1;
    plain.centre = 0;
    if (std::ranges::all_of(plain.axes, [](std::int32_t axis) { return axis == 0; }))
      plain.axes.clear();
    return plain;
  };
  const std::string text = difference(layout(to), layout(from));
  if (!text.empty())
    refuse("rotary", "frequencies must have the same pairing, head_offset, rotary_dim and axes",
           text);
}

// positions(a, b): positions of row b on axis a, [S]. rows: 1 or B.
template <typename U, typename PositionsOfAxis>
void rerotate(View<U, 4> cached, const RotaryFrequencies& from, const RotaryFrequencies& to,
              std::int64_t axes, std::int64_t rows, PositionsOfAxis&& positions) {
  rotary_internal::check(from, axes);
  rotary_internal::check(to, axes);
  check_same_layout(from, to);
  rotary_internal::check_heads(cached, to);
  if (from.table_scale == 0)
    refuse("rotary", "from.table_scale must not be 0", from.table_scale);
  const std::int64_t tokens = cached.extent(1);
  if (from == to || tokens == 0 || rows == 0) return;
  std::vector<double> differences(to.inv_freq);
  for (std::size_t i = 0; i < differences.size(); ++i) differences[i] -= from.inv_freq[i];
  const double ratio = to.table_scale / from.table_scale;
  const bool grows = !from.growth.empty() || !to.growth.empty();
  const auto factor = [&](std::size_t i, std::int64_t p) {
    if (!grows) return ratio;
    const auto at = static_cast<double>(p);
    return ratio * std::exp(growth(to, i, at - static_cast<double>(to.centre)) -
                            growth(from, i, at - static_cast<double>(from.centre)));
  };
  // Check everything that can throw before keys are written. The factor is monotonic in the
  // position, so its maximum is at the least or the greatest position.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    std::int64_t least = most, greatest = -most;
    for (std::int64_t b = 0; b < rows; ++b)
      for (const std::int64_t p : positions(to_size(axis), b)) {
        if (p < -most || p > most)
          refuse("rotary", "positions must be at most 2^31 in magnitude", p);
        least = std::min(least, p);
        greatest = std::max(greatest, p);
      }
    for (std::size_t i = 0; i < differences.size(); ++i)
      if (axis_of(to, i) == axis)
        for (const std::int64_t p : {least, greatest})
          check_factor("the factor on the keys must fit in float", factor(i, p));
  }
  DifferenceAngles scratch(to, differences, tokens);
  for (std::int64_t b = 0; b < rows; ++b) {
    const View<U, 4> row = rows == 1 ? cached : cached.slice(0, b, 1);
    for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
      const std::int64_t count = std::min(chunk, tokens - begin);
      scratch.fill(
          count,
          [&](std::size_t a) {
            return positions(a, b).subspan(to_size(begin), to_size(count));
          },
          factor);
      rotary_internal::rotate_together(
          to, scratch.each(row.extent(0), count),
          rotary_internal::InputOutput<U, U>(row.slice(1, begin, count)));
    }
  }
}

void check_positions(const std::array<std::int64_t, 4>& shape,
                     std::span<const Positions> axes) {
  if (axes.empty()) refuse("rotary", "positions must have at least one axis", 0);
  for (const Positions& axis : axes) {
    rotary_internal::check(axis);
    if (axis.tokens != shape[1])
      refuse("rotary", "positions must be of " + std::to_string(shape[1]) + " cached tokens",
             axis.tokens);
    if (axis.batch != axes[0].batch || (axis.batch != 1 && axis.batch != shape[0]))
      refuse("rotary", "positions must have 1 row, or the cache's " + std::to_string(shape[0]),
             axis.batch);
  }
}

std::string text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}
std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(Pairing pairing) {
  return pairing == Pairing::halves     ? "halves"
         : pairing == Pairing::adjacent ? "adjacent"
                                        : "none";
}

template <typename Field>
std::string differing(const std::string& name, const Field& one, const Field& other) {
  return name + " = " + text(one) + " where the other has " + text(other);
}
// `absent`: the value of the elements of an empty list.
template <typename Field>
std::string first_difference(const std::string& name, const std::vector<Field>& one,
                             const std::vector<Field>& other, Field absent) {
  for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    const Field a = i < one.size() ? one[i] : absent, b = i < other.size() ? other[i] : absent;
    if (!(a == b)) {
      if constexpr (std::is_same_v<Field, double>)
        return differing(name + "[" + std::to_string(i) + "]", a, b);
      else
        return differing(name + "[" + std::to_string(i) + "]", std::int64_t{a},
                         std::int64_t{b});
    }
  }
  if (one.size() != other.size())
    return differing("the length of " + name, static_cast<std::int64_t>(std::ssize(one)),
                     static_cast<std::int64_t>(std::ssize(other)));
  return {};
}

}  // namespace

std::string difference(const RotaryFrequencies& one, const RotaryFrequencies& other) {
  if (one.pairing != other.pairing) return differing("pairing", one.pairing, other.pairing);
  if (one.head_offset != other.head_offset)
    return differing("head_offset", one.head_offset, other.head_offset);
  if (one.rotary_dim() != other.rotary_dim())
    return differing("rotary_dim", one.rotary_dim(), other.rotary_dim());
  auto text = first_difference("axes", one.axes, other.axes, std::int32_t{0});
  if (text.empty()) text = first_difference("inv_freq", one.inv_freq, other.inv_freq, 0.0);
  if (text.empty() && !(one.table_scale == other.table_scale))
    text = differing("table_scale", one.table_scale, other.table_scale);
  if (text.empty()) text = first_difference("growth", one.growth, other.growth, 0.0);
  if (text.empty() && one.centre != other.centre)
    text = differing("centre", one.centre, other.centre);
  return text;
}

void shift_keys(const Tensor& cached, const RotaryFrequencies& frequencies,
                std::span<const std::int64_t> deltas) {
  internal::by_type(rotary_internal::named("cached"), cached, [&]<typename U>(U) {
    const auto keys = rotary_internal::heads_of<U>("cached", cached);
    const rotary_internal::KeyShift by(frequencies, deltas);
    rotary_internal::check_heads(keys, frequencies);
    by.apply(keys);
  });
}

void shift_keys(const Tensor& cached, const RotaryFrequencies& frequencies,
                std::int64_t delta) {
  shift_keys(
      cached, frequencies,
      std::vector<std::int64_t>(to_size(rotary_internal::axis_count(frequencies)), delta));
}

void rerotate_keys(const Tensor& cached, const RotaryFrequencies& from,
                   const RotaryFrequencies& to, std::span<const Positions> axes) {
  internal::by_type(rotary_internal::named("cached"), cached, [&]<typename U>(U) {
    const auto keys = rotary_internal::heads_of<U>("cached", cached);
    check_positions(keys.extents(), axes);
    rerotate(keys, from, to, std::ssize(axes), axes[0].batch,
             [&](std::size_t axis, std::int64_t b) { return axes[axis].row(b); });
  });
}

}  // namespace gnomon
