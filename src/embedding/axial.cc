#include "gnomon/embedding/axial.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/exported.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t grain_channels = 64;

void check(const AxialLearned& axial) {
  if (axial.join != AxisJoin::concatenated && axial.join != AxisJoin::summed)
    refuse("axial", "join must be concatenated or summed", static_cast<int>(axial.join));
  if (axial.rows.empty()) refuse("axial", "there must be at least one axis", 0);
  if (axial.widths.size() != axial.rows.size())
    refuse("axial", "widths must have one entry per axis, " + std::to_string(axial.rows.size()),
           static_cast<int64_t>(axial.widths.size()));
  int64_t positions = 1, channels = 0;
  for (const int64_t rows : axial.rows) {
    if (rows < 1) refuse("axial", "rows must be at least 1", rows);
    if (rows > std::numeric_limits<int64_t>::max() / positions)
      refuse("axial", "the product of rows must be below 2^63: rows", rows);
    positions *= rows;
  }
  for (const int64_t width : axial.widths) {
    if (width < 1) refuse("axial", "widths must be at least 1", width);
    if (axial.join == AxisJoin::summed && width != axial.widths[0])
      refuse("axial", "summed axes must have equal widths, " + std::to_string(axial.widths[0]),
             width);
    if (width > std::numeric_limits<int64_t>::max() - channels)
      refuse("axial", "the sum of widths must be below 2^63: width", width);
    channels += width;
  }
}

template <typename Matrix, typename Tables>
void check_views(const AxialLearned& axial, std::size_t positions, const char* what,
                 const Matrix& matrix, const Tables& tables) {
  check(axial);
  if (tables.size() != axial.rows.size())
    refuse("axial", "there must be one table per axis, " + std::to_string(axial.rows.size()),
           static_cast<int64_t>(tables.size()));
  for (std::size_t a = 0; a < tables.size(); ++a) {
    const std::array<std::int64_t, 2> wanted{axial.rows[a], axial.widths[a]};
    if (tables[a].extents() != wanted)
      refuse("axial", "table " + std::to_string(a) + " must be " + shape_text(wanted),
             shape_text(tables[a].extents()));
  }
  const std::array<std::int64_t, 2> wanted{static_cast<std::int64_t>(positions), width(axial)};
  if (matrix.extents() != wanted)
    refuse("axial", std::string(what) + " must be [T, C] = " + shape_text(wanted),
           shape_text(matrix.extents()));
}

// First channel of an axis.
int64_t first_channel(const AxialLearned& axial, std::size_t axis) {
  int64_t first = 0;
  if (axial.join == AxisJoin::concatenated)
    for (std::size_t a = 0; a < axis; ++a) first += axial.widths[a];
  return first;
}

}  // namespace

int64_t capacity(const AxialLearned& axial) {
  check(axial);
  int64_t positions = 1;
  for (const int64_t rows : axial.rows) positions *= rows;
  return positions;
}

int64_t width(const AxialLearned& axial) {
  check(axial);
  return first_channel(axial, axial.widths.size() - 1) + axial.widths.back();
}

std::vector<int64_t> axial_rows(const AxialLearned& axial, int64_t axis,
                                std::span<const int64_t> positions) {
  const int64_t most = capacity(axial);
  const auto axes = static_cast<int64_t>(axial.rows.size());
  if (axis < 0 || axis >= axes)
    refuse("axial", "axis must be from 0 to " + std::to_string(axes - 1), axis);
  const auto at = static_cast<std::size_t>(axis);
  int64_t step = 1;  // number of consecutive positions that share a row
  for (std::size_t a = at + 1; a < axial.rows.size(); ++a) step *= axial.rows[a];
  std::vector<int64_t> rows(positions.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (positions[t] < 0 || positions[t] >= most)
      refuse("axial",
             "position must have a row: the tables hold 0 to " + std::to_string(most - 1),
             positions[t]);
    rows[t] = positions[t] / step % axial.rows[at];
  }
  return rows;
}

template <typename T>
void fill(const AxialLearned& axial, std::span<const View<const T, 2>> tables,
          std::span<const int64_t> positions, View<T, 2> out) {
  check_views(axial, positions.size(), "out", out, tables);
  std::vector<std::vector<int64_t>> rows;
  for (std::size_t a = 0; a < tables.size(); ++a)
    rows.push_back(axial_rows(axial, static_cast<int64_t>(a), positions));
  const bool summed = axial.join == AxisJoin::summed;
  for (std::size_t t = 0; t < positions.size(); ++t) {
    const auto at = static_cast<int64_t>(t);
    if (summed) {
      for (int64_t c = 0; c < out.extent(1); ++c) {
        double sum = 0;
        for (std::size_t a = 0; a < tables.size(); ++a) sum += double{tables[a](rows[a][t], c)};
        out(at, c) = static_cast<T>(sum);
      }
      continue;
    }
    int64_t first = 0;
    for (std::size_t a = 0; a < tables.size(); first += axial.widths[a++])
      for (int64_t c = 0; c < axial.widths[a]; ++c)
        out(at, first + c) = tables[a](rows[a][t], c);
  }
}

EmbeddingTable lower(const AxialLearned& axial, std::span<const View<const float, 2>> tables,
                     std::span<const int64_t> positions) {
  EmbeddingTable table{static_cast<int64_t>(positions.size()), width(axial), {}};
  // Validate all positions before the allocation.
  for (std::size_t a = 0; a < axial.rows.size(); ++a)
    axial_rows(axial, static_cast<int64_t>(a), positions);
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  fill(axial, tables, positions,
       View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

template <typename T>
void fill_backward(const AxialLearned& axial, View<const T, 2> grad,
                   std::span<const int64_t> positions,
                   std::span<const View<T, 2>> tables_grad) {
  check_views(axial, positions.size(), "grad", grad, tables_grad);
  for (std::size_t a = 0; a < tables_grad.size(); ++a) {
    const std::vector<int64_t> rows = axial_rows(axial, static_cast<int64_t>(a), positions);
    const int64_t first = first_channel(axial, a);
    const View<T, 2> table = tables_grad[a];
    parallel_for(axial.widths[a], grain_channels, [&](int64_t begin, int64_t end) {
      const int64_t width = end - begin;
      std::vector<double> sums(static_cast<std::size_t>(table.extent(0) * width));
      for (std::size_t t = 0; t < rows.size(); ++t) {
        double* const sum = sums.data() + rows[t] * width;
        for (int64_t c = 0; c < width; ++c)
          sum[c] += double{grad(static_cast<int64_t>(t), first + begin + c)};
      }
      for (int64_t row = 0; row < table.extent(0); ++row)
        for (int64_t c = 0; c < width; ++c) {
          T& entry = table(row, begin + c);
          entry =
              static_cast<T>(double{entry} + sums[static_cast<std::size_t>(row * width + c)]);
        }
    });
  }
}

#define GNOMON_INSTANTIATE(T)                                                                \
  template GNOMON_EXPORTED void fill(const AxialLearned&, std::span<const View<const T, 2>>, \
                                     std::span<const int64_t>, View<T, 2>);                  \
  template GNOMON_EXPORTED void fill_backward(const AxialLearned&, View<const T, 2>,         \
                                              std::span<const int64_t>,                      \
                                              std::span<const View<T, 2>>);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
