#include "gnomon/embedding/fourier.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/angles.h"
#include "src/core/normal.h"
#include "src/core/tensor.h"
#include "src/core/wide.h"

namespace gnomon {
namespace {

using internal::Wide;
using std::int64_t;

constexpr double furthest = 0x1p31;   // maximum magnitude of a coordinate
constexpr double highest = 0x1p40;    // maximum resolution and deviation
constexpr int64_t most_octaves = 64;  // 2^31 2^64 does not overflow a double
constexpr int64_t most_waves = int64_t{1} << 24;
constexpr int64_t waves_at_once = 256;    // a multiple of the vector length 8
constexpr int64_t grain_waves = 1 << 10;  // minimum work of a parallel piece

void check(const Fourier& f) {
  if (f.bands < FourierBands::perceiver || f.bands > FourierBands::gaussian)
    refuse("fourier", "bands must be perceiver, nerf or gaussian", static_cast<int>(f.bands));
  if (f.axes < 1) refuse("fourier", "axes must be at least 1", f.axes);
  const int64_t most =
      f.bands == FourierBands::nerf ? most_octaves : most_waves / std::min(f.axes, most_waves);
  if (f.count < 1 || f.count > most)
    refuse("fourier", "count must be from 1 to " + std::to_string(most), f.count);
  if (f.input != FourierInput::first && f.input != FourierInput::left_out)
    refuse("fourier", "input must be first or left_out", static_cast<int>(f.input));
  if (f.unit != FourierUnit::half_turn && f.unit != FourierUnit::radian)
    refuse("fourier", "unit must be half_turn or radian", static_cast<int>(f.unit));
  if (f.unit == FourierUnit::radian && f.bands != FourierBands::nerf)
    refuse("fourier", "unit must be half_turn except in nerf", static_cast<int>(f.unit));
  if (f.bands == FourierBands::gaussian && !(f.deviation > 0 && f.deviation <= highest))
    refuse("fourier", "deviation must be positive and at most 2^40", f.deviation);
  if (f.bands != FourierBands::perceiver) return;
  if (static_cast<int64_t>(f.resolution.size()) != f.axes)
    refuse("fourier", "resolution must have one entry per axis, " + std::to_string(f.axes),
           static_cast<int64_t>(f.resolution.size()));
  for (const double resolution : f.resolution)
    if (!(resolution > 0 && resolution <= highest))
      refuse("fourier", "resolution must be positive and at most 2^40", resolution);
}

int64_t waves(const Fourier& f) {
  return f.bands == FourierBands::gaussian ? f.count : f.count * f.axes;
}

// Subtracts whole turns; the result is in [-1, 1]. Exact, because the remainder is a multiple
// of the last bit of the argument.
double within_a_turn(double half_turns) {
  const double half = half_turns / 2;
  constexpr double magic = 0x1.8p52;  // adding it rounds to an integer, for |half| up to 2^51
  return half_turns -
         2 * (std::fabs(half) < 0x1p51 ? (half + magic) - magic : std::nearbyint(half));
}

// high + low is the sum of the products, with |low| below an ulp of high.
struct Angle {
  double high, low;
};
Angle angle_of(View<const double, 1> at, const double* frequency) {
  Angle angle{0, 0};
  for (int64_t a = 0; a < at.extent(0); ++a) {
    const double product = at(a) * frequency[a];
    angle.low += std::fma(at(a), frequency[a], -product);
    const double sum = angle.high + product, moved = sum - angle.high;
    angle.low += (angle.high - (sum - moved)) + (product - moved);
    angle.high = sum;
  }
  return angle;
}

// Channels of the sine and the cosine of wave k.
struct Channels {
  int64_t sine, cosine;
};
Channels channels_of(const Fourier& f, int64_t k) {
  const int64_t first = f.input == FourierInput::first ? f.axes : 0;
  if (f.bands != FourierBands::nerf) return {first + k, first + waves(f) + k};
  const int64_t sine = first + k / f.axes * 2 * f.axes + k % f.axes;
  return {sine, sine + f.axes};
}

}  // namespace

Fourier fourier_perceiver(std::span<const double> resolution, int64_t bands) {
  Fourier fourier{.bands = FourierBands::perceiver,
                  .axes = static_cast<int64_t>(resolution.size()),
                  .count = bands,
                  .input = FourierInput::first,
                  .resolution = {resolution.begin(), resolution.end()}};
  check(fourier);
  return fourier;
}

Fourier fourier_nerf(int64_t axes, int64_t octaves) {
  const Fourier fourier{.bands = FourierBands::nerf,
                        .axes = axes,
                        .count = octaves,
                        .input = FourierInput::first,
                        .resolution = {},
                        .unit = FourierUnit::radian};
  check(fourier);
  return fourier;
}

Fourier fourier_gaussian(int64_t axes, int64_t rows, double deviation, std::uint64_t seed) {
  const Fourier fourier{.bands = FourierBands::gaussian,
                        .axes = axes,
                        .count = rows,
                        .input = FourierInput::left_out,
                        .resolution = {},
                        .deviation = deviation,
                        .seed = seed};
  check(fourier);
  return fourier;
}

int64_t features(const Fourier& f) {
  check(f);
  return (f.input == FourierInput::first ? f.axes : 0) + 2 * waves(f);
}

std::vector<double> frequencies(const Fourier& f) {
  check(f);
  const auto axes = static_cast<std::size_t>(f.axes), count = static_cast<std::size_t>(f.count);
  std::vector<double> all(static_cast<std::size_t>(waves(f)) * axes);
  switch (f.bands) {
    case FourierBands::perceiver:
      for (std::size_t a = 0; a < axes; ++a)
        for (std::size_t i = 0; i < count; ++i) {
          const Wide last = static_cast<double>(f.resolution[a]) / 2;
          const auto steps = static_cast<double>(std::max<std::size_t>(count - 1, 1));
          all[(a * count + i) * axes + a] =
              static_cast<double>(1 + (last - 1) * static_cast<double>(i) / steps);
        }
      break;
    case FourierBands::nerf:
      for (std::size_t k = 0; k < count; ++k)
        for (std::size_t a = 0; a < axes; ++a)
          all[(k * axes + a) * axes + a] = std::ldexp(1.0, static_cast<int>(k));
      break;
    case FourierBands::gaussian:
      internal::Normal normal(f.seed);
      for (double& frequency : all) frequency = 2 * (f.deviation * normal());
  }
  return all;
}

namespace {

template <typename T>
void fill_typed(const Fourier& f, View<const double, 2> coordinates, View<T, 2> out) {
  const int64_t count = features(f), points = coordinates.extent(0), k_count = waves(f);
  if (coordinates.extent(1) != f.axes)
    refuse("fourier", "coordinates must be [T, A] with A = " + std::to_string(f.axes),
           shape_text(coordinates.extents()));
  if (out.extent(0) != points || out.extent(1) != count)
    refuse(
        "fourier",
        "out must be [T, F] = [" + std::to_string(points) + ", " + std::to_string(count) + "]",
        shape_text(out.extents()));
  for (int64_t t = 0; t < points; ++t)
    for (int64_t a = 0; a < f.axes; ++a)
      if (!(std::fabs(coordinates(t, a)) <= furthest))
        refuse("fourier", "a coordinate must be within 2^31 and finite", coordinates(t, a));
  const std::vector<double> all = frequencies(f);
  const internal::CosSinRow cos_sin = internal::cos_sin_row();
  const auto fill_waves = [&](int64_t first, int64_t waves, int64_t t) {
    alignas(64) double turns[waves_at_once], cosines[waves_at_once], sines[waves_at_once];
    for (int64_t n = 0; n < waves; ++n) {
      const auto [high, low] = angle_of(coordinates[t], all.data() + (first + n) * f.axes);
      if (f.unit == FourierUnit::half_turn)
        turns[n] = within_a_turn(high) + within_a_turn(low);
      else  // exact: a single product by a power of two
        cosines[n] = std::cos(high), sines[n] = std::sin(high);
    }
    if (f.unit == FourierUnit::half_turn) {
      std::fill(turns + waves, turns + (waves + 7) / 8 * 8, 0.0);
      cos_sin(M_PI, turns, waves, 1, cosines, sines);
    }
    for (int64_t n = 0; n < waves; ++n) {
      const Channels at = channels_of(f, first + n);
      out(t, at.sine) = static_cast<T>(sines[n]);
      out(t, at.cosine) = static_cast<T>(cosines[n]);
    }
  };
  parallel_for(points, std::max<int64_t>(1, grain_waves / k_count),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   if (f.input == FourierInput::first)
                     for (int64_t a = 0; a < f.axes; ++a)
                       out(t, a) = static_cast<T>(coordinates(t, a));
                   for (int64_t first = 0; first < k_count; first += waves_at_once)
                     fill_waves(first, std::min(waves_at_once, k_count - first), t);
                 }
               });
}

}  // namespace

void fill(const Fourier& f, View<const double, 2> coordinates, const Tensor& out) {
  constexpr internal::Argument named{"fourier", "out"};
  internal::by_type(named, out, [&]<typename T>(T) {
    fill_typed(f, coordinates, internal::write<T, 2>(named, out));
  });
}

std::vector<double> unit_coordinates(std::span<const int64_t> extents) {
  if (extents.empty()) refuse("fourier", "a grid must have at least one axis", 0);
  int64_t cells = 1;
  for (const int64_t extent : extents) {
    if (extent < 1) refuse("fourier", "every extent of a grid must be at least 1", extent);
    if (extent > most_waves / cells)
      refuse("fourier", "a grid must have at most 2^24 cells: extent", extent);
    cells *= extent;
  }
  std::vector<double> coordinates(static_cast<std::size_t>(cells) * extents.size());
  for (std::size_t n = 0; n < static_cast<std::size_t>(cells); ++n) {
    int64_t rest = static_cast<int64_t>(n);
    for (std::size_t a = extents.size(); a-- > 0; rest /= extents[a])
      coordinates[n * extents.size() + a] =
          extents[a] == 1 ? -1.0
                          : static_cast<double>(2 * (rest % extents[a]) - (extents[a] - 1)) /
                                static_cast<double>(extents[a] - 1);
  }
  return coordinates;
}

}  // namespace gnomon
