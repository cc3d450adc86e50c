// The learning rate over the steps of a run: it rises over the first steps, is constant, and
// falls linearly at the end (warm-up, stable, decay).
//
// While the learning rate is constant, the fall of the loss shows how far training has come.
// With a cosine, which falls from the beginning, every curve flattens.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gnomon::lab {

// Shares of the steps.
constexpr double warm_until = 0.1, stable_until = 0.8;
// Relative to the peak, at the last step.
constexpr double last_rate = 0.02;

// The factor of the peak learning rate at a step, counted from 0.
inline double rate_at(std::int64_t step, std::int64_t steps) {
  const auto at = static_cast<double>(step) + 1, all = static_cast<double>(steps);
  const double warm = std::max(1.0, warm_until * all), stable = stable_until * all;
  if (at < warm) return at / warm;
  if (at <= stable || all <= stable) return 1;
  return std::max(last_rate, 1 - (at - stable) / (all - stable));
}

}  // namespace gnomon::lab
