#include "gnomon/rotary/comrope.h"

#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

void check_shape(const char* name, int64_t rows, int64_t columns, const auto& matrix) {
  if (matrix.extent(0) != rows || matrix.extent(1) != columns)
    refuse("comrope",
           std::string(name) + " must be [" + std::to_string(rows) + ", " +
               std::to_string(columns) + "]",
           shape_text(matrix.extents()));
}

template <typename T>
void check(const ComRope& comrope, const ComRopeMatrices<T>& values) {
  const int64_t axes = std::ssize(comrope.grid), pairs = comrope.rotary_dim / 2;
  if (comrope.heads < 1) refuse("comrope", "heads must be at least 1", comrope.heads);
  if (axes < 1) refuse("comrope", "grid must have at least 1 axis", axes);
  for (const int64_t extent : comrope.grid)
    if (extent < 1) refuse("comrope", "extents of the grid must be at least 1", extent);
  switch (comrope.form) {
    case ComRopeForm::axial_partition:
      if (comrope.rotary_dim < 2 || comrope.rotary_dim % (2 * axes))
        refuse("comrope",
               "rotary_dim must be a multiple of 2 for each axis, " + std::to_string(2 * axes),
               comrope.rotary_dim);
      break;
    case ComRopeForm::linearly_dependent:
      if (comrope.rotary_dim < 2 || comrope.rotary_dim % 2)
        refuse("comrope", "rotary_dim must be even and at least 2", comrope.rotary_dim);
      check_shape("multiplier", axes, pairs, values.multiplier);
      break;
    default:
      refuse("comrope", "form must be axial_partition (1) or linearly_dependent (2)",
             static_cast<int>(comrope.form));
  }
  check_shape("freqs", comrope.heads, 4 * pairs, values.freqs);
}

// Calls body(index of the frequency, head, axis, block, factor on the skew element) for all
// frequencies.
template <typename Body>
void for_frequencies(const ComRope& comrope, const ComRopeMatrices<const float>& values,
                     const Body& body) {
  const int64_t axes = std::ssize(comrope.grid), pairs = comrope.rotary_dim / 2;
  for (int64_t h = 0; h < comrope.heads; ++h)
    for (int64_t a = 0; a < axes; ++a)
      for (int64_t j = 0; j < pairs; ++j) {
        const double factor = comrope.form == ComRopeForm::linearly_dependent
                                  ? double{values.multiplier(a, j)}
                              : j % axes == a ? 1.0
                                              : 0.0;
        body((h * axes + a) * pairs + j, h, a, j,
             factor / static_cast<double>(comrope.grid[to_size(a)]));
      }
}

// The element of a rotation's generator, P[1, 0] - P[0, 1].
double skew(const ComRopeMatrices<const float>& values, int64_t h, int64_t j) {
  return double{values.freqs(h, 4 * j + 2)} - double{values.freqs(h, 4 * j + 1)};
}

}  // namespace

HeadFrequencies lower(const ComRope& comrope, const ComRopeMatrices<const float>& values) {
  check(comrope, values);
  HeadFrequencies all{.pairing = Pairing::adjacent,
                      .head_offset = comrope.head_offset,
                      .heads = comrope.heads,
                      .axes = std::ssize(comrope.grid),
                      .inv_freq = {}};
  for_frequencies(comrope, values, [&](int64_t, int64_t h, int64_t, int64_t j, double factor) {
    all.inv_freq.push_back(factor * skew(values, h, j));
  });
  return all;
}

void lower_backward(const ComRope& comrope, const ComRopeMatrices<const float>& values,
                    std::span<const double> frequencies_grad,
                    const ComRopeMatrices<float>& grads) {
  check(comrope, values);
  check(comrope, grads);
  const int64_t size = comrope.heads * std::ssize(comrope.grid) * comrope.rotary_dim / 2;
  if (std::ssize(frequencies_grad) != size)
    refuse("comrope", "frequencies_grad must have " + std::to_string(size) + " elements",
           std::ssize(frequencies_grad));
  for_frequencies(
      comrope, values, [&](int64_t n, int64_t h, int64_t a, int64_t j, double factor) {
        const double grad = frequencies_grad[to_size(n)];
        grads.freqs(h, 4 * j + 2) += static_cast<float>(factor * grad);
        grads.freqs(h, 4 * j + 1) -= static_cast<float>(factor * grad);
        if (comrope.form == ComRopeForm::linearly_dependent)
          grads.multiplier(a, j) += static_cast<float>(
              grad * skew(values, h, j) / static_cast<double>(comrope.grid[to_size(a)]));
      });
}

}  // namespace gnomon
