// Rotation by angles that belong to tokens and heads: selective rotary (angles are sums over
// what the tokens hold), learned frequencies, mixed frequencies of several position axes.
//
//   Movahedi, Carstensen et al. "Selective Rotary Position Embedding", 2025.
//   https://arxiv.org/abs/2511.17388
//
// Pair i of head h of token t is rotated by angles[t, h, i] radians; pairs are those of
// gnomon/rotary/rotary.h:
//
//   a' = a cos u - b sin u        b' = a sin u + b cos u        u = angles[t, h, i]
//
// Letters: B batch, T tokens, H heads, Ha heads of the angles, D head dimension, R rotated
// elements, P = R/2 pairs, A position axes.
//
// Naive version: tests/rotary/token_angles_test.cc, `naive_rotate_by_angles`,
// `naive_cumulative_angles`.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// What the token term of a rotation holds. Read by attention only.
enum class AngleTerm {
  angles = 1,
  increments,  // attention sums them over the tokens of a sequence (cumulative_angles)
};

// The elements of a head that angles rotate. A plain value.
struct TokenRotation {
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  Pairing pairing = {};
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative
  AngleTerm term = AngleTerm::angles;

  bool operator==(const TokenRotation&) const = default;
};

// Rotates x in place, or writes the rotation to `out`. x: [B, T, H, D] or [T, H, D] (a batch of
// one), any strides, D contiguous; float, Half, BFloat16, double. angles: radians,
// [B or 1, T, Ha, P] or [T, Ha, P], float or double, P contiguous. Ha divides H: head h is
// rotated by the angles of head h / (H / Ha). out: as for `rotate` in gnomon/rotary/rotary.h.
//
// Error bound: |x' - exact| <= 4 * 2^-24 (|a| + |b|) for float; Half and BFloat16 are rounded
// once more. For double: 2^-50 (|a| + |b|). The bound holds for angles below 2^46 in magnitude;
// larger ones, infinities and NaN give NaN. A float angle has steps of 2^-23 of its magnitude:
// keep angles small (cumulative_angles), or store them as double.
//
// Cost: reads and writes x once, reads the angles once; memory-bound. Allocates nothing. Tokens
// are divided among threads; the result does not depend on the number of threads.
//
// Throws std::invalid_argument if the shapes do not fit, a field of `rotation` violates its
// bound, or arguments overlap.
void rotate_by_angles(const Tensor& x, const ConstTensor& angles, const TokenRotation& rotation,
                      Direction direction = Direction::forward);
void rotate_by_angles(const ConstTensor& x, const ConstTensor& angles,
                      const TokenRotation& rotation, Direction direction, const Tensor& out);

// Gradient of the forward rotation. rotated: its result, [B, T, H, D]. grad: the gradient of
// the result, of the same shape and type; replaced by the gradient of x (the inverse rotation).
// Adds the gradient of the angles to grad_angles, which has the shape and type of `angles`:
//
//   d u = a' db' - b' da'       the rotated pair crossed with its gradient
//
// Sums over the heads that share angles, and over the batch if the angles have one row, in a
// fixed order. Call it for queries and for keys with the same grad_angles.
void rotate_by_angles_backward(const ConstTensor& rotated, const ConstTensor& angles,
                               const TokenRotation& rotation, const Tensor& grad,
                               const Tensor& grad_angles);

// Running sums of increments: the angle of a token is scale[i] times the sum of the increments
// of its sequence up to and including it, reduced modulo 2 pi to [-pi, pi].
//
// increments, out: [B, T, H, P], float or double, P contiguous; they may be the same elements.
// out may be double for float increments. scale: factor of each pair, [P]; empty: 1. positions:
// [B or 1, T]; only the sequences are read. The sum starts at zero at the first token of each
// sequence. Increments of padding are not read, and its angles are 0. state: the sum of each
// row, [B, H, P], double, or no data: 0. The first sequence of a row continues from it, and it
// becomes the sum after the last token that is not padding, for the next call (decoding).
//
// Error bound: the sum is in double, with an error of 2^-52 (pi + |scale increment|) for each
// token. Cost: memory-bound; reads increments and writes `out` once.
//
// Throws std::invalid_argument if shapes or types do not fit, or the tokens of a sequence are
// not consecutive.
void cumulative_angles(const ConstTensor& increments, const Positions& positions,
                       std::span<const double> scale, const Tensor& state, const Tensor& out);

// Writes the gradient of the increments: the sum of grad_angles over the tokens of the sequence
// from the token to the last, times scale; 0 for padding. Shapes and types as above.
void cumulative_angles_backward(const ConstTensor& grad_angles, const Positions& positions,
                                std::span<const double> scale, const Tensor& grad_increments);

// Gradient of learned frequencies from rotated queries or keys, without a table of angles:
//
//   grad[i] += sum over b, t, h of p (a' db' - b' da')        p: position on the axis of pair i
//
// rotated, grad_rotated: [B, T, H, D], one type; rotated by a table of these frequencies, or
// both before the rotation, which gives the same products. axes: the positions, [B or 1, T]
// each. Padding is left out. For frequencies f = f0 exp(alpha) (LeRoPE), the gradient of alpha
// is f times the gradient of f. Sums in double, in a fixed order. Throws std::invalid_argument
// if shapes do not fit, or `frequencies` has growth or a table scale: their rotation is not an
// orthogonal one.
void frequencies_backward(const ConstTensor& rotated, const ConstTensor& grad_rotated,
                          const RotaryFrequencies& frequencies, std::span<const Positions> axes,
                          std::span<double> grad);

}  // namespace gnomon
