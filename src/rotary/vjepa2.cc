#include "gnomon/rotary/vjepa2.h"

#include <utility>

#include "gnomon/error.h"
#include "gnomon/rotary/axial.h"

namespace gnomon {
namespace {

// Frequencies [t D | y D | x D]; the P pairs of each part give the angles of one block.
RotaryFrequencies angles_of(const Vjepa2& vjepa2) {
  if (vjepa2.head_dim < 6) refuse("vjepa2", "head_dim must be at least 6", vjepa2.head_dim);
  const std::int64_t block = vjepa2.block();
  return lower(rotary::axial({block, block, block}, Pairing::adjacent, vjepa2.base));
}

RotaryTable angles_on(const Vjepa2& vjepa2, const Grid& grid, Angles angles) {
  RotaryFrequencies frequencies = angles_of(vjepa2);
  if (grid.axes != 3) refuse("vjepa2", "the grid must have 3 axes, t, y, x", grid.axes);
  return {std::move(frequencies), grid, angles};
}

RotaryTable angles_on(const Vjepa2& vjepa2, std::span<const Positions> axes, Angles angles) {
  RotaryFrequencies frequencies = angles_of(vjepa2);
  if (axes.size() != 3)
    refuse("vjepa2", "there must be positions on 3 axes, t, y, x", std::ssize(axes));
  return {std::move(frequencies), axes, angles};
}

// Repeats the angles of each block, a b c a b c: cosines of all tokens, then sines.
std::vector<float> tiled(const RotaryTable& angles) {
  const std::int64_t pairs = angles.frequencies().rotary_dim() / 6;  // pairs per block
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(12 * pairs * angles.batch() * angles.tokens()));
  for (const View<const float, 3>& part : {angles.cos(), angles.sin()})
    for (std::int64_t at = 0; at < part.size(); at += pairs)
      for (int time = 0; time < 2; ++time)
        values.insert(values.end(), part.data() + at, part.data() + at + pairs);
  return values;
}

}  // namespace

Vjepa2Table::Vjepa2Table(const Vjepa2& vjepa2, const Grid& grid, Angles angles)
    : head_dim_(vjepa2.head_dim), elements_(3 * vjepa2.block()) {
  const RotaryTable table = angles_on(vjepa2, grid, angles);
  batch_ = table.batch();
  tokens_ = table.tokens();
  values_ = tiled(table);
}

Vjepa2Table::Vjepa2Table(const Vjepa2& vjepa2, std::span<const Positions> axes, Angles angles)
    : head_dim_(vjepa2.head_dim), elements_(3 * vjepa2.block()) {
  const RotaryTable table = angles_on(vjepa2, axes, angles);
  batch_ = table.batch();
  tokens_ = table.tokens();
  values_ = tiled(table);
}

View<const float, 3> Vjepa2Table::cos() const noexcept {
  return {values_.data(), {batch_, tokens_, elements_}};
}

View<const float, 3> Vjepa2Table::sin() const noexcept {
  return {values_.data() + batch_ * tokens_ * elements_, {batch_, tokens_, elements_}};
}

}  // namespace gnomon
