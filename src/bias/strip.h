// Helpers of the biases that compute one value per distance.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gnomon/bias/form.h"
#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon::internal {

// Adds in double and rounds once.
inline void add(float& to, double value) { to = static_cast<float>(double{to} + value); }

// Distances are converted to double, which is exact up to 2^53.
inline void check_distances(std::string_view operation, std::int64_t min_distance,
                            std::int64_t count) {
  constexpr std::int64_t furthest = std::int64_t{1} << 53;
  if (count < 0) refuse(operation, "count of distances must not be negative", count);
  if (min_distance < -furthest || min_distance > furthest - count)
    refuse(operation, "distances must be at most 2^53 in magnitude", min_distance);
}

inline StripBias empty_strip(std::string_view operation, std::int64_t heads,
                             std::int64_t min_distance, std::int64_t count) {
  check_distances(operation, min_distance, count);
  return {heads, min_distance,
          std::vector<double>(checked_size(operation, "heads x distances", {heads, count}))};
}

inline void check_strip_grad(std::string_view operation, std::span<const double> strip_grad,
                             std::int64_t heads, std::int64_t min_distance,
                             std::int64_t count) {
  check_distances(operation, min_distance, count);
  const std::int64_t wanted = checked_product(operation, "heads x distances", {heads, count});
  if (static_cast<std::int64_t>(strip_grad.size()) != wanted)
    refuse(operation,
           "the gradient of the strip must have heads x distances values, " +
               std::to_string(wanted),
           static_cast<std::int64_t>(strip_grad.size()));
}

}  // namespace gnomon::internal
