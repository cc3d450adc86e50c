// Centrality as position: trained vectors chosen by how many arcs come to a node and leave it,
// added to its embedding.
//
//   Ying et al. "Do Transformers Really Perform Bad for Graph Representation?" (Graphormer),
//   2021. https://arxiv.org/abs/2106.05234, section 3.1.1.
//
//   x[n] += in[row(in-degree n)] + out[row(out-degree n)],   row(d) = d + 1
//
// Row 0 of both tables is padding's, and no node's. Letters: N nodes, C channels.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/embedding/table.h"
#include "gnomon/position/graph.h"
#include "gnomon/view.h"

namespace gnomon {

// A degree of more than rows - 2:
enum class DegreeBeyond {
  capped = 1,  // has the last row
  refused,     // as in the released code, which has no row for it
};

struct Degree {
  std::int64_t rows = 0;  // of each table; at least 2
  std::int64_t dim = 0;   // C; at least 1
  DegreeBeyond beyond = {};

  bool operator==(const Degree&) const = default;
};

// As released: 512 rows, so degrees up to 510, and others refused. (That code counts the arcs
// that leave a node and takes them for both: right for undirected graphs, which are all it has
// been given.)
Degree degree_graphormer(std::int64_t dim);

// The row of a degree. Throws std::invalid_argument where it is negative or refused.
std::int64_t degree_row(const Degree& degree, std::int64_t arcs);

// The rows of a graph's nodes, [N] each: what add_rows takes. An undirected graph has the same
// in both.
struct DegreeRows {
  std::vector<std::int64_t> in, out;
  bool operator==(const DegreeRows&) const = default;
};
DegreeRows degree_rows(const Degree& degree, const Graph& graph);

// The plan: [N, C], both tables' rows [rows, C] added in double and rounded once.
EmbeddingTable degree_table(const Degree& degree, const DegreeRows& rows,
                            View<const float, 2> in, View<const float, 2> out);

// Gradient of `degree_table`: adds table_grad [N, C] into both tables', in double in the order
// of the nodes, one rounding a number.
void degree_table_backward(const Degree& degree, const DegreeRows& rows,
                           View<const float, 2> table_grad, View<float, 2> in_grad,
                           View<float, 2> out_grad);

}  // namespace gnomon
