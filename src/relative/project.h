// Vectors by distance that are projections by a trained matrix: W x, head by head. Letters: H
// heads, D head dimension, C width of x, R vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gnomon/view.h"
#include "src/core/products.h"
#include "src/relative/numbers.h"

namespace gnomon::internal {

inline View<const double, 2> as_matrix(const std::vector<double>& numbers,
                                       std::int64_t columns) {
  return {numbers.data(), {static_cast<std::int64_t>(numbers.size()) / columns, columns}};
}

template <typename T>
View<T, 2> exchanged(View<T, 2> matrix) {
  return {matrix.data(),
          {matrix.extent(1), matrix.extent(0)},
          {matrix.stride(1), matrix.stride(0)}};
}

// Returns the matrix [R, D] of head h from an array [H, R, D].
template <typename T>
View<T, 2> of_head(T* all, std::int64_t h, std::int64_t vectors, std::int64_t each) {
  return {all + h * vectors * each, {vectors, each}};
}

// Returns [H, R, D] from w [H D, C] and x [R, C]. b [1, H D] is added unless it is empty.
inline std::vector<double> project(std::int64_t heads, View<const float, 2> w,
                                   View<const float, 2> b, const std::vector<double>& x) {
  const std::int64_t wide = w.extent(0), each = wide / heads;
  const View<const double, 2> rows = as_matrix(x, w.extent(1));
  const std::int64_t vectors = rows.extent(0);
  std::vector<double> projected(to_size(wide * vectors));
  for (std::int64_t h = 0; h < heads; ++h) {
    const View<double, 2> to = of_head(projected.data(), h, vectors, each);
    if (b.data())
      for (std::int64_t r = 0; r < vectors; ++r)
        for (std::int64_t d = 0; d < each; ++d) to(r, d) = double{b(0, h * each + d)};
    multiply_add(rows, RightFactor(exchanged(w.slice(0, h * each, each))), to);
  }
  return projected;
}

// Returns the gradient of w [H D, C], given that of the projection, [H, R, D].
inline std::vector<double> project_backward(std::int64_t heads, std::int64_t wide,
                                            std::int64_t channels, const std::vector<double>& x,
                                            const std::vector<double>& grad) {
  const View<const double, 2> rows = as_matrix(x, channels);
  const std::int64_t vectors = rows.extent(0), each = wide / heads;
  const RightFactor factor(rows);
  std::vector<double> of_w(to_size(wide * channels));
  for (std::int64_t h = 0; h < heads; ++h)
    multiply(exchanged(of_head(grad.data(), h, vectors, each)), factor,
             of_head(of_w.data(), h, each, channels));
  return of_w;
}

// Adds the gradient of x [R, C] to of_x.
inline void project_backward_to(std::int64_t heads, View<const float, 2> w,
                                const std::vector<double>& grad, std::vector<double>& of_x) {
  const std::int64_t channels = w.extent(1), each = w.extent(0) / heads;
  const std::int64_t vectors = static_cast<std::int64_t>(of_x.size()) / channels;
  for (std::int64_t h = 0; h < heads; ++h)
    multiply_add(of_head(grad.data(), h, vectors, each),
                 RightFactor(w.slice(0, h * each, each)),
                 View<double, 2>(of_x.data(), {vectors, channels}));
}

}  // namespace gnomon::internal
