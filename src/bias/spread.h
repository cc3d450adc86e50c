// Strips with one trained value per class of distances, and their gradient. Used by T5, the
// clipped bias and Graphormer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/error.h"
#include "gnomon/view.h"
#include "src/core/memory.h"
#include "src/core/size.h"

namespace gnomon::internal {

// The classes of `count` distances from `min_distance` on. Only distances up to `inner` in
// magnitude have individual classes: `before` distances share the first class, then follow the
// classes `inside`, and `after` distances share the last class.
struct Classes {
  std::int64_t before = 0, after = 0;
  std::int64_t first_class = 0, last_class = 0;
  std::vector<std::int64_t> inside;
};

// class_of(distance) must be constant for all distances below -inner, and for all above inner.
template <typename ClassOf>
Classes classes_of(std::string_view operation, std::int64_t min_distance, std::int64_t count,
                   std::int64_t inner, ClassOf class_of) {
  if (count < 0) refuse(operation, "count of distances must not be negative", count);
  checked_sum(operation, "distances", {min_distance, count});
  Classes classes;
  // Returns how many distances are below a limit. Unsigned arithmetic, so that nothing
  // overflows.
  const auto below = [&](std::int64_t limit) {
    if (min_distance >= limit) return std::int64_t{0};
    const auto gap =
        static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(min_distance);
    return static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(count), gap));
  };
  classes.before = below(-inner);
  classes.after = count - below(inner + 1);
  classes.first_class = class_of(-inner - 1);
  classes.last_class = class_of(inner + 1);
  for (std::int64_t n = classes.before; n < count - classes.after; ++n)
    classes.inside.push_back(class_of(min_distance + n));
  return classes;
}

// table: [classes, H]. Runs of one class are filled without look-ups.
inline StripBias spread(View<const float, 2> table, std::int64_t min_distance,
                        const Classes& classes) {
  StripBias strip{.heads = table.extent(1), .min_distance = min_distance, .values = {}};
  const auto inside = static_cast<std::int64_t>(classes.inside.size());
  const std::int64_t count = classes.before + inside + classes.after;
  strip.values.reserve(checked_size("bias", "heads x distances", {strip.heads, count}));
  advise_huge_pages(strip.values.data(), strip.values.capacity() * sizeof(double));
  const auto repeat = [&](std::int64_t times, double value) {
    strip.values.insert(strip.values.end(), static_cast<std::size_t>(times), value);
  };
  for (std::int64_t h = 0; h < strip.heads; ++h) {
    repeat(classes.before, double{table(classes.first_class, h)});
    for (const std::int64_t row : classes.inside) strip.values.push_back(double{table(row, h)});
    repeat(classes.after, double{table(classes.last_class, h)});
  }
  return strip;
}

// Adds strip_grad [H, N] to table_grad [classes, H], with one rounding per element. Each class
// is summed in the order of the distances.
inline void gather_gradient(std::string_view operation, std::span<const double> strip_grad,
                            const Classes& classes, View<float, 2> table_grad) {
  const std::int64_t heads = table_grad.extent(1);
  const auto inside = static_cast<std::int64_t>(classes.inside.size());
  const std::int64_t count = classes.before + inside + classes.after;
  const std::int64_t wanted = checked_product(operation, "heads x distances", {heads, count});
  if (static_cast<std::int64_t>(strip_grad.size()) != wanted)
    refuse(operation,
           "the gradient of the strip must have heads x distances values, " +
               std::to_string(wanted),
           static_cast<std::int64_t>(strip_grad.size()));
  std::vector<double> sums(static_cast<std::size_t>(table_grad.size()));
  View<double, 2> sum(sums.data(), {heads, table_grad.extent(0)});
  for (std::int64_t h = 0; h < heads; ++h) {
    const double* grad = strip_grad.data() + h * count;
    for (std::int64_t n = 0; n < classes.before; ++n) sum(h, classes.first_class) += *grad++;
    for (const std::int64_t row : classes.inside) sum(h, row) += *grad++;
    for (std::int64_t n = 0; n < classes.after; ++n) sum(h, classes.last_class) += *grad++;
  }
  for (std::int64_t row = 0; row < table_grad.extent(0); ++row)
    for (std::int64_t h = 0; h < heads; ++h)
      table_grad(row, h) = static_cast<float>(double{table_grad(row, h)} + sum(h, row));
}

}  // namespace gnomon::internal
