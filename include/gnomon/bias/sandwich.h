// Sandwich: the inner product of the sinusoidal embeddings of two positions, as a bias. The
// products of positions with content are left out, and nothing is trained.
//
//   Chi, Fan, Rudnicky, Ramadge. "Dissecting Transformer Length Extrapolation via the Lens of
//   Receptive Field Analysis", 2022. https://arxiv.org/abs/2212.10356, section 6.
//
//   bias(h, d) = (s(d) - s(0)) / ratio[h],      s(d) = sum over i = 1 to width / 2 of
//   ratio[h] = 8 (h + 1) / H                           cos(d / base^(2 i / width))
//
// s(d) is the inner product at distance d, and s(0) = width / 2. Subtracting the constant s(0)
// does not change a softmax and makes the bias 0 at distance 0.
// Letters: H heads, N distances.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/bias/form.h"

namespace gnomon {

struct Sandwich {
  std::int64_t heads = 0;    // H; at least 1
  std::int64_t width = 128;  // width of the embeddings, d bar in the paper; positive and even
  double base = 1e4;         // greater than 1

  bool operator==(const Sandwich&) const = default;
};

// Returns the compression ratios, [H]: 8 / H, 16 / H, ..., 8.
std::vector<double> compression_ratios(const Sandwich& sandwich);

// Returns the plan: the bias for `count` distances from `min_distance` on. The bias is
// symmetric in the sign of the distance. Error bound: 2^-52 (1 + |d|) for each cosine, from the
// rounding of its angle. Throws std::invalid_argument if a field is out of bounds.
StripBias lower(const Sandwich& sandwich, std::int64_t min_distance, std::int64_t count);

}  // namespace gnomon
