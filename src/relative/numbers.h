// Helpers of the lowerings of this module: parameters as doubles, checks of distances, and
// gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/view.h"
#include "src/core/size.h"

namespace gnomon::internal {

template <typename T>
void check_matrix(std::string_view operation, std::string_view what, const View<T, 2>& matrix,
                  std::int64_t rows, std::int64_t columns) {
  if (const std::array<std::int64_t, 2> extents{rows, columns}; matrix.extents() != extents)
    refuse(operation, std::string(what) + " must be " + shape_text(extents),
           shape_text(matrix.extents()));
}

// Calls body(row, pointer to its first element, step between elements). A step of 1 is a
// compile-time constant, so that the loop in `body` is vectorized.
template <typename T, typename Body>
void for_rows(View<T, 2> matrix, Body body) {
  for (std::int64_t row = 0; row < matrix.extent(0); ++row) {
    T* const numbers = matrix.data() + row * matrix.stride(0);
    if (matrix.stride(1) == 1)
      body(row, numbers, std::integral_constant<std::ptrdiff_t, 1>());
    else
      body(row, numbers, matrix.stride(1));
  }
}

inline std::vector<double> as_doubles(View<const float, 2> matrix) {
  std::vector<double> numbers(to_size(matrix.size()));
  const std::int64_t columns = matrix.extent(1);
  for_rows(matrix, [&](std::int64_t row, const float* from, auto step) {
    double* const to = numbers.data() + row * columns;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = double{from[c * step]};
  });
  return numbers;
}

// matrix += numbers, with one rounding per element.
inline void add_rounded(std::span<const double> numbers, View<float, 2> matrix) {
  const std::int64_t columns = matrix.extent(1);
  for_rows(matrix, [&](std::int64_t row, float* to, auto step) {
    const double* const from = numbers.data() + row * columns;
    for (std::int64_t c = 0; c < columns; ++c)
      to[c * step] = static_cast<float>(double{to[c * step]} + from[c]);
  });
}

// Throws if there are no `count` distances from `min_distance` on, or one does not fit in 64
// bits.
inline void check_vector_distances(std::string_view operation, std::int64_t min_distance,
                                   std::int64_t count) {
  if (count < 1) refuse(operation, "count of distances must be at least 1", count);
  if (min_distance > std::numeric_limits<std::int64_t>::max() - (count - 1))
    refuse(operation, "min_distance + count - 1 must fit in 64 bits; min_distance",
           min_distance);
}

// Returns the gradient of the only table of a part; throws if the number of tables or elements
// differs.
inline const std::vector<double>& only(std::string_view operation, std::string_view part,
                                       const std::vector<std::vector<double>>& grads,
                                       std::int64_t numbers) {
  if (grads.size() != 1)
    refuse(operation, "the gradient must have one table of " + std::string(part),
           static_cast<std::int64_t>(grads.size()));
  if (grads[0].size() != to_size(numbers))
    refuse(operation,
           "the gradient of " + std::string(part) + " must have " + std::to_string(numbers) +
               " numbers",
           static_cast<std::int64_t>(grads[0].size()));
  return grads[0];
}

}  // namespace gnomon::internal
