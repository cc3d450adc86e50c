// Sinusoidal position embedding: sines and cosines of the position at geometric wavelengths,
// added to the token embeddings.
//
//   Vaswani et al. "Attention Is All You Need", 2017. https://arxiv.org/abs/1706.03762, 3.5.
//
// Released models use four layouts of the same idea, and they are not interchangeable. f_i is
// the frequency of pair i, t the position, n = floor(C/2), m = ceil(C/2):
//
//   interleaved     f_i = base^(-2i/C)         sin t f0, cos t f0, sin t f1, cos t f1, ...
//   half_split      f_i = base^(-2i/C)         m sines | n cosines
//   tensor2tensor   f_i = base^(-i/(n-1))      n sines | n cosines | 0 if C is odd
//   timestep        f_i = base^(-i/(n-shift))  sines | cosines, or with `cosine_first`
//                                              cosines | sines; | 0 if C is odd
//
// In the first two an odd C leaves the last cosine out; in the last two it adds a zero.
// Who uses which: docs/embedding/sinusoidal.md.
//
// Letters: T tokens, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/embedding/table.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

enum class SinusoidalRecipe { interleaved = 1, half_split, tensor2tensor, timestep };
enum class SinusoidalOrder { sine_first = 1, cosine_first };

struct Sinusoidal {
  std::int64_t dim = 0;  // C, at least 1 (tensor2tensor: 4, so that n - 1 > 0)
  SinusoidalRecipe recipe = {};
  double base = 10'000.0;  // `max_period` of diffusion models; greater than 1
  // timestep only. diffusers' defaults are sine_first and shift 1; nearly every released
  // diffusion model sets cosine_first (`flip_sin_to_cos`) and shift 0.
  SinusoidalOrder order = SinusoidalOrder::sine_first;
  double shift = 1.0;  // `downscale_freq_shift`; less than n
  double scale = 1.0;  // on the position
  // Added to integer positions first: 2 in XGLM and M2M-100, whose tables begin with rows of
  // padding.
  std::int64_t offset = 0;

  bool operator==(const Sinusoidal&) const = default;
};

// The frequency of each sine, in radians per position, before `scale`. Throws
// std::invalid_argument naming the field that breaks its bounds.
std::vector<double> frequencies(const Sinusoidal& sinusoidal);

// Fills out [T, C], any strides, for integer or continuous positions. Each entry is within half
// an ulp of its type + 2^-46 of the true value (gnomon/angles.h) at `frequencies`; that these
// are doubles costs another |position| f 2^-52 at most. With a `scale` other than 1 the
// position is position x scale as one rounded double. Element types: float, double, Half,
// BFloat16.
void fill(const Sinusoidal& sinusoidal, std::span<const std::int64_t> positions,
          const Tensor& out);
void fill(const Sinusoidal& sinusoidal, std::span<const double> positions, const Tensor& out);

// The plan: the table of these positions, to be given to add_table.
EmbeddingTable sinusoidal_table(const Sinusoidal& sinusoidal,
                                std::span<const std::int64_t> positions);

}  // namespace gnomon
