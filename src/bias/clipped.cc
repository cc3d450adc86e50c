#include "gnomon/bias/clipped.h"

#include <algorithm>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "src/bias/spread.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const ClippedBias& clipped) {
  if (clipped.heads < 1) refuse("clipped", "heads must be at least 1", clipped.heads);
  if (clipped.left < 0) refuse("clipped", "left must not be negative", clipped.left);
  if (clipped.right < 0) refuse("clipped", "right must not be negative", clipped.right);
}

int64_t column_unchecked(const ClippedBias& clipped, int64_t distance) {
  return clipped.right - std::clamp(distance, -clipped.left, clipped.right);
}

// Returns the table [H, L] as a view [L, H].
template <typename T>
View<T, 2> by_column(const ClippedBias& clipped, View<T, 2> table) {
  check(clipped);
  const int64_t columns =
      internal::checked_sum("clipped", "left + 1 + right", {clipped.left, 1, clipped.right});
  if (table.extent(0) != clipped.heads)
    refuse("clipped",
           "the table must have a row for each head, " + std::to_string(clipped.heads),
           table.extent(0));
  if (table.extent(1) != columns)
    refuse("clipped",
           "the table must have left + 1 + right columns, " + std::to_string(columns),
           table.extent(1));
  return View<T, 2>(table.data(), {table.extent(1), table.extent(0)},
                    {table.stride(1), table.stride(0)});
}

internal::Classes columns_of(const ClippedBias& clipped, int64_t min_distance, int64_t count) {
  const int64_t inner =
      std::min(std::max(clipped.left, clipped.right), std::numeric_limits<int64_t>::max() / 4);
  return internal::classes_of("clipped", min_distance, count, inner, [&](int64_t distance) {
    return column_unchecked(clipped, distance);
  });
}

}  // namespace

int64_t column(const ClippedBias& clipped, int64_t distance) {
  check(clipped);
  return column_unchecked(clipped, distance);
}

StripBias lower(const ClippedBias& clipped, View<const float, 2> table, int64_t min_distance,
                int64_t count) {
  const View<const float, 2> columns = by_column(clipped, table);
  return internal::spread(columns, min_distance, columns_of(clipped, min_distance, count));
}

void lower_backward(const ClippedBias& clipped, std::span<const double> strip_grad,
                    int64_t min_distance, int64_t count, View<float, 2> table_grad) {
  const View<float, 2> columns = by_column(clipped, table_grad);
  internal::gather_gradient("clipped", strip_grad, columns_of(clipped, min_distance, count),
                            columns);
}

}  // namespace gnomon
