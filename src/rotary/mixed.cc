#include "gnomon/rotary/mixed.h"

#include <cmath>
#include <numbers>
#include <random>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

void check_fields(const RotaryMixed& mixed) {
  if (mixed.heads < 1) refuse("mixed", "heads must be at least 1", mixed.heads);
  if (mixed.rotary_dim < 4 || mixed.rotary_dim % 4)
    refuse("mixed", "rotary_dim must be a multiple of 4", mixed.rotary_dim);
  if (!mixed.grid.empty() && mixed.grid.size() != 2)
    refuse("mixed", "grid must have 2 axes, height and width", std::ssize(mixed.grid));
}

template <typename T>
void check_shapes(const RotaryMixed& mixed, const MixedFrequencies<T>& values) {
  check_fields(mixed);
  for (const View<T, 2>& one : {values.x, values.y})
    if (one.extent(0) != mixed.heads || one.extent(1) != mixed.rotary_dim / 2)
      refuse("mixed",
             "frequencies must be [" + std::to_string(mixed.heads) + ", " +
                 std::to_string(mixed.rotary_dim / 2) + "]",
             shape_text(one.extents()));
}

}  // namespace

std::vector<float> initial_frequencies(const RotaryMixed& mixed) {
  check_fields(mixed);
  // Half of the pairs, on each of two axes at a right angle.
  const std::vector<double> sizes = inverse_frequencies(
      {.rotary_dim = mixed.rotary_dim / 2, .pairing = mixed.pairing, .base = mixed.base});
  const int64_t pairs = mixed.rotary_dim / 2;
  std::vector<float> all(to_size(2 * mixed.heads * pairs));
  std::mt19937_64 engine(static_cast<std::uint64_t>(mixed.seed));
  for (int64_t h = 0; h < mixed.heads; ++h) {
    const double turns = static_cast<double>(engine() >> 11) * 0x1p-53;
    for (int64_t i = 0; i < pairs; ++i) {
      const double phi = (turns + (2 * i < pairs ? 0 : 0.25)) * 2 * std::numbers::pi;
      const double size = sizes[to_size(i % (pairs / 2))];
      all[to_size(h * pairs + i)] = static_cast<float>(size * std::cos(phi));
      all[to_size((mixed.heads + h) * pairs + i)] = static_cast<float>(size * std::sin(phi));
    }
  }
  return all;
}

HeadFrequencies lower(const RotaryMixed& mixed, const MixedFrequencies<const float>& values) {
  check_shapes(mixed, values);
  HeadFrequencies all{.pairing = mixed.pairing,
                      .head_offset = mixed.head_offset,
                      .heads = mixed.heads,
                      .axes = 2,
                      .inv_freq = {}};
  for (int64_t h = 0; h < mixed.heads; ++h)
    for (const auto& axis : {values.y, values.x})
      for (int64_t i = 0; i < mixed.rotary_dim / 2; ++i)
        all.inv_freq.push_back(double{axis(h, i)});
  return all;
}

void lower_backward(const RotaryMixed& mixed, std::span<const double> frequencies_grad,
                    const MixedFrequencies<float>& grads) {
  check_shapes(mixed, grads);
  const int64_t size = mixed.heads * mixed.rotary_dim;
  if (std::ssize(frequencies_grad) != size)
    refuse("mixed", "frequencies_grad must have " + std::to_string(size) + " elements",
           std::ssize(frequencies_grad));
  auto next = frequencies_grad.begin();
  for (int64_t h = 0; h < mixed.heads; ++h)
    for (const auto& axis : {grads.y, grads.x})
      for (int64_t i = 0; i < mixed.rotary_dim / 2; ++i)
        axis(h, i) = static_cast<float>(double{axis(h, i)} + *next++);
}

}  // namespace gnomon
