// xPos: rotary with a factor on each pair that depends on the position. Queries grow with the
// position and keys shrink, so scores decay with the distance. The pairs with the highest
// frequencies decay fastest.
//
//   Sun, Dong, Patra, Ma, Huang, Benhaim, Chaudhary, Song, Wei. "A Length-Extrapolatable
//   Transformer", 2022. https://arxiv.org/abs/2212.10554, section 3.
//
//   query pair i at m: rotated by m f_i, times zeta_i^((m - centre) / scale_base)
//   key pair i at n:   rotated by n f_i, times zeta_i^((centre - n) / scale_base)
//   zeta_i = (2i/R + gamma) / (1 + gamma)
//
// The product of query and key has the factor zeta_i^((m - n) / scale_base), less than 1 for a
// key before its query. Use xPos with causal attention only: for a key after its query, the
// factor grows without bound.
//
// The centre cancels in every score; it only keeps the factors near 1. It is a field of the
// spec, since a cached key and a query must use the same centre.
//
// This header also contains RetNet's rotation and decay.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// xPos encoding. A plain value.
struct XPos {
  std::int64_t rotary_dim = 0;  // R, as in Rotary
  Pairing pairing = {};
  double base = 10'000.0;
  double scale_base = 512;  // positions over which pair i changes by zeta_i; greater than 0
  double gamma = 0.4;       // greater than 0
  std::int64_t centre = 0;  // position; half the context length keeps factors closest to 1
  std::int64_t head_offset = 0;  // as in Rotary

  bool operator==(const XPos&) const = default;
};

// Lower the spec to frequencies for queries and for keys. Each needs its own table. Throw
// std::invalid_argument if the spec violates the bounds stated next to its fields.
//
// A factor leaves the range of float about 87 scale_base / ln(1 + 1 / gamma) positions from the
// centre (35,000 with the defaults). Tables of positions beyond contain infinities or zeros.
RotaryFrequencies lower_query(const XPos& xpos);
RotaryFrequencies lower_key(const XPos& xpos);

// Returns RetNet's frequencies, the same for queries and keys, adjacent. The frequencies
// decrease from 1 to 1/base: f_i = base^(-i / (R/2 - 1)). (Plain rotary ends one step before
// 1/base.) The decay of RetNet's scores is given by retnet_decays. rotary_dim: even, at least
// 2. Throws as inverse_frequencies.
//
//   Sun, Dong, Huang, Ma, Xia, Xue, Wang, Wei. "Retentive Network: A Successor to Transformer
//   for Large Language Models", 2023. https://arxiv.org/abs/2307.08621, section 2.
RotaryFrequencies retnet_frequencies(std::int64_t rotary_dim, double base = 10'000.0);

// Returns RetNet's decays gamma_h = 1 - 2^(-5 - h), [heads], for the heads h from `first_head`
// on. A score at distance m - n is multiplied by gamma_h^(m - n). The decays do not depend on
// the total number of heads, so a tensor-parallel shard only passes its first head. Exact up to
// head 47. Throws std::invalid_argument if an argument is negative.
std::vector<double> retnet_decays(std::int64_t heads, std::int64_t first_head = 0);

}  // namespace gnomon
