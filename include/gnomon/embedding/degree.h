// Centrality encoding: trained vectors selected by the in-degree and the out-degree of a node,
// added to its embedding.
//
//   Ying et al. "Do Transformers Really Perform Bad for Graph Representation?" (Graphormer),
//   2021. https://arxiv.org/abs/2106.05234, section 3.1.1.
//
//   x[n] += in[row(in-degree n)] + out[row(out-degree n)],   row(d) = d + 1
//
// Row 0 of both tables belongs to padding; no node uses it. Letters: N nodes, C width.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/embedding/table.h"
#include "gnomon/position/graph.h"
#include "gnomon/view.h"

namespace gnomon {

// Handling of degrees greater than rows - 2.
enum class DegreeBeyond {
  capped = 1,  // use the last row
  refused,     // throw; the released code has no row for such a degree
};

struct Degree {
  std::int64_t rows = 0;   // rows of each table; at least 2
  std::int64_t width = 0;  // C; at least 1
  DegreeBeyond beyond = {};

  bool operator==(const Degree&) const = default;
};

// The released Graphormer: 512 rows, so degrees up to 510; larger degrees are refused. The
// released code counts the outgoing arcs and uses that number for both degrees. This is correct
// for undirected graphs, the only graphs it has been used with.
Degree degree_graphormer(std::int64_t width);

// Returns the row of a degree. Throws std::invalid_argument if the degree is negative or
// refused.
std::int64_t degree_row(const Degree& degree, std::int64_t arcs);

// The rows of the nodes of a graph, [N] each, as add_rows takes them. For an undirected graph
// both are equal.
struct DegreeRows {
  std::vector<std::int64_t> in, out;
  bool operator==(const DegreeRows&) const = default;
};
DegreeRows degree_rows(const Degree& degree, const Graph& graph);

// Returns the plan, a table [N, C]. The rows of both tables [rows, C] are added in double and
// rounded once.
EmbeddingTable lower(const Degree& degree, const DegreeRows& rows, View<const float, 2> in,
                     View<const float, 2> out);

// Gradient of `degree_table` with respect to both tables: adds table_grad [N, C] to in_grad and
// out_grad, in double, in the order of the nodes, with one rounding per entry.
void lower_backward(const Degree& degree, const DegreeRows& rows,
                    View<const float, 2> table_grad, View<float, 2> in_grad,
                    View<float, 2> out_grad);

}  // namespace gnomon
