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
  if (clipped.before < 0) refuse("clipped", "before must not be negative", clipped.before);
  if (clipped.after < 0) refuse("clipped", "after must not be negative", clipped.after);
}

int64_t column_unchecked(const ClippedBias& clipped, int64_t distance) {
  return clipped.after - std::clamp(distance, -clipped.before, clipped.after);
}

// The table [H, L] as [L, H].
template <typename T>
View<T, 2> by_column(const ClippedBias& clipped, View<T, 2> table) {
  check(clipped);
  const int64_t columns = clipped.before + 1 + clipped.after;
  if (table.extent(0) != clipped.heads)
    refuse("clipped",
           "the table must have a row for each head, " + std::to_string(clipped.heads),
           table.extent(0));
  if (table.extent(1) != columns)
    refuse("clipped",
           "the table must have before + 1 + after columns, " + std::to_string(columns),
           table.extent(1));
  return View<T, 2>(table.data(), {table.extent(1), table.extent(0)},
                    {table.stride(1), table.stride(0)});
}

internal::Classes columns_of(const ClippedBias& clipped, int64_t first, int64_t count) {
  const int64_t inner = std::min(std::max(clipped.before, clipped.after),
                                 std::numeric_limits<int64_t>::max() / 4);
  return internal::classes_of("clipped", first, count, inner, [&](int64_t distance) {
    return column_unchecked(clipped, distance);
  });
}

}  // namespace

int64_t column(const ClippedBias& clipped, int64_t distance) {
  check(clipped);
  return column_unchecked(clipped, distance);
}

StripBias strip(const ClippedBias& clipped, View<const float, 2> table, int64_t first,
                int64_t count) {
  const View<const float, 2> columns = by_column(clipped, table);
  return internal::spread(columns, first, columns_of(clipped, first, count));
}

void strip_backward(const ClippedBias& clipped, std::span<const double> strip_grad,
                    int64_t first, int64_t count, View<float, 2> table_grad) {
  const View<float, 2> columns = by_column(clipped, table_grad);
  internal::gather_gradient("clipped", strip_grad, columns_of(clipped, first, count), columns);
}

}  // namespace gnomon
