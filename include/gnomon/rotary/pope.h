// Polar coordinate position embedding (PoPE): the elements of a head are magnitudes, and the
// positions are their phases.
//
//   Gopalakrishnan, Csordás, Schmidhuber, Mozer. "Decoupling the 'What' and 'Where' With Polar
//   Coordinate Positional Embeddings", 2025. https://arxiv.org/abs/2509.10534.
//   Code of others, compared in a test: https://pypi.org/project/pope-pytorch 0.2.1.
//
//   q . k becomes  sum over n of softplus(q_n) softplus(k_n) cos((i - j) w_n - b_hn)
//   w_n = base^(-n/D)        for all D elements n of a head
//
// b is trained and clamped to [-2 pi, 0]. In rotary the phase of a pair also depends on its
// content, because two elements form a pair; here content and position are separate.
//
// Letters: H query heads, D head dimension.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

// Polar products: each element of a query and a key passes through softplus and becomes the
// magnitude of a pair, whose phase is 0 for keys and -phases for queries. Pair n of the 2 D
// elements is (n, D + n). Rotary tables of the plan rotate these pairs (halves, 2 D elements).
struct PolarForm {
  std::int64_t heads = 0, head_dim = 0;  // Hq, D
  std::vector<double> phases = {};       // [Hq, D], radians; finite

  bool operator==(const PolarForm&) const = default;
};

struct Pope {
  std::int64_t heads = 0;     // H; at least 1
  std::int64_t head_dim = 0;  // D; at least 1
  double base = 10'000.0;     // greater than 1

  bool operator==(const Pope&) const = default;
};

// Returns the frequencies of the pairs: those of Rotary with a rotary dimension of 2 D. Throws
// std::invalid_argument if a field violates its bound.
RotaryFrequencies frequencies(const Pope& pope);

// Returns the form for the biases b [H, D], clamped to [-2 pi, 0]. Throws std::invalid_argument
// if the shape of b does not match.
PolarForm lower(const Pope& pope, View<const float, 2> b);

// Adds the gradient of b to b_grad [H, D], from that of the phases [H, D]. Outside the range of
// the clamp it is 0; at its ends, where b starts, it is not.
void lower_backward(const Pope& pope, View<const float, 2> b, const std::vector<double>& phases,
                    View<float, 2> b_grad);

}  // namespace gnomon
