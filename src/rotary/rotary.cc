#include "gnomon/rotary/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "src/core/memory.h"
#include "src/core/size.h"
#include "src/core/wide.h"
#include "src/position/check.h"
#include "src/rotary/check.h"
#include "src/rotary/growth.h"

namespace gnomon {

using internal::to_size;

namespace {

template <typename List>
void check_length(const char* what, const List& list, std::int64_t pairs) {
  if (!list.empty() && std::ssize(list) != pairs)
    refuse("rotary",
           std::string(what) + " must be empty or have one element for each of " +
               std::to_string(pairs) + " pairs",
           static_cast<std::int64_t>(list.size()));
}

}  // namespace

namespace rotary_internal {

void check_pairing(Pairing pairing) {
  if (pairing != Pairing::halves && pairing != Pairing::adjacent)
    refuse("rotary", "pairing must be halves (1) or adjacent (2)", static_cast<int>(pairing));
}

void check(const Rotary& rotary) {
  if (rotary.rotary_dim % 2) refuse("rotary", "rotary_dim must be even", rotary.rotary_dim);
  if (rotary.rotary_dim < 2)
    refuse("rotary", "rotary_dim must be at least 2", rotary.rotary_dim);
  check_pairing(rotary.pairing);
  if (!(rotary.base > 1) || !std::isfinite(rotary.base))
    refuse("rotary", "base must be finite and greater than 1", rotary.base);
  if (rotary.head_offset < 0)
    refuse("rotary", "head_offset must not be negative", rotary.head_offset);
}

void check(const RotaryFrequencies& frequencies, std::int64_t axes) {
  check_pairing(frequencies.pairing);
  if (frequencies.head_offset < 0)
    refuse("rotary", "head_offset must not be negative", frequencies.head_offset);
  const std::ptrdiff_t pairs = std::ssize(frequencies.inv_freq);
  if (pairs == 0) refuse("rotary", "inv_freq must have a frequency for each pair", 0);
  check_length("axes", frequencies.axes, pairs);
  check_length("growth", frequencies.growth, pairs);
  for (const std::int32_t axis : frequencies.axes)
    if (axis < 0 || axis >= axes)
      refuse("rotary", "axes must be 0 to " + std::to_string(axes - 1), axis);
  for (const double growth : frequencies.growth)
    if (!std::isfinite(growth)) refuse("rotary", "growth must be finite", growth);
  if (!std::isfinite(frequencies.table_scale))
    refuse("rotary", "table_scale must be finite", frequencies.table_scale);
  if (!internal::subtractable(frequencies.centre))
    refuse("rotary", "centre must be at most 2^61 in magnitude", frequencies.centre);
}

std::int64_t axis_count(const RotaryFrequencies& frequencies) {
  constexpr std::int64_t most = 1024;
  std::int64_t count = 1;
  for (const std::int32_t axis : frequencies.axes)
    count = std::max(count, std::int64_t{axis} + 1);
  if (count > most) refuse("rotary", "axes must be below 1024", count - 1);
  return count;
}

void check(const Positions& positions) {
  if (positions.batch < 0)
    refuse("rotary", "positions must not have a negative batch", positions.batch);
  if (positions.tokens < 0)
    refuse("rotary", "positions must not have negative tokens", positions.tokens);
  internal::check_ids("rotary", "positions", positions);
}

}  // namespace rotary_internal

namespace {

using rotary_internal::check;

// Allocates cosines and sines, [rows, pairs] each, uninitialized.
std::shared_ptr<float[]> allocate(std::int64_t rows, std::int64_t pairs) {
  const std::size_t count =
      internal::checked_size("rotary", "positions x pairs x 2", {rows, pairs, 2});
  return {static_cast<float*>(internal::allocate_long(count * sizeof(float))),
          [](float* begin) { internal::free_long(begin); }};
}

// Columns first, first + step, ..., all of one axis.
struct Columns {
  std::int64_t first, step, count;
};
std::vector<Columns> columns_of(std::int64_t axis, const RotaryFrequencies& frequencies) {
  std::vector<Columns> runs;
  for (std::ptrdiff_t i = 0; i < std::ssize(frequencies.inv_freq); ++i) {
    if (frequencies.axes[to_size(i)] != axis) continue;
    if (!runs.empty()) {
      auto& [first, step, count] = runs.back();
      if (count == 1) step = i - first;
      if (i == first + count * step) {
        ++count;
        continue;
      }
    }
    runs.push_back({i, 1, 1});
  }
  return runs;
}

// positions(a): positions on axis a, [rows].
template <typename PositionsOfAxis>
std::shared_ptr<float[]> fill(const RotaryFrequencies& frequencies, std::int64_t rows,
                              std::int64_t axes, PositionsOfAxis&& positions, Angles angles) {
  const std::ptrdiff_t pairs = std::ssize(frequencies.inv_freq);
  auto values = allocate(rows, pairs);
  const View<float, 2> cosines(values.get(), {rows, pairs});
  const View<float, 2> sines(values.get() + rows * pairs, {rows, pairs});
  if (frequencies.axes.empty()) {
    fill_cos_sin(positions(0), frequencies.inv_freq, cosines, sines, angles,
                 frequencies.table_scale);
    return values;
  }
  std::vector<double> inv_freq;
  for (std::int64_t axis = 0; axis < axes; ++axis)
    for (const auto& [first, step, count] : columns_of(axis, frequencies)) {
      inv_freq.clear();
      for (std::ptrdiff_t k = 0; k < count; ++k)
        inv_freq.push_back(frequencies.inv_freq[to_size(first + k * step)]);
      const auto part = [&](const View<float, 2>& all) {
        return View<float, 2>(all.data() + first, {rows, count}, {pairs, step});
      };
      fill_cos_sin(positions(axis), inv_freq, part(cosines), part(sines), angles,
                   frequencies.table_scale);
    }
  return values;
}

// Multiplies cosines and sines by the growth factor of their pair and position.
template <typename PositionsOfAxis>
void grow(const RotaryFrequencies& frequencies, std::int64_t rows, PositionsOfAxis&& positions,
          float* values) {
  if (frequencies.growth.empty()) return;
  const std::ptrdiff_t pairs = std::ssize(frequencies.inv_freq);
  for (std::ptrdiff_t i = 0; i < pairs; ++i) {
    const auto at = positions(frequencies.axes.empty() ? 0 : frequencies.axes[to_size(i)]);
    for (std::int64_t row = 0; row < rows; ++row)
      rotary_internal::grow(frequencies, to_size(i), at[to_size(row)], values[row * pairs + i],
                            values[(rows + row) * pairs + i]);
  }
}

template <typename PositionsOfAxis>
std::shared_ptr<float[]> fill_and_grow(const RotaryFrequencies& frequencies, std::int64_t rows,
                                       std::int64_t axes, PositionsOfAxis&& positions,
                                       Angles angles) {
  check(frequencies, axes);
  std::shared_ptr<float[]> values = fill(frequencies, rows, axes, positions, angles);
  grow(frequencies, rows, positions, values.get());
  return values;
}

const Positions& first_of(std::span<const Positions> axes) {
  if (axes.empty()) refuse("rotary", "positions must have at least one axis", 0);
  for (const Positions& axis : axes) {
    check(axis);
    if (axis.batch != axes[0].batch || axis.tokens != axes[0].tokens)
      refuse("rotary",
             "positions of all axes must be " + std::to_string(axes[0].batch) + " x " +
                 std::to_string(axes[0].tokens),
             std::to_string(axis.batch) + " x " + std::to_string(axis.tokens));
  }
  return axes[0];
}

}  // namespace

std::vector<double> inverse_frequencies(const Rotary& rotary) {
  check(rotary);
  return internal::powers(rotary.base,
                          internal::Wide(-2) / static_cast<double>(rotary.rotary_dim),
                          rotary.rotary_dim / 2);
}

RotaryFrequencies lower(const Rotary& rotary) {
  return {.pairing = rotary.pairing,
          .head_offset = rotary.head_offset,
          .inv_freq = inverse_frequencies(rotary)};
}

RotaryTable::RotaryTable(const Rotary& rotary, const Positions& positions, Angles angles)
    : RotaryTable(gnomon::lower(rotary), positions, angles) {}

RotaryTable::RotaryTable(const Rotary& rotary, std::span<const std::int64_t> positions,
                         Angles angles)
    : RotaryTable(gnomon::lower(rotary), positions, angles) {}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, const Positions& positions,
                         Angles angles)
    : RotaryTable(std::move(frequencies), std::span(&positions, 1), angles) {}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, std::span<const std::int64_t> positions,
                         Angles angles)
    : frequencies_(std::move(frequencies)),
      batch_(1),
      tokens_(static_cast<std::int64_t>(positions.size())),
      values_(fill_and_grow(
          frequencies_, tokens_, 1, [&](std::int64_t) { return positions; }, angles)) {}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, std::span<const Positions> axes,
                         Angles angles)
    : frequencies_(std::move(frequencies)),
      batch_(first_of(axes).batch),
      tokens_(axes[0].tokens),
      values_(fill_and_grow(
          frequencies_, batch_ * tokens_, std::ssize(axes),
          [&](std::int64_t axis) {
            return std::span<const std::int64_t>(axes[to_size(axis)].ids);
          },
          angles)) {}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, const Grid& grid, Angles angles)
    : frequencies_(std::move(frequencies)), batch_(1), tokens_(grid.cells) {
  std::vector<std::vector<std::int64_t>> columns;
  for (std::int64_t axis = 0; axis < grid.axes; ++axis) columns.push_back(grid.axis(axis));
  values_ = fill_and_grow(
      frequencies_, tokens_, grid.axes,
      [&](std::int64_t axis) { return std::span<const std::int64_t>(columns[to_size(axis)]); },
      angles);
}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, View<const double, 2> coordinates,
                         Angles angles)
    : frequencies_(std::move(frequencies)), batch_(1), tokens_(coordinates.extent(0)) {
  check(frequencies_, coordinates.extent(1));
  if (!frequencies_.growth.empty())
    refuse("rotary", "growth must be empty for continuous coordinates",
           std::ssize(frequencies_.growth));
  std::vector<std::vector<double>> columns(to_size(coordinates.extent(1)));
  for (std::ptrdiff_t axis = 0; axis < coordinates.extent(1); ++axis)
    for (std::ptrdiff_t t = 0; t < tokens_; ++t)
      columns[to_size(axis)].push_back(coordinates(t, axis));
  values_ = fill(
      frequencies_, tokens_, coordinates.extent(1),
      [&](std::int64_t axis) { return std::span<const double>(columns[to_size(axis)]); },
      angles);
}

RotaryTable::RotaryTable(RotaryFrequencies frequencies, View<const float, 3> cos,
                         View<const float, 3> sin)
    : frequencies_(std::move(frequencies)), batch_(cos.extent(0)), tokens_(cos.extent(1)) {
  check(frequencies_, rotary_internal::axis_count(frequencies_));
  const std::ptrdiff_t pairs = std::ssize(frequencies_.inv_freq);
  if (cos.extent(2) != pairs)
    refuse("rotary", "cos must have a column for each of " + std::to_string(pairs) + " pairs",
           std::int64_t{cos.extent(2)});
  if (sin.extents() != cos.extents())
    refuse("rotary", "sin must have the shape of cos, " + shape_text(cos.extents()),
           shape_text(sin.extents()));
  auto values = allocate(batch_ * tokens_, pairs);
  float* to = values.get();
  for (const auto& from : {cos, sin})
    for (std::ptrdiff_t b = 0; b < batch_; ++b)
      for (std::ptrdiff_t t = 0; t < tokens_; ++t)
        for (std::ptrdiff_t i = 0; i < pairs; ++i) *to++ = from(b, t, i);
  values_ = std::move(values);
}

View<const float, 3> RotaryTable::cos() const noexcept {
  return {values_.get(), {batch_, tokens_, frequencies_.rotary_dim() / 2}};
}

View<const float, 3> RotaryTable::sin() const noexcept {
  return {values_.get() + batch_ * tokens_ * (frequencies_.rotary_dim() / 2),
          {batch_, tokens_, frequencies_.rotary_dim() / 2}};
}

}  // namespace gnomon
