// Fourier features: sines and cosines of continuous coordinates at many frequencies, used as
// the input of a linear layer in vision, audio and scene models.
//
//   perceiver   Jaegle et al. 2021, https://arxiv.org/abs/2103.03206, 3.2 and appendix D
//   nerf        Mildenhall et al. 2020, https://arxiv.org/abs/2003.08934, 5.1
//   gaussian    Tancik et al. 2020, https://arxiv.org/abs/2006.10739
//
// Layouts of the released implementations, for coordinates p of A axes (here y, x), n bands and
// L octaves:
//
//   perceiver   y x | sin pi y f1 .. sin pi y fn | sin pi x f1 .. sin pi x fn
//                   | cos pi y f1 .. cos pi y fn | cos pi x f1 .. cos pi x fn
//               f1 .. fn: n evenly spaced numbers from 1 to the axis's resolution / 2
//   nerf        y x | sin y sin x | cos y cos x | sin 2y sin 2x | cos 2y cos 2x | .. (2^(L-1))
//   gaussian    sin 2 pi b1.p .. sin 2 pi bn.p | cos 2 pi b1.p .. cos 2 pi bn.p
//
// Letters: T points, A axes, K waves, F features.
//
// Naive version: tests/embedding/fourier_test.cc, `perceiver_row`, `nerf_row`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

enum class FourierBands { perceiver = 1, nerf, gaussian };
// Whether the coordinates themselves are the first features.
enum class FourierInput { first = 1, left_out };
// Unit of the frequencies: half turns (pi radians) or radians per unit of the coordinate. The
// paper of NeRF has sin(2^k pi p), its released code sin(2^k p).
enum class FourierUnit { half_turn = 1, radian };

struct Fourier {
  FourierBands bands = {};
  std::int64_t axes = 1;   // A
  std::int64_t count = 0;  // perceiver: bands per axis; nerf: octaves, at most 64; gaussian:
                           // rows of the random matrix
  FourierInput input = {};
  std::vector<double> resolution;             // perceiver: one per axis, positive
  FourierUnit unit = FourierUnit::half_turn;  // radian: nerf only
  double deviation = 1;                       // gaussian: standard deviation of b, in turns per
                                              // unit
  std::uint64_t seed = 1;                     // gaussian: gives the same b on every machine

  bool operator==(const Fourier&) const = default;
};

// The released Perceiver: 64 bands for an image of 224 x 224, [T, 258] features.
Fourier fourier_perceiver(std::span<const double> resolution, std::int64_t bands);
// The released NeRF: 10 octaves for points (63 features), 4 for directions (27).
Fourier fourier_nerf(std::int64_t axes, std::int64_t octaves);
// Tancik et al.: sines first, as in their code.
Fourier fourier_gaussian(std::int64_t axes, std::int64_t rows, double deviation,
                         std::uint64_t seed = 1);

// Returns F. Throws std::invalid_argument, naming the field, if a field is out of its bounds.
std::int64_t features(const Fourier& fourier);

// Returns the frequency of wave k along each axis, [K, A], in `unit`s. Order of the waves:
// perceiver axis by axis, nerf octave by octave. The frequencies of gaussian are 2 b.
std::vector<double> frequencies(const Fourier& fourier);

// Fills out [T, F], any strides, at coordinates [T, A]. Error bound: half an ulp of the element
// type + 2^-50 from the true value at `frequencies`. Products with coordinates are exact and
// are reduced before the multiplication by pi. Element types: float, double, Half, BFloat16.
// Cost: T K A products, and one sine and one cosine per wave.
//
// Throws std::invalid_argument if a coordinate is not finite or its magnitude exceeds 2^31, or
// if a shape does not match.
void fill(const Fourier& fourier, View<const double, 2> coordinates, const Tensor& out);

// Returns the coordinates of the cells of a grid as in Perceiver: each axis from -1 to 1 in
// equal steps (a single cell: -1), row-major, [cells, A].
std::vector<double> unit_coordinates(std::span<const std::int64_t> extents);

}  // namespace gnomon
