// The forms of a bias: what attention needs to know to add position to a block of scores
// without ever holding a matrix [H, Q, K]. Every bias encoding lowers to one of them; attention
// knows these and no encoding by name.
//
// The distance of a query and a key is  position(key) - position(query):  negative towards the
// past. Letters: H query heads, Q queries, K keys, N distances.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// No bias.
struct NoBias {
  bool operator==(const NoBias&) const = default;
};

// -slopes[h] |distance|.
struct SlopeBias {
  std::vector<double> slopes;  // [H]
  bool operator==(const SlopeBias&) const = default;
};

// values[h, distance - first]: one number for each distance from `first` to `first + N - 1`. A
// distance outside is refused by whoever applies the strip, before it reads anything.
struct StripBias {
  std::int64_t heads = 0;      // H
  std::int64_t first = 0;      // the distance of column 0
  std::vector<double> values;  // [H, N]

  std::int64_t distances() const noexcept {  // N
    return heads ? static_cast<std::int64_t>(values.size()) / heads : 0;
  }
  bool operator==(const StripBias&) const = default;
};

// A number for each offset of two cells of a window, as in Swin and BEiT: values[h, index].
// Position t is the cell t - leading of the window, row by row; positions before are tokens of
// no cell (a class token). Of two cells, query - key = (dy, dx),
//
//   index = (dy + height - 1)(2 width - 1) + dx + width - 1
//
// and with a class token N - 3 from it to a cell, N - 2 from a cell to it, N - 1 to itself.
struct GridBias {
  std::int64_t heads = 0;   // H
  std::int64_t height = 0;  // of the window, in cells
  std::int64_t width = 0;
  std::int64_t leading = 0;    // class tokens in front: 0 or 1
  std::vector<double> values;  // [H, N]

  std::int64_t cells() const noexcept { return height * width; }
  std::int64_t positions() const noexcept { return leading + cells(); }  // 0 to this - 1
  std::int64_t offsets() const noexcept {                                // N
    return (2 * height - 1) * (2 * width - 1) + 3 * leading;
  }
  bool operator==(const GridBias&) const = default;
};

// One axis of an AxesBias.
struct AxisStrip {
  std::int64_t first = 0;      // the distance of column 0
  std::vector<double> values;  // [H, N]
  // Where each position stands along the axis, [P], within 2^31 of 0. Empty: at itself, the
  // axis of the text; any position then.
  std::vector<std::int64_t> coordinates;
  bool operator==(const AxisStrip&) const = default;
};

// A sum of strips, each by the distance along an axis of its own, as in LayoutLMv2 and v3,
// where words have a place in the text and a place on the page:
//
//   sum over axes a of  values_a[h, coordinate_a(key) - coordinate_a(query) - first_a]
//
// The strips must reach all distances of their coordinates.
struct AxesBias {
  std::int64_t heads = 0;       // H
  std::vector<AxisStrip> axes;  // 1 to 8; of the same P, or none

  std::int64_t distances(std::size_t axis) const noexcept {  // N of an axis
    return heads ? static_cast<std::int64_t>(axes[axis].values.size()) / heads : 0;
  }
  std::int64_t distances() const noexcept {  // of all axes
    std::int64_t sum = 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) sum += distances(axis);
    return sum;
  }
  bool operator==(const AxesBias&) const = default;
};

// A function of the distance in proportion to how far there is to look back, as in FIRE: with
// i, j the positions of query and key and psi(n) = log(c n + 1),
//
//   x = psi(|i - j|) / (psi(max(threshold, i)) + epsilon)
//   bias(h, i, j) = offsets[h, p] + slopes[h, p] x      where knots[p] <= x < knots[p + 1]
//
// Where the pieces do not meet, an x within rounding of a knot may count to either.
struct ProgressiveBias {
  std::int64_t heads = 0;       // H
  double c = 0;                 // positive
  double threshold = 0;         // L, in positions; positive
  double epsilon = 0;           // not negative
  std::vector<double> knots;    // [P], rising from 0
  std::vector<double> offsets;  // [H, P]
  std::vector<double> slopes;   // [H, P]

  std::int64_t pieces() const noexcept { return static_cast<std::int64_t>(knots.size()); }
  bool operator==(const ProgressiveBias&) const = default;
};

// A matrix that the caller already has, by row of queries and row of keys. Borrowed. Strides
// may be zero (the same for every head, say).
struct DenseBias {
  View<const float, 4> values;  // [B, H, Q, K]
};

using BiasForm =
    std::variant<NoBias, SlopeBias, StripBias, DenseBias, GridBias, ProgressiveBias, AxesBias>;

// The gradient of a form's numbers, in its own shape, summed over the batch: [H] for a slope,
// [H, N] for a strip and a grid, [H, N of all axes] for axes, each head's one after another,
// [H, 2 P + 2] for a progressive bias: of the offsets, the slopes, c and the threshold, the
// last two as each head's share of them (knots have none). Empty for NoBias; a dense form's
// goes to the view below.
struct BiasGradient {
  std::vector<double> values;
  View<float, 4> dense;  // [B, H, Q, K], written by the backward pass where it has data
};

// The heads that a form speaks of; 0 for NoBias, which fits any number.
std::int64_t heads(const BiasForm& form) noexcept;

// How many numbers BiasGradient::values holds for each head; 0 for NoBias and DenseBias.
std::int64_t numbers(const BiasForm& form) noexcept;

// The whole matrix: out [H, Q, K] (float or double, any strides) gets the bias of the query at
// position offset + q and the key at position k. For looking at, and for engines that ask for
// it. Throws when out's heads are not the form's, when a strip does not reach, when a position
// is not on a grid or without coordinates, or the form's own numbers do not fit each other. For
// a DenseBias the batch row 0. A progressive bias is within 2^-50 (|offset| + |slope x|) of its
// formula; axes are added in double.
void dense(const BiasForm& form, std::int64_t offset, const Tensor& out);

// Float scores [H, Q, K] += bias, in place: the same numbers where scores already exist.
void add_bias(const Tensor& scores, const BiasForm& form, std::int64_t offset);

// The gradient of `add_bias` for the form's numbers: float grad [H, Q, K] summed along equal
// distances (or offsets, or pieces) in double, in the order of q then k. Returns it in the
// form's shape.
BiasGradient add_bias_backward(const ConstTensor& grad, const BiasForm& form,
                               std::int64_t offset);

}  // namespace gnomon
