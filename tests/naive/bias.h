// Naive versions of the kernels of bias/: the bias of one pair of positions, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon::testing {

// An entry of the values of head h, of N per head.
inline double entry(const std::vector<double>& values, std::int64_t h, std::int64_t n_of_head,
                    std::int64_t n) {
  return values.at(static_cast<std::size_t>(h * n_of_head + n));
}

inline double naive_bias(const NoBias&, std::int64_t, std::int64_t, std::int64_t) { return 0; }

inline double naive_bias(const SlopeBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  return -entry(form.slopes, h, 1, 0) * std::abs(static_cast<double>(key - query));
}

inline double naive_bias(const StripBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  return entry(form.values, h, form.distances(), key - query - form.min_distance);
}

inline double naive_bias(const DenseBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  return double{form.values(0, h, query, key)};
}

inline double naive_bias(const GridBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  const std::int64_t last = form.offsets();
  if (query < form.leading && key < form.leading) return entry(form.values, h, last, last - 1);
  if (key < form.leading) return entry(form.values, h, last, last - 2);
  if (query < form.leading) return entry(form.values, h, last, last - 3);
  const std::int64_t q = query - form.leading, k = key - form.leading;
  const std::int64_t dy = q / form.width - k / form.width, dx = q % form.width - k % form.width;
  return entry(form.values, h, last,
               (dy + form.height - 1) * (2 * form.width - 1) + dx + form.width - 1);
}

inline double naive_bias(const AxesBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  double sum = 0;
  for (std::size_t a = 0; a < form.axes.size(); ++a) {
    const AxisStrip& axis = form.axes[a];
    const auto coordinate = [&](std::int64_t p) {
      return axis.coordinates.empty() ? p : axis.coordinates.at(static_cast<std::size_t>(p));
    };
    sum += entry(axis.values, h, form.distances(a),
                 coordinate(key) - coordinate(query) - axis.min_distance);
  }
  return sum;
}

inline double naive_bias(const PiecewiseLogBias& form, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  const auto psi = [&](double n) { return std::log(form.c * n + 1); };
  const double distance = std::abs(static_cast<double>(query - key));
  const double x = psi(distance) /
                   (psi(std::max(form.threshold, static_cast<double>(query))) + form.epsilon);
  std::int64_t piece = 0;
  while (piece + 1 < form.pieces() && form.knots[static_cast<std::size_t>(piece + 1)] <= x)
    ++piece;
  return entry(form.offsets, h, form.pieces(), piece) +
         entry(form.slopes, h, form.pieces(), piece) * x;
}

// out [H, Q, K]: the bias of the query at position offset + q and the key at position k.
inline void naive_dense(const BiasForm& form, std::int64_t offset, View<double, 3> out) {
  for (std::int64_t h = 0; h < out.extent(0); ++h)
    for (std::int64_t q = 0; q < out.extent(1); ++q)
      for (std::int64_t k = 0; k < out.extent(2); ++k)
        out(h, q, k) = std::visit(
            [&](const auto& one) { return naive_bias(one, h, offset + q, k); }, form);
}

// The gradient of a strip, [H, N]: the sum of grad [H, Q, K] over the pairs of each distance.
// That of the other forms is the same sum, over the pairs of each entry.
inline std::vector<double> naive_add_bias_backward(const StripBias& form, std::int64_t offset,
                                                   View<const double, 3> grad) {
  std::vector<double> sums(form.values.size());
  for (std::int64_t h = 0; h < grad.extent(0); ++h)
    for (std::int64_t q = 0; q < grad.extent(1); ++q)
      for (std::int64_t k = 0; k < grad.extent(2); ++k)
        sums.at(static_cast<std::size_t>(h * form.distances() + k - (offset + q) -
                                         form.min_distance)) += grad(h, q, k);
  return sums;
}

}  // namespace gnomon::testing
