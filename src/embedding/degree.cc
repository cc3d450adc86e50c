#include "gnomon/embedding/degree.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const Degree& degree) {
  if (degree.rows < 2) refuse("degree", "rows must be at least 2", degree.rows);
  if (degree.width < 1) refuse("degree", "width must be at least 1", degree.width);
  if (degree.beyond != DegreeBeyond::capped && degree.beyond != DegreeBeyond::refused)
    refuse("degree", "beyond must be capped or refused", static_cast<int>(degree.beyond));
}

int64_t row_unchecked(const Degree& degree, int64_t arcs) {
  const int64_t most = degree.rows - 2;
  if (arcs > most && degree.beyond == DegreeBeyond::refused)
    refuse("degree", "a node's degree must be at most " + std::to_string(most), arcs);
  return std::min(arcs, most) + 1;
}

void check_table(const Degree& degree, const std::array<std::int64_t, 2>& extents) {
  if (extents[0] != degree.rows || extents[1] != degree.width)
    refuse("degree",
           "each table must be [" + std::to_string(degree.rows) + ", " +
               std::to_string(degree.width) + "]",
           shape_text(extents));
}

void check_rows(const Degree& degree, const DegreeRows& rows) {
  check(degree);
  if (rows.in.size() != rows.out.size())
    refuse("degree", "in and out must have equal length, " + std::to_string(rows.in.size()),
           static_cast<int64_t>(rows.out.size()));
  for (const auto* part : {&rows.in, &rows.out})
    for (const int64_t row : *part)
      if (row < 0 || row >= degree.rows)
        refuse("degree", "rows must be 0 to " + std::to_string(degree.rows - 1), row);
}

void add_gradient(const std::vector<int64_t>& rows, View<const float, 2> table_grad,
                  View<float, 2> grad) {
  const int64_t channels = grad.extent(1);
  std::vector<double> sums(static_cast<std::size_t>(grad.size()));
  for (std::size_t n = 0; n < rows.size(); ++n)
    for (int64_t c = 0; c < channels; ++c)
      sums[static_cast<std::size_t>(rows[n] * channels + c)] +=
          double{table_grad(static_cast<std::int64_t>(n), c)};
  for (int64_t row = 0; row < grad.extent(0); ++row)
    for (int64_t c = 0; c < channels; ++c)
      grad(row, c) = static_cast<float>(double{grad(row, c)} +
                                        sums[static_cast<std::size_t>(row * channels + c)]);
}

}  // namespace

Degree degree_graphormer(int64_t width) {
  const Degree degree{.rows = 512, .width = width, .beyond = DegreeBeyond::refused};
  check(degree);
  return degree;
}

int64_t degree_row(const Degree& degree, int64_t arcs) {
  check(degree);
  if (arcs < 0) refuse("degree", "a node's degree must not be negative", arcs);
  return row_unchecked(degree, arcs);
}

DegreeRows degree_rows(const Degree& degree, const Graph& graph) {
  check(degree);
  DegreeRows rows{.in = in_degrees(graph), .out = out_degrees(graph)};
  for (auto* part : {&rows.in, &rows.out})
    for (int64_t& row : *part) row = row_unchecked(degree, row);
  return rows;
}

EmbeddingTable lower(const Degree& degree, const DegreeRows& rows, View<const float, 2> in,
                     View<const float, 2> out) {
  check_rows(degree, rows);
  check_table(degree, in.extents());
  check_table(degree, out.extents());
  EmbeddingTable table{
      .tokens = static_cast<int64_t>(rows.in.size()), .width = degree.width, .values = {}};
  table.values.reserve(
      internal::checked_size("embedding", "tokens x width", {table.tokens, degree.width}));
  for (std::size_t n = 0; n < rows.in.size(); ++n)
    for (int64_t c = 0; c < degree.width; ++c)
      table.values.push_back(
          static_cast<float>(double{in(rows.in[n], c)} + double{out(rows.out[n], c)}));
  return table;
}

void lower_backward(const Degree& degree, const DegreeRows& rows,
                    View<const float, 2> table_grad, View<float, 2> in_grad,
                    View<float, 2> out_grad) {
  check_rows(degree, rows);
  check_table(degree, in_grad.extents());
  check_table(degree, out_grad.extents());
  const auto nodes = static_cast<int64_t>(rows.in.size());
  if (table_grad.extent(0) != nodes || table_grad.extent(1) != degree.width)
    refuse("degree",
           "the table's gradient must be [" + std::to_string(nodes) + ", " +
               std::to_string(degree.width) + "]",
           shape_text(table_grad.extents()));
  add_gradient(rows.in, table_grad, in_grad);
  add_gradient(rows.out, table_grad, out_grad);
}

}  // namespace gnomon
