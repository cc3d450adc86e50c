#include "gnomon/relative/decomposed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/relative/numbers.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

// One axis of the grids, in integer coordinates: query i has coordinate i query_step, key j has
// coordinate j key_step, and one row of the table spans `unit` coordinates.
struct DecomposedAxis {
  int64_t queries, keys, table;
  int64_t query_step, key_step, unit;

  DecomposedAxis(int64_t q, int64_t k, int64_t rows) : queries(q), keys(k), table(rows) {
    const int64_t common = std::gcd(q, k);
    query_step = k / common, key_step = q / common;
    unit = std::min(q, k) / common;
    if (!table) table = vectors();
  }
  int64_t vectors() const { return 2 * std::max(queries, keys) - 1; }
  int64_t nearest() const { return -(queries - 1) * query_step; }  // least key - query
  int64_t farthest() const { return (keys - 1) * key_step; }
  int64_t index(int64_t distance) const { return (farthest() - distance) / unit; }
};

DecomposedAxis rows_of(const Decomposed& d) {
  return {d.height, d.key_height ? d.key_height : d.height, d.table_height};
}
DecomposedAxis columns_of(const Decomposed& d) {
  return {d.width, d.key_width ? d.key_width : d.width, d.table_width};
}

void check(const Decomposed& d) {
  if (d.head_dim < 1) refuse("decomposed", "head_dim must be at least 1", d.head_dim);
  const auto within = [](const char* what, int64_t extent, int64_t least) {
    if (extent < least || extent > 32767)
      refuse("decomposed",
             std::string(what) + " must be " + std::to_string(least) + " to 32767", extent);
  };
  within("height", d.height, 1);
  within("width", d.width, 1);
  within("key_height", d.key_height, 0);
  within("key_width", d.key_width, 0);
  for (const int64_t rows : {d.table_height, d.table_width})
    if (rows < 0 || (rows && rows % 2 == 0) || rows > 65533)
      refuse("decomposed", "a table must have an odd number of rows, at most 65533", rows);
  if (d.class_tokens < 0 || d.class_tokens > 1)
    refuse("decomposed", "class_tokens must be 0 or 1", d.class_tokens);
}

// Row r of the resized table is interpolated between two rows of the given table, with aligned
// pixel centres (PyTorch's `linear` with align_corners false).
struct Between {
  int64_t lower, upper;
  double above;  // the weight of `upper`
};
Between between(const DecomposedAxis& axis, int64_t row) {
  const double step = static_cast<double>(axis.table) / static_cast<double>(axis.vectors());
  const double at = std::max(0.0, (static_cast<double>(row) + 0.5) * step - 0.5);
  const auto lower = std::min(static_cast<int64_t>(at), axis.table - 1);
  return {lower, std::min(lower + 1, axis.table - 1), at - static_cast<double>(lower)};
}

std::vector<int64_t> indices(const DecomposedAxis& axis) {
  std::vector<int64_t> all;
  all.reserve(to_size(axis.queries * axis.keys));
  for (int64_t i = 0; i < axis.queries; ++i)
    for (int64_t j = 0; j < axis.keys; ++j)
      all.push_back(axis.index(j * axis.key_step - i * axis.query_step));
  return all;
}

// Returns the vectors of an axis without coordinates. With a class token, vector 0 is zero and
// is used for all distances beyond the grid.
RelativeVectors vectors_of(const Decomposed& d, const DecomposedAxis& axis,
                           View<const float, 2> table, double softmax_scale) {
  RelativeVectors v{.heads = 1, .head_dim = d.head_dim, .min_distance = axis.nearest()};
  for (int64_t distance = axis.nearest(); distance <= axis.farthest(); ++distance)
    v.rows.push_back(static_cast<std::int32_t>(d.class_tokens + axis.index(distance)));
  v.values.assign(to_size(d.class_tokens * d.head_dim), 0.0);
  for (int64_t row = 0; row < axis.vectors(); ++row) {
    const auto [lower, upper, above] = between(axis, row);
    for (int64_t c = 0; c < d.head_dim; ++c) {
      const double one = double{table(lower, c)};
      v.values.push_back((one + above * (double{table(upper, c)} - one)) / softmax_scale);
    }
  }
  return v;
}

void add_back(const Decomposed& d, const DecomposedAxis& axis, const std::vector<double>& grad,
              double softmax_scale, View<float, 2> table_grad) {
  std::vector<double> sums(to_size(axis.table * d.head_dim));
  const double* next = grad.data() + d.class_tokens * d.head_dim;
  for (int64_t row = 0; row < axis.vectors(); ++row) {
    const auto [lower, upper, above] = between(axis, row);
    for (int64_t c = 0; c < d.head_dim; ++c) {
      const double one = *next++ / softmax_scale;
      sums[to_size(lower * d.head_dim + c)] += (1 - above) * one;
      sums[to_size(upper * d.head_dim + c)] += above * one;
    }
  }
  internal::add_rounded(sums, table_grad);
}

template <typename T>
void check_tables(const Decomposed& d, const View<T, 2>& height, const View<T, 2>& width,
                  double softmax_scale) {
  check(d);
  internal::check_matrix("decomposed", "height", height, rows_of(d).table, d.head_dim);
  internal::check_matrix("decomposed", "width", width, columns_of(d).table, d.head_dim);
  if (!(softmax_scale > 0 && std::isfinite(softmax_scale)))
    refuse("decomposed", "softmax_scale must be positive and finite", softmax_scale);
}

// A distance beyond the grid along an axis. A class token has the coordinate -1 times this as a
// query and 2 times this as a key, so it has no vectors for any token or for itself.
int64_t beyond(const DecomposedAxis& axis) { return axis.farthest() - axis.nearest() + 1; }

}  // namespace

int64_t table_height(const Decomposed& decomposed) {
  check(decomposed);
  return rows_of(decomposed).table;
}

int64_t table_width(const Decomposed& decomposed) {
  check(decomposed);
  return columns_of(decomposed).table;
}

std::vector<int64_t> row_indices(const Decomposed& decomposed) {
  check(decomposed);
  return indices(rows_of(decomposed));
}

std::vector<int64_t> column_indices(const Decomposed& decomposed) {
  check(decomposed);
  return indices(columns_of(decomposed));
}

DecomposedPlan lower(const Decomposed& decomposed, const DecomposedTables& tables,
                     double softmax_scale) {
  check_tables(decomposed, tables.height, tables.width, softmax_scale);
  const DecomposedAxis rows = rows_of(decomposed), columns = columns_of(decomposed);
  const int64_t leading = decomposed.class_tokens;
  RelativeVectors high = vectors_of(decomposed, rows, tables.height, softmax_scale);
  RelativeVectors wide = vectors_of(decomposed, columns, tables.width, softmax_scale);
  const auto place = [&](int64_t height, int64_t width, int64_t down, int64_t along,
                         int64_t side) {
    if (leading) {
      high.coordinates.push_back(side * beyond(rows));
      wide.coordinates.push_back(side * beyond(columns));
    }
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        high.coordinates.push_back(y * down);
        wide.coordinates.push_back(x * along);
      }
  };
  place(rows.keys, columns.keys, rows.key_step, columns.key_step, 2);
  const int64_t keys = leading + rows.keys * columns.keys;
  const int64_t queries = leading + rows.queries * columns.queries;
  const bool alike = !leading && rows.queries == rows.keys && columns.queries == columns.keys;
  if (!alike) place(rows.queries, columns.queries, rows.query_step, columns.query_step, -1);
  if (leading)
    for (auto [vectors, axis] : {std::pair(&high, &rows), {&wide, &columns}})
      // Up to the distance of the class token to itself.
      vectors->rows.resize(to_size(3 * beyond(*axis) - axis->nearest() + 1), 0);
  DecomposedPlan plan{
      .form = {}, .queries = consecutive(queries, alike ? 0 : keys), .keys = consecutive(keys)};
  plan.form.keys.push_back(std::move(high));
  plan.form.keys.push_back(std::move(wide));
  return plan;
}

void lower_backward(const Decomposed& decomposed, double softmax_scale,
                    const RelativeGradient& grad, const DecomposedGradients& tables_grad) {
  check_tables(decomposed, tables_grad.height, tables_grad.width, softmax_scale);
  const DecomposedAxis rows = rows_of(decomposed), columns = columns_of(decomposed);
  const auto numbers = [&](const DecomposedAxis& axis) {
    return internal::checked_size(
        "decomposed", "vectors x head_dim",
        {decomposed.class_tokens + axis.vectors(), decomposed.head_dim});
  };
  if (grad.keys.size() != 2 || grad.keys[0].size() != numbers(rows) ||
      grad.keys[1].size() != numbers(columns))
    refuse("decomposed",
           "the gradient must have two tables of keys, of " + std::to_string(numbers(rows)) +
               " and " + std::to_string(numbers(columns)) + " numbers",
           std::to_string(grad.keys.size()) + " tables");
  add_back(decomposed, rows, grad.keys[0], softmax_scale, tables_grad.height);
  add_back(decomposed, columns, grad.keys[1], softmax_scale, tables_grad.width);
}

}  // namespace gnomon
