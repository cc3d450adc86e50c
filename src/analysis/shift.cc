#include "gnomon/analysis/shift.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/exported.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;

// Channels of the sine and the cosine of pair i.
struct ChannelPair {
  int64_t sine, cosine;
};
ChannelPair pair(const Sinusoidal& s, int64_t i) {
  const int64_t half = s.width / 2;
  if (s.recipe == SinusoidalRecipe::interleaved) return {2 * i, 2 * i + 1};
  if (s.recipe == SinusoidalRecipe::timestep && s.order == SinusoidalOrder::cosine_first)
    return {half + i, i};
  return {i, half + i};
}

}  // namespace

void shift_matrix(const Sinusoidal& s, double delta, View<double, 2> out) {
  const std::vector<double> f = frequencies(s);
  if (!std::isfinite(delta)) refuse("shift", "delta must be finite", delta);
  const bool padded =
      s.recipe == SinusoidalRecipe::tensor2tensor || s.recipe == SinusoidalRecipe::timestep;
  if (s.width % 2 && !padded)
    refuse("shift", "width must be even, so that each sine has its cosine", s.width);
  if (out.extent(0) != s.width || out.extent(1) != s.width)
    refuse("shift",
           "out must be [" + std::to_string(s.width) + ", " + std::to_string(s.width) + "]",
           shape_text(out.extents()));
  for (int64_t i = 0; i < s.width; ++i)
    for (int64_t j = 0; j < s.width; ++j) out(i, j) = 0;
  for (int64_t i = 0; i < s.width / 2; ++i) {
    const double angle = delta * s.scale * f[static_cast<std::size_t>(i)];
    const auto [sine, cosine] = pair(s, i);
    out(sine, sine) = out(cosine, cosine) = std::cos(angle);
    out(sine, cosine) = std::sin(angle);
    out(cosine, sine) = -std::sin(angle);
  }
  if (s.width % 2) out(s.width - 1, s.width - 1) = 1;
}

template <typename T>
double shift_residual(View<const T, 2> table, View<const double, 2> matrix, int64_t delta) {
  const int64_t rows = table.extent(0), channels = table.extent(1);
  if (matrix.extent(0) != channels || matrix.extent(1) != channels)
    refuse("shift", "the matrix must have the width of the table, " + std::to_string(channels),
           int64_t{matrix.extent(0)});
  // Nonzero entries by row. A result of shift_matrix has at most two per row.
  struct Entry {
    int64_t column;
    double value;
  };
  std::vector<std::vector<Entry>> entries(static_cast<std::size_t>(channels));
  for (int64_t i = 0; i < channels; ++i)
    for (int64_t j = 0; j < channels; ++j)
      if (matrix(i, j) != 0) entries[static_cast<std::size_t>(i)].push_back({j, matrix(i, j)});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (delta <= -rows || delta >= rows) return nan;
  double worst = 0;
  for (int64_t t = std::max<int64_t>(0, -delta); t < rows - std::max<int64_t>(0, delta); ++t)
    for (int64_t i = 0; i < channels; ++i) {
      double moved = 0;
      for (const auto& [column, value] : entries[static_cast<std::size_t>(i)])
        moved += value * static_cast<double>(table(t, column));
      const double off = std::fabs(moved - static_cast<double>(table(t + delta, i)));
      if (std::isnan(off)) return nan;
      worst = std::max(worst, off);
    }
  return worst;
}

template GNOMON_EXPORTED double shift_residual(View<const float, 2>, View<const double, 2>,
                                               int64_t);
template GNOMON_EXPORTED double shift_residual(View<const double, 2>, View<const double, 2>,
                                               int64_t);

}  // namespace gnomon::analysis
