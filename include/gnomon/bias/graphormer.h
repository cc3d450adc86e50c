// Graphormer bias: a trained value for each head and each distance between two nodes of a
// graph, plus a term for the edges on the shortest path between them.
//
//   Ying et al. "Do Transformers Really Perform Bad for Graph Representation?", 2021.
//   https://arxiv.org/abs/2106.05234, sections 3.1.2 and 3.1.3.
//
//   bias(h, i, j) = spatial[d(i, j) + 1, h]
//                   + 1/n sum over k < n, g of x_k[g] hops[k, g, h]     n = min(d(i, j), hops)
//
// d is the number of arcs on the shortest path from i to j. x_k [H] is the mean of the rows of
// `edges` selected by the features of arc k of that path, with one element for each head g. A
// graph token before the nodes, which represents the whole graph, has its own trained value for
// each head.
//
// Letters: H heads, N nodes, T tokens (N, or N + 1 with a graph token), E edges as listed, F
// features of an edge.
//
// Naive version: tests/bias/graphormer_test.cc, `released`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/position/graph.h"
#include "gnomon/view.h"

namespace gnomon {

enum class GraphToken {
  none = 1,
  first,  // token 0; node n is token n + 1
};

// How often the given matrix (0, and -infinity for hidden pairs of nodes) is added.
enum class GivenBias {
  once = 1,
  twice,  // the released code's "reset" adds its attn_bias before and after
};

struct Graphormer {
  std::int64_t heads = 0;  // H; at least 1
  // Distances of at least this, and unconnected nodes, share one value; at least 1.
  std::int64_t unreachable = graphormer_unreachable;
  // Rows of the table of edge features, including row 0, which no edge uses. 0: no edge
  // features.
  std::int64_t edge_rows = 0;
  // Arcs of a path that count, from its start (`multi_hop_max_dist`). At least 1 with edge
  // features, 0 without.
  std::int64_t hops = 0;
  GraphToken token = {};
  GivenBias given = {};

  bool operator==(const Graphormer&) const = default;
};

// Returns the released settings (transformers, Microsoft's code): distances up to 509 in a
// table of 512 rows, with row 0 for padding and row 511 for "not connected"; three features of
// 512 values for an edge in a table of 1537 rows; 5 hops; a graph token; the given bias twice.
Graphormer graphormer_released(std::int64_t heads);

// Returns the row of the spatial table for a distance: 1 + min(distance, unreachable). Row 0 is
// the row of padding; no pair of nodes uses it.
std::int64_t spatial_row(const Graphormer& graphormer, std::int64_t distance);

// The table rows of each pair of nodes. Memory is O(N^2), as for all matrices below.
struct GraphormerIndices {
  std::int64_t nodes = 0, hops = 0;
  std::vector<std::int32_t> spatial;  // [N, N]: rows of the spatial table, `spatial_pos`
  std::vector<std::int32_t> edges;    // [N, N, hops]: listed edges of the path, then -1
  bool operator==(const GraphormerIndices&) const = default;
};

// Returns the plan. Throws std::invalid_argument as shortest_paths does. Cost: that of
// shortest_paths, and 4 (1 + hops) N^2 bytes.
GraphormerIndices graphormer_indices(const Graphormer& graphormer, const Graph& graph);

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct GraphormerTables {
  View<T, 2> spatial;  // [unreachable + 2, H]; row 0 is neither read nor written
  View<T, 1> token;    // [H]; used only with a graph token
  // Used only with edge features.
  View<T, 2> edges;  // [edge_rows, H]; row 0 is neither read nor written
  View<T, 3> hops;   // [hops, H, H]: from the heads of the edge to the heads of the bias
};

// Further inputs of a graph.
struct GraphormerInput {
  // [E, F]: rows of `edges`, 1 to edge_rows - 1. Value v of feature f in the released code is
  // row v + 512 f + 3.
  View<const std::int64_t, 2> features;
  View<const float, 2> given;  // [T, T], added once or twice by the spec; may be empty
};

// Computes the bias of each query and key, out [H, T, T], any strides. Pairs that contain the
// graph token get its value. Sums are in double and rounded once. Attention uses the result as
// a DenseBias. Throws std::invalid_argument if a shape does not match the spec or a feature is
// out of range. Cost: O(H T^2 (1 + hops) + E hops H^2).
void fill(const Graphormer& graphormer, const GraphormerIndices& indices,
          const GraphormerTables<const float>& tables, const GraphormerInput& input,
          View<float, 3> out);

// Gradient of `fill`: adds the gradient with respect to the tables to `grads`, given grad [H,
// T, T] (one batch row of BiasGradient::dense). Sums are in double, with one rounding per
// parameter. Deterministic: the order does not depend on the number of threads.
void fill_backward(const Graphormer& graphormer, const GraphormerIndices& indices,
                   const GraphormerTables<const float>& tables, const GraphormerInput& input,
                   View<const float, 3> grad, const GraphormerTables<float>& grads);

// Returns the mask of the released collator, [T, T]: -infinity if the spatial row of two nodes
// is at least `spatial_pos_max`, else 0. With the default, 20, this hides nodes that are at
// least 19 arcs apart or not connected. Graph tokens see all tokens.
std::vector<float> graphormer_mask(const Graphormer& graphormer,
                                   const GraphormerIndices& indices,
                                   std::int64_t spatial_pos_max = 20);

// Returns the bias of a path graph as a strip. A text is a path graph: the distance of two
// nodes is |i - j|. Throws std::invalid_argument if the spec has a graph token or edge
// features. Cost: O(H N) for N distances.
StripBias lower(const Graphormer& graphormer, View<const float, 2> spatial,
                std::int64_t min_distance, std::int64_t count);
// Gradient of `strip`: adds strip_grad [H, N] to spatial_grad. Sums are in double, in the order
// of the distances.
void lower_backward(const Graphormer& graphormer, std::span<const double> strip_grad,
                    std::int64_t min_distance, std::int64_t count, View<float, 2> spatial_grad);

}  // namespace gnomon
