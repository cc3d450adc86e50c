// Sinusoidal position embedding: sines and cosines of the position at geometrically spaced
// wavelengths, added to the token embeddings.
//
//   Vaswani et al. "Attention Is All You Need", 2017. https://arxiv.org/abs/1706.03762, 3.5.
//
// Released models use four layouts, which are not interchangeable. f_i is the frequency of pair
// i, t the position, n = floor(C/2), m = ceil(C/2):
//
//   interleaved     f_i = base^(-2i/C)         sin t f0, cos t f0, sin t f1, cos t f1, ...
//   half_split      f_i = base^(-2i/C)         m sines | n cosines
//   tensor2tensor   f_i = base^(-i/(n-1))      n sines | n cosines | 0 if C is odd
//   timestep        f_i = base^(-i/(n-shift))  sines | cosines, or with `cosine_first`
//                                              cosines | sines; | 0 if C is odd
//
// If C is odd, the first two layouts omit the last cosine and the last two append a zero.
// docs/embedding/sinusoidal.md lists the models that use each layout.
//
// Letters: T tokens, C width.
//
// Naive version: tests/naive/embedding.h, `naive_sinusoidal`.
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
  std::int64_t width = 0;  // C, at least 1 (timestep: 2; tensor2tensor: 4, so that n - 1 > 0)
  SinusoidalRecipe recipe = {};
  double base = 10'000.0;  // greater than 1; `max_period` of diffusion models
  // timestep only. The defaults of diffusers are sine_first and shift 1. Nearly every released
  // diffusion model sets cosine_first (`flip_sin_to_cos`) and shift 0.
  SinusoidalOrder order = SinusoidalOrder::sine_first;
  double shift = 1.0;  // `downscale_freq_shift`; less than n
  double scale = 1.0;  // factor of the position
  // Added to integer positions before `scale`: 2 in XGLM and M2M-100, whose tables begin with
  // rows of padding.
  std::int64_t offset = 0;

  bool operator==(const Sinusoidal&) const = default;
};

// Returns the frequency of each sine, in radians per position, before `scale`. Throws
// std::invalid_argument, naming the field, if a field is out of its bounds.
std::vector<double> frequencies(const Sinusoidal& sinusoidal);

// Fills out [T, C], any strides, for integer or continuous positions. Error bound: half an ulp
// of the element type + 2^-46 from the true value (gnomon/angles.h) at `frequencies`. The
// rounding of the frequencies to double adds at most |position| f 2^-52. If `scale` is not 1,
// position x scale is rounded once to double. Element types: float, double, Half, BFloat16.
void fill(const Sinusoidal& sinusoidal, std::span<const std::int64_t> positions,
          const Tensor& out);
void fill(const Sinusoidal& sinusoidal, std::span<const double> positions, const Tensor& out);

// Returns the plan: the table of these positions, for add_table.
EmbeddingTable lower(const Sinusoidal& sinusoidal, std::span<const std::int64_t> positions);

}  // namespace gnomon
