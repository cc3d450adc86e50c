// Bias forms: the representations of a position bias that attention adds to a block of scores
// without storing a matrix [H, Q, K]. Every bias encoding lowers to one of these forms.
// Attention knows the forms, but no encoding by name.
//
// Distance = position(key) - position(query). It is negative for past keys.
// Letters: H query heads, Q queries, K keys, N distances.
//
// Naive version: tests/naive/bias.h, `naive_bias`, `naive_add_bias_backward`.
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

// bias(h, distance) = -slopes[h] |distance|.
struct SlopeBias {
  std::vector<double> slopes;  // [H]
  bool operator==(const SlopeBias&) const = default;
};

// bias(h, distance) = values[h, distance - min_distance]: one value for each head and each
// distance from `min_distance` to `min_distance + N - 1`. Functions that apply the strip throw
// std::invalid_argument for a distance outside this range, before they read any score.
struct StripBias {
  std::int64_t heads = 0;         // H
  std::int64_t min_distance = 0;  // the distance of column 0
  std::vector<double> values;     // [H, N]

  std::int64_t distances() const noexcept {  // N
    return heads ? static_cast<std::int64_t>(values.size()) / heads : 0;
  }
  bool operator==(const StripBias&) const = default;
};

// bias(h, query, key) = values[h, index]: one value for each head and each offset between two
// cells of a window, as in Swin and BEiT. Position t is cell t - leading of the window in
// row-major order. Positions below `leading` are class tokens, which have no cell.
//
// For two cells with (dy, dx) = cell of the query - cell of the key,
//
//   index = (dy + height - 1)(2 width - 1) + dx + width - 1
//
// With a class token, index = N - 3 if only the query is the class token, N - 2 if only the key
// is the class token, and N - 1 if both are.
struct GridBias {
  std::int64_t heads = 0;   // H
  std::int64_t height = 0;  // window height, in cells
  std::int64_t width = 0;
  std::int64_t leading = 0;    // class tokens before the cells: 0 or 1
  std::vector<double> values;  // [H, N]

  std::int64_t cells() const noexcept { return height * width; }
  std::int64_t positions() const noexcept { return leading + cells(); }  // valid: 0 to this - 1
  std::int64_t offsets() const noexcept {                                // N
    return (2 * height - 1) * (2 * width - 1) + 3 * leading;
  }
  bool operator==(const GridBias&) const = default;
};

// One axis of an AxesBias.
struct AxisStrip {
  std::int64_t min_distance = 0;  // the distance of column 0
  std::vector<double> values;     // [H, N]
  // The coordinate of each position along this axis, [P], at most 2^31 in magnitude. If empty,
  // the coordinate of a position is the position itself, and every position is valid.
  std::vector<std::int64_t> coordinates;
  bool operator==(const AxisStrip&) const = default;
};

// A sum of strips, each by the distance along its own axis. In LayoutLMv2 and v3 the axes are
// the order of the words in the text and their place on the page:
//
//   bias(h, query, key) =
//     sum over axes a of  values_a[h, coordinate_a(key) - coordinate_a(query) - min_distance_a]
//
// Each strip must cover all distances between the coordinates of its axis.
struct AxesBias {
  std::int64_t heads = 0;       // H
  std::vector<AxisStrip> axes;  // 1 to 8; those with coordinates have the same P

  std::int64_t distances(std::size_t axis) const noexcept {  // N of an axis
    return heads ? static_cast<std::int64_t>(axes[axis].values.size()) / heads : 0;
  }
  std::int64_t distances() const noexcept {  // N summed over all axes
    std::int64_t sum = 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) sum += distances(axis);
    return sum;
  }
  bool operator==(const AxesBias&) const = default;
};

// A piecewise linear function of the logarithm of the distance, normalized by the position of
// the query, as in FIRE. With i, j the positions of query and key and psi(n) = log(c n + 1),
//
//   x = psi(|i - j|) / (psi(max(threshold, i)) + epsilon)
//   bias(h, i, j) = offsets[h, p] + slopes[h, p] x      where knots[p] <= x < knots[p + 1]
//
// An x within rounding error of a knot may be assigned to either of the two pieces. This
// changes the bias only if the pieces are discontinuous at the knot.
struct PiecewiseLogBias {
  std::int64_t heads = 0;       // H
  double c = 0;                 // positive
  double threshold = 0;         // L, in positions; positive
  double epsilon = 0;           // not negative
  std::vector<double> knots;    // [P], strictly increasing, knots[0] = 0
  std::vector<double> offsets;  // [H, P]
  std::vector<double> slopes;   // [H, P]

  std::int64_t pieces() const noexcept { return static_cast<std::int64_t>(knots.size()); }
  bool operator==(const PiecewiseLogBias&) const = default;
};

// A matrix of biases in the caller's memory, indexed by query row and key row. Borrowed, not
// copied. Strides may be 0, for example if all heads share the same values.
struct DenseBias {
  View<const float, 4> values;  // [B, H, Q, K]
};

using BiasForm =
    std::variant<NoBias, SlopeBias, StripBias, DenseBias, GridBias, PiecewiseLogBias, AxesBias>;

// A bias beside the form, of the differences of cumulative sums of log gates (FoX, CABLE),
// causal only:
//
//   score[h, i, j] += g[h, j+1] + ... + g[h, i]     g: TokenTerms::log_gates
//
// The sums restart at each sequence of the positions. A gate below -32768 counts as -infinity:
// no later query sees an earlier key.
struct CumulativeBias {
  // Keys with gates so small that their weights are 0 anyway are skipped, tile by tile. If
  // positive, also keys whose weights sum to at most this share of the weights of the query
  // (Forgetting Transformer with pruning: e^-10): their contribution is lost.
  double lost_weight = 0;

  bool operator==(const CumulativeBias&) const = default;
};

// A bias beside the form, of sums of edges between key and query (GRAPE-AP), causal only:
//
//   score[h, i, j] += slopes[h] (e(i, j+1) + ... + e(i, i))
//   e(i, l) = ln sigmoid(a_i . b_l)
//
// a, b: TokenTerms::edge_queries and edge_keys. Keys that the query does not see have no edge.
struct EdgeBias {
  std::vector<double> slopes;  // [H]; finite and not negative
  bool operator==(const EdgeBias&) const = default;
};

// The gradient with respect to the values of a form, summed over the batch. Shape of `values`:
//
//   NoBias, DenseBias     empty
//   SlopeBias             [H]
//   StripBias, GridBias   [H, N]
//   AxesBias              [H, N of all axes], the axes of a head one after another
//   PiecewiseLogBias       [H, 2 P + 2]: offsets, slopes, c, threshold. The last two are the
//                         contribution of each head. Knots have no gradient.
struct BiasGradient {
  std::vector<double> values;
  View<float, 4> dense;  // [B, H, Q, K]: written by the backward pass of attention if not empty
};

// Returns the number of heads of the form; 0 for NoBias, which fits any number of heads.
std::int64_t heads(const BiasForm& form) noexcept;

// Returns the entries of BiasGradient::values for each head; 0 for NoBias and DenseBias.
std::int64_t gradient_size(const BiasForm& form) noexcept;

// Writes the whole bias matrix, for inspection and for engines that require it. out [H, Q, K],
// float or double, any strides: out[h, q, k] is the bias of the query at position offset + q
// and the key at position k. For a DenseBias, batch row 0 is used.
//
// Error bound: a piecewise logarithmic bias is within 2^-50 (|offset| + |slope x|) of its
// formula. Axes are added in double.
//
// Throws std::invalid_argument if the heads of `out` differ from those of the form, a strip
// does not cover a distance, a position is not on the grid or has no coordinate, or the form is
// inconsistent.
void dense(const BiasForm& form, std::int64_t offset, const Tensor& out);

// Adds the bias of `dense` to float scores [H, Q, K], in place.
void add_bias(const Tensor& scores, const BiasForm& form, std::int64_t offset);

// Gradient of `add_bias` with respect to the values of the form. grad: float [H, Q, K]. Returns
// the sums over equal distances (or offsets, or pieces), in double, in the order of q then k.
BiasGradient add_bias_backward(const ConstTensor& grad, const BiasForm& form,
                               std::int64_t offset);

}  // namespace gnomon
