// Fourier features of continuous coordinates: sines and cosines of the coordinates of a point
// at many frequencies, as a vision, audio or scene model takes them before a linear layer.
//
//   perceiver   Jaegle et al. 2021, https://arxiv.org/abs/2103.03206, 3.2 and appendix D
//   nerf        Mildenhall et al. 2020, https://arxiv.org/abs/2003.08934, 5.1
//   gaussian    Tancik et al. 2020, https://arxiv.org/abs/2006.10739
//
// Layouts of the released codes, for coordinates p of A axes (here y, x), n bands, L octaves:
//
//   perceiver   y x | sin pi y f1 .. sin pi y fn | sin pi x f1 .. | cos pi y f1 .. | cos pi x
//   f1
//   ..
//               f = n numbers at equal steps from 1 to the axis's resolution / 2
//   nerf        y x | sin y sin x | cos y cos x | sin 2y sin 2x | cos 2y cos 2x | .. (2^(L-1))
//   gaussian    sin 2 pi b1.p .. sin 2 pi bn.p | cos 2 pi b1.p .. cos 2 pi bn.p
//
// Letters: T points, A axes, K waves, F features.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

enum class FourierBands { perceiver = 1, nerf, gaussian };
// Whether the coordinates themselves stand before the waves.
enum class FourierInput { first = 1, left_out };
// What a frequency of 1 does in a unit of the coordinate. NeRF's paper has sin(2^k pi p), its
// released code sin(2^k p).
enum class FourierUnit { half_turn = 1, radian };

struct Fourier {
  FourierBands bands = {};
  std::int64_t axes = 1;   // A
  std::int64_t count = 0;  // perceiver: bands of each axis; nerf: octaves, at most 64;
                           // gaussian: rows of the random matrix
  FourierInput input = {};
  std::vector<double> resolution;             // perceiver: of each axis, positive
  FourierUnit unit = FourierUnit::half_turn;  // radian: nerf only
  double deviation = 1;                       // gaussian: of b, in turns per unit
  std::uint64_t seed = 1;                     // gaussian: the same numbers on every machine

  bool operator==(const Fourier&) const = default;
};

// Perceiver as released: 64 bands for an image of 224 x 224, [T, 258] features.
Fourier fourier_perceiver(std::span<const double> resolution, std::int64_t bands);
// NeRF as released: 10 octaves for points (63 features), 4 for directions (27).
Fourier fourier_nerf(std::int64_t axes, std::int64_t octaves);
// Tancik et al.: sines first, as their code has them.
Fourier fourier_gaussian(std::int64_t axes, std::int64_t rows, double deviation,
                         std::uint64_t seed = 1);

// F. Throws std::invalid_argument naming the field that breaks its bounds.
std::int64_t features(const Fourier& fourier);

// The frequency of wave k along each axis, [K, A], in `unit`s: those of perceiver lie axis
// after axis, those of nerf octave after octave, those of gaussian are 2 b.
std::vector<double> frequencies(const Fourier& fourier);

// Fills out [T, F], any strides, at coordinates [T, A]. Each entry is within half an ulp of its
// type + 2^-50 of the true value at `frequencies`: products with coordinates are kept exact and
// reduced before pi comes in. Element types: float, double, Half, BFloat16. Cost: T K A
// products, and a sine and a cosine each wave.
//
// Throws when a coordinate is beyond 2^31 in magnitude or not finite, or a view has another
// shape.
void fill(const Fourier& fourier, View<const double, 2> coordinates, const Tensor& out);

// The coordinates of a grid's cells as Perceiver has them: each axis from -1 to 1 in equal
// steps (one cell: -1), row-major, [cells, A].
std::vector<double> unit_coordinates(std::span<const std::int64_t> extents);

}  // namespace gnomon
