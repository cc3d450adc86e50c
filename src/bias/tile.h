// Tiles of the biases that require more than one strip by distance: grids, axes and piecewise
// logarithmic biases. `prepare` computes the data for one call of attention, with memory
// O(tokens). `fill` and `add_gradient` then process tiles without allocating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"

namespace gnomon::internal {

using Ids = std::span<const std::int64_t>;

constexpr std::size_t most_axes = 8;  // limit for an AxesBias

// The range of all positions in a call, both ends included.
struct IdRange {
  std::int64_t least = 0, most = 0;
};

// Throws if the values of a form are inconsistent: [bias] a piecewise logarithmic bias must
// have ...
void check_form(const BiasForm& form);
// Throws if a position is not on the grid or has no coordinates. Other forms accept any
// position.
void check_ids(const BiasForm& form, IdRange ids);

template <typename A>
struct PreparedGrid {
  std::int64_t columns = 0;  // columns of `values` for each head
  // [H, columns]: the offsets from the last to the first, so that columns increase with the
  // key; then class to cell, cell to class, class to class.
  std::vector<A> values;
  // The place of a position: y (2 width - 1) + x of its cell, or class_token. The column of a
  // query and a key is centre + place(key) - place(query).
  std::vector<std::int32_t> places;
  std::int64_t centre = 0;
  static constexpr std::int32_t class_token = -1, outside = -2;

  std::int32_t place(std::int64_t id) const {
    return id >= 0 && id < static_cast<std::int64_t>(places.size())
               ? places[static_cast<std::size_t>(id)]
               : outside;
  }
};

template <typename A>
struct PreparedAxes {
  double unit = 1;  // factor on the filled values; the values themselves are read from the form
};

template <typename A>
struct PreparedPiecewiseLog {
  // psi(|key - query|) and its derivative by c, indexed by key - query - min_distance. Empty if
  // positions are so far apart that the tables would be too large; each pair is then computed
  // on its own.
  std::int64_t min_distance = 0;
  std::vector<A> warped, by_c;
  // Values of each query from `least` on: scale = 1 / (psi(max(L, id)) + epsilon); pull = scale
  // times the derivative of psi(max(L, id)) by c; ends = the least distance beyond each piece
  // except the last.
  std::int64_t least = 0;
  std::vector<double> scale, pull;
  std::vector<std::int32_t> ends;  // [queries, P - 1]
  double by_threshold = 0;         // psi'(L)
  double unit = 1;                 // factor on the filled values
};

// unit: factor on all filled values; log2 e if attention computes its softmax with powers of
// two.
template <typename A>
PreparedGrid<A> prepare(const GridBias& form, IdRange queries, IdRange keys, double unit = 1);
template <typename A>
PreparedAxes<A> prepare(const AxesBias& form, IdRange queries, IdRange keys, double unit = 1);
template <typename A>
PreparedPiecewiseLog<A> prepare(const PiecewiseLogBias& form, IdRange queries, IdRange keys,
                                double unit = 1);

// to[i * stride + j] = unit times the bias of head `head` for query_ids[i] and key_ids[j],
// which must be in the prepared ranges. A: float or double. Fast for runs of consecutive keys
// (of a grid: within one of its rows). A position that is not on the grid gets 0; a position
// without coordinates gets 0 for that axis.
//
// Error bound in float: 2^-22 (|offset| + |slope x|) for a piecewise logarithmic bias; one
// rounding for a grid and for a sum of axes.
template <typename A>
void fill(const GridBias& form, const PreparedGrid<A>& prepared, std::int64_t head,
          Ids query_ids, Ids key_ids, A* to, std::int64_t stride);
template <typename A>
void fill(const AxesBias& form, const PreparedAxes<A>& prepared, std::int64_t head,
          Ids query_ids, Ids key_ids, A* to, std::int64_t stride);
template <typename A>
void fill(const PiecewiseLogBias& form, const PreparedPiecewiseLog<A>& prepared,
          std::int64_t head, Ids query_ids, Ids key_ids, A* to, std::int64_t stride);

// Adds the gradient of one head of a tile to sums [gradient_size(form)], in the order of
// BiasGradient. grad[i * stride + j] is the gradient of a score, without `unit`. The order of
// the sums is fixed.
template <typename A>
void add_gradient(const GridBias& form, const PreparedGrid<A>& prepared, std::int64_t head,
                  Ids query_ids, Ids key_ids, const A* grad, std::int64_t stride, double* sums);
template <typename A>
void add_gradient(const AxesBias& form, const PreparedAxes<A>& prepared, std::int64_t head,
                  Ids query_ids, Ids key_ids, const A* grad, std::int64_t stride, double* sums);
template <typename A>
void add_gradient(const PiecewiseLogBias& form, const PreparedPiecewiseLog<A>& prepared,
                  std::int64_t head, Ids query_ids, Ids key_ids, const A* grad,
                  std::int64_t stride, double* sums);

}  // namespace gnomon::internal
