// Rotary encoding of V-JEPA 2, as its checkpoints were trained. The pairs are adjacent
// elements, but cos and sin are in the order of halves. The two elements of a pair are
// therefore multiplied by cos and sin of two different angles. This is not a rotation: lengths
// change, and a score does not depend on the distance alone. The released weights require it.
//
//   Assran et al. "V-JEPA 2", 2025. https://arxiv.org/abs/2506.09985; the mixed order:
//   github.com/facebookresearch/vjepa2, pull request 15.
//
// A head of S elements has three blocks of D = 2 floor(floor(S / 3) / 2) elements, for frame t,
// row y and column x. The remaining elements are not changed. In the block of an axis, for a
// token at position p on this axis, element e uses the angle p f_(e mod P), with P = D / 2 and
// f_j = 10000^(-j/P):
//
//   a' = a cos u - b sin u      a = x[2i],      u = p f_(2i mod P)
//   b' = b cos v + a sin v      b = x[2i + 1],  v = p f_((2i + 1) mod P)
//
//   D = 8: elements  [a0 b0 a1 b1 a2 b2 a3 b3]
//          angles    [f0 f1 f2 f3 f0 f1 f2 f3]    (a rotation would use f0 f0 f1 f1 ...)
//
// Letters: B batch, T tokens, H heads, S head dimension, D elements of a block.
//
// Naive version: tests/rotary/vjepa2_test.cc, `rotated_head`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// V-JEPA 2 rotary encoding. A plain value.
struct Vjepa2 {
  std::int64_t head_dim = 0;  // S, at least 6
  double base = 10'000.0;     // greater than 1
  // Frames, height and width of the grid, used if a token's position is one number, the index
  // of its cell in row-major order. Empty: tokens have positions t, y, x.
  std::vector<std::int64_t> grid = {};

  std::int64_t block() const noexcept { return 2 * (head_dim / 3 / 2); }  // D
  bool operator==(const Vjepa2&) const = default;
};

// cos and sin of every element. Immutable. Memory: 24 T D bytes per row of positions. Error
// bound: each entry is within half an ulp + 2^-46 of the true value.
class Vjepa2Table {
 public:
  // All cells of a grid with three axes t, y, x: grid(frames, height, width). Throws
  // std::invalid_argument if the spec violates its bounds or the grid does not have three axes.
  Vjepa2Table(const Vjepa2& vjepa2, const Grid& grid, Angles angles = Angles::exact);
  // Any tokens of a grid, as in the predictor: three Positions t, y, x. Throws likewise.
  Vjepa2Table(const Vjepa2& vjepa2, std::span<const Positions> axes,
              Angles angles = Angles::exact);

  std::int64_t batch() const noexcept { return batch_; }        // 1: shared by all rows
  std::int64_t tokens() const noexcept { return tokens_; }      // T
  std::int64_t head_dim() const noexcept { return head_dim_; }  // S
  View<const float, 3> cos() const noexcept;                    // [B or 1, T, 3D], by element
  View<const float, 3> sin() const noexcept;                    // [B or 1, T, 3D]

 private:
  std::int64_t head_dim_, elements_, batch_, tokens_;
  std::vector<float> values_;  // all cosines, then all sines
};

// Applies the encoding to queries or keys in place. x: [B, T, H, S] or [T, H, S] (a batch of
// one), any strides, S contiguous. Element types: float, Half, BFloat16, double.
//
// Error bound: 3 * 2^-24 (|a| + |b|), as `rotate` in gnomon/rotary/rotary.h; half and bfloat16
// are rounded once more. Cost: reads and writes x once. Allocates nothing. Tokens are divided
// among threads; the result does not depend on the number of threads.
//
// Throws std::invalid_argument if x does not have the table's T tokens or S elements, the
// table's B is not 1 and x does not have B rows, or S is not contiguous.
void rotate(const Tensor& x, const Vjepa2Table& table);

// Gradient of `rotate`, in place: the transpose. It is not the inverse of `rotate`.
//   a' = a cos u + b sin v        b' = b cos v - a sin u
void rotate_backward(const Tensor& grad, const Vjepa2Table& table);

}  // namespace gnomon
