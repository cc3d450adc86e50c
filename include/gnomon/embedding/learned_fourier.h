// Learned Fourier features: Fourier features with trained frequencies, followed by a two-layer
// perceptron that computes the embedding.
//
//   Li, Si, Li, Hsieh, Bengio. "Learnable Fourier Features for Multi-Dimensional Spatial
//   Positional Encoding", 2021. https://arxiv.org/abs/2106.02795, section 3 and algorithm 1.
//
//   r = D^(-1/2) [ cos W_r x | sin W_r x ]          P(x) = gelu(r W_1 + b_1) W_2 + b_2
//
// Letters: T points, M axes, D features, K = D/2 waves, H hidden units, C width.
//
// Naive version: tests/embedding/learned_fourier_test.cc, `paper`.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/embedding/table.h"
#include "gnomon/view.h"

namespace gnomon {

struct LearnedFourier {
  std::int64_t axes = 1;      // M, at least 1
  std::int64_t features = 0;  // D, even and positive
  std::int64_t hidden = 0;    // H, positive
  std::int64_t width = 0;     // C, positive
  double gamma = 1;  // initial frequencies have deviation 1 / gamma; unit of the coordinates;
                     // positive

  bool operator==(const LearnedFourier&) const = default;
};

// Trained parameters. The paper draws `frequencies`, in radians per unit of the coordinates,
// from a normal distribution of deviation 1 / gamma. Initially the dot product of r at x and at
// y is then approximately exp(-|x - y|^2 / (2 gamma^2)) / 2.
template <typename T>
struct LearnedFourierParameters {
  View<T, 2> frequencies;  // [D/2, M]: W_r
  View<T, 2> w1;           // [D, H]
  View<T, 1> b1;           // [H]
  View<T, 2> w2;           // [H, C]
  View<T, 1> b2;           // [C]
};

// Fills out [T, C] at coordinates [T, M], any strides. Everything is computed in double and
// rounded once. Angles are doubles too, so the error of a wave is at most (2 + |angle|) 2^-52.
// gelu is x Phi(x), computed with erf. Element types: float, double. Cost: T (D H + H C)
// products and 8 T (D + H + C) bytes of scratch.
//
// Throws std::invalid_argument if the spec breaks its bounds, a shape does not match, or a
// coordinate is not finite.
template <typename T>
void fill(const LearnedFourier& spec, const LearnedFourierParameters<const T>& parameters,
          View<const double, 2> coordinates, View<T, 2> out);

// Returns the plan, a table for add_table.
EmbeddingTable lower(const LearnedFourier& spec,
                     const LearnedFourierParameters<const float>& parameters,
                     View<const double, 2> coordinates);

// Gradients of all parameters from grad [T, C], added to `grads`. Sums run in double in an
// order that depends on T only, so the result is bit-identical for any number of threads. Waves
// and hidden units are recomputed. Cost: three times that of `fill`.
template <typename T>
void fill_backward(const LearnedFourier& spec,
                   const LearnedFourierParameters<const T>& parameters,
                   View<const double, 2> coordinates, View<const T, 2> grad,
                   const LearnedFourierParameters<T>& grads);

}  // namespace gnomon
