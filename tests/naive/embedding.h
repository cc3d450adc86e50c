// Naive versions of the kernels of embedding/: double, loops.
#pragma once

#include <cmath>
#include <cstdint>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/view.h"

namespace gnomon::testing {

// Returns channel c of the embedding of a position.
inline double naive_sinusoidal(const Sinusoidal& s, double position, std::int64_t c) {
  const std::int64_t width = s.width, n = width / 2, m = width - n;
  const auto frequency = [&](std::int64_t i, double denominator) {
    return std::pow(s.base, -static_cast<double>(i) / denominator);
  };
  const auto wave = [&](bool cosine, double f) {
    return cosine ? std::cos(s.scale * position * f) : std::sin(s.scale * position * f);
  };
  if (s.recipe == SinusoidalRecipe::interleaved)
    return wave(c % 2 == 1, frequency(c / 2, static_cast<double>(width) / 2));
  if (s.recipe == SinusoidalRecipe::half_split)
    return wave(c >= m, frequency(c < m ? c : c - m, static_cast<double>(width) / 2));
  if (c == 2 * n) return 0;  // the last channel of an odd width
  const bool timestep = s.recipe == SinusoidalRecipe::timestep;
  const bool cosine_first = timestep && s.order == SinusoidalOrder::cosine_first;
  return wave((c >= n) != cosine_first,
              frequency(c % n, static_cast<double>(n) - (timestep ? s.shift : 1)));
}

// x[b, t] += scale table[t]; x [B, T, C], table [T, C].
inline void naive_add_table(View<double, 3> x, View<const double, 2> table, double scale) {
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t t = 0; t < x.extent(1); ++t)
      for (std::int64_t c = 0; c < x.extent(2); ++c) x(b, t, c) += scale * table(t, c);
}
inline void naive_add_table_backward(View<const double, 3> grad, double scale,
                                     View<double, 2> table_grad) {
  for (std::int64_t b = 0; b < grad.extent(0); ++b)
    for (std::int64_t t = 0; t < grad.extent(1); ++t)
      for (std::int64_t c = 0; c < grad.extent(2); ++c)
        table_grad(t, c) += scale * grad(b, t, c);
}

// x[b, t] += table[rows[b, t]]; rows [B, T].
inline void naive_add_rows(View<double, 3> x, View<const double, 2> table,
                           View<const std::int64_t, 2> rows) {
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t t = 0; t < x.extent(1); ++t)
      for (std::int64_t c = 0; c < x.extent(2); ++c) x(b, t, c) += table(rows(b, t), c);
}
inline void naive_add_rows_backward(View<const double, 3> grad,
                                    View<const std::int64_t, 2> rows,
                                    View<double, 2> table_grad) {
  for (std::int64_t b = 0; b < grad.extent(0); ++b)
    for (std::int64_t t = 0; t < grad.extent(1); ++t)
      for (std::int64_t c = 0; c < grad.extent(2); ++c)
        table_grad(rows(b, t), c) += grad(b, t, c);
}

// out[t, c] = sum over f of features[t, f] weights[f, c].
inline void naive_project(View<const double, 2> features, View<const double, 2> weights,
                          View<double, 2> out) {
  for (std::int64_t t = 0; t < out.extent(0); ++t)
    for (std::int64_t c = 0; c < out.extent(1); ++c) {
      out(t, c) = 0;
      for (std::int64_t f = 0; f < features.extent(1); ++f)
        out(t, c) += features(t, f) * weights(f, c);
    }
}
inline void naive_project_backward(View<const double, 2> features, View<const double, 2> grad,
                                   View<double, 2> weights_grad) {
  for (std::int64_t f = 0; f < features.extent(1); ++f)
    for (std::int64_t c = 0; c < grad.extent(1); ++c)
      for (std::int64_t t = 0; t < features.extent(0); ++t)
        weights_grad(f, c) += features(t, f) * grad(t, c);
}

}  // namespace gnomon::testing
