// What T5's buckets and the clipped table share: a trained number for each class of distances,
// spread over a strip of distances, and the way back.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/error.h"
#include "gnomon/view.h"

namespace gnomon::internal {

// table: [classes, H]; class_of(distance) is in range.
template <typename ClassOf>
StripBias spread(std::string_view room, View<const float, 2> table, std::int64_t first,
                 std::int64_t count, ClassOf class_of) {
  if (count < 0) refuse(room, "count of distances must not be negative", count);
  StripBias strip{.heads = table.extent(1), .first = first, .values = {}};
  strip.values.resize(static_cast<std::size_t>(strip.heads * count));
  View<double, 2> values(strip.values.data(), {table.extent(1), count});
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t row = class_of(first + n);
    for (std::int64_t h = 0; h < strip.heads; ++h) values(h, n) = double{table(row, h)};
  }
  return strip;
}

// Adds strip_grad [H, N] into table_grad [classes, H]; one rounding to float a number.
template <typename ClassOf>
void gather_gradient(std::string_view room, std::span<const double> strip_grad,
                     std::int64_t first, std::int64_t count, View<float, 2> table_grad,
                     ClassOf class_of) {
  const std::int64_t heads = table_grad.extent(1);
  if (count < 0) refuse(room, "count of distances must not be negative", count);
  if (static_cast<std::int64_t>(strip_grad.size()) != heads * count)
    refuse(room,
           "the strip's gradient must have heads x distances numbers, " +
               std::to_string(heads * count),
           static_cast<std::int64_t>(strip_grad.size()));
  std::vector<double> sums(static_cast<std::size_t>(table_grad.size()));
  View<double, 2> sum(sums.data(), table_grad.extents());
  View<const double, 2> grad(strip_grad.data(), {heads, count});
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t row = class_of(first + n);
    for (std::int64_t h = 0; h < heads; ++h) sum(row, h) += grad(h, n);
  }
  for (std::int64_t row = 0; row < table_grad.extent(0); ++row)
    for (std::int64_t h = 0; h < heads; ++h)
      table_grad(row, h) = static_cast<float>(double{table_grad(row, h)} + sum(row, h));
}

}  // namespace gnomon::internal
