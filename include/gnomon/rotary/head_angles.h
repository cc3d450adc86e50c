// Rotation by angles of heads: each head has frequencies of its own on several position axes,
// whose angles are added, and a phase. Mixed 2-D rotary, ComRoPE and RoPE++ lower to it.
//
//   u = sum over a of p_a inv_freq[h, a, i] + phases[h]      pair i, head h, token at p
//
// Letters: B batch, T tokens, H heads of the angles, A position axes, R rotated elements.
//
// Naive version: tests/rotary/head_angles_test.cc, `naive_rotate`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// A plain value.
struct HeadFrequencies {
  Pairing pairing = {};
  std::int64_t head_offset = 0;      // first rotated element of the head; not negative
  std::int64_t heads = 0, axes = 1;  // H, A; at least 1
  std::vector<double> inv_freq;      // [H, A, R/2], radians per position; finite
  std::vector<double> phases = {};   // [H], radians; empty: 0

  std::int64_t rotary_dim() const noexcept {  // R
    return heads > 0 && axes > 0
               ? 2 * static_cast<std::int64_t>(inv_freq.size()) / (heads * axes)
               : 0;
  }
  bool operator==(const HeadFrequencies&) const = default;
};

// Plan of the rotation: frequencies, and the positions of the tokens. Immutable; copies share
// their data. Angles are computed in double by each rotation, because a table would have H R/2
// of them for each token.
class HeadAngles {
 public:
  // axes: A positions, [B or 1, T] each, all with the same batch. Throws std::invalid_argument
  // if a field of `frequencies` violates its bound or the positions do not fit.
  HeadAngles(HeadFrequencies frequencies, std::span<const Positions> axes);

  const HeadFrequencies& frequencies() const noexcept { return *frequencies_; }
  std::span<const Positions> axes() const noexcept { return *axes_; }
  std::int64_t batch() const noexcept { return axes_->front().batch; }    // 1: all rows
  std::int64_t tokens() const noexcept { return axes_->front().tokens; }  // T
  // Writes the angles of tokens [begin, begin + count) of row b, [count, H, R/2].
  void angles(std::int64_t b, std::int64_t begin, std::int64_t count,
              std::span<double> out) const;

 private:
  std::shared_ptr<const HeadFrequencies> frequencies_;
  std::shared_ptr<const std::vector<Positions>> axes_;
};

// Rotates queries or keys in place. x: [B, T, Hx, D] or [T, Hx, D], any strides, D contiguous;
// float, Half, BFloat16, double. H divides Hx: head h has the angles of head h / (Hx / H).
//
// Error bound: that of rotate_by_angles (token_angles.h), for angles in double with an error of
// A 2^-52 times the greatest term. Cost: A multiply-adds, cos and sin for each pair of each
// head; memory-bound for A <= 2. Memory: at most 8 MB of angles at a time. Throws
// std::invalid_argument if x does not fit.
void rotate(const Tensor& x, const HeadAngles& angles,
            Direction direction = Direction::forward);

// Adds the gradient of the frequencies, [H, A, R/2], from rotated queries or keys and their
// gradients, both after or both before the rotation. As frequencies_backward of token_angles.h,
// in one pass for each axis. Sums in double, in a fixed order.
void frequencies_backward(const ConstTensor& rotated, const ConstTensor& grad_rotated,
                          const HeadAngles& angles, std::span<double> grad);

}  // namespace gnomon
