// The rotation of V-JEPA 2, as its checkpoints were trained: cos and sin lie in the order of
// halves, the pairs in that of adjacent elements, so that the two elements of a pair turn by
// two different angles. That is not a rotation (lengths change, and a score depends on more
// than the distance), but the weights know no other.
//
//   Assran et al. "V-JEPA 2", 2025. https://arxiv.org/abs/2506.09985; the mixed order:
//   github.com/facebookresearch/vjepa2, pull request 15.
//
// A head of S elements is three blocks of D = 2 floor(floor(S / 3) / 2), for frame t, row y and
// column x, and a rest that is left alone. In a block whose token is at p, with P = D / 2 and
// f_j = 10000^(-j/P), element e is met by the angle of f_(e mod P):
//
//   a' = a cos u - b sin u      a = x[2i],      u = p f_(2i mod P)
//   b' = b cos v + a sin v      b = x[2i + 1],  v = p f_((2i + 1) mod P)
//
//   D = 8: elements  [a0 b0 a1 b1 a2 b2 a3 b3]
//          angles    [f0 f1 f2 f3 f0 f1 f2 f3]    (interleaved, it would be f0 f0 f1 f1 ...)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

struct Vjepa2 {
  std::int64_t head_size = 0;  // S, at least 6
  double base = 10'000.0;      // greater than 1
  // Frames, height and width of the grid, for tokens whose position is one number: the cell,
  // frame by frame, row by row. Empty: tokens have positions t, y, x.
  std::vector<std::int64_t> grid = {};

  std::int64_t block() const noexcept { return 2 * (head_size / 3 / 2); }  // D
  bool operator==(const Vjepa2&) const = default;
};

// cos and sin of every element. Immutable. 24 T D bytes. Each entry is within half an ulp +
// 2^-46 of the true value.
class Vjepa2Table {
 public:
  // The cells of a grid of three axes, t, y, x: grid(frames, height, width).
  // Throws std::invalid_argument when the spec breaks its bounds or the grid has other axes.
  Vjepa2Table(const Vjepa2& vjepa2, const Grid& grid, Angles angles = Angles::exact);
  // Any tokens of it, as the predictor has them: three Positions, t, y, x.
  Vjepa2Table(const Vjepa2& vjepa2, std::span<const Positions> axes,
              Angles angles = Angles::exact);

  std::int64_t batch() const noexcept { return batch_; }     // 1: shared by all rows
  std::int64_t tokens() const noexcept { return tokens_; }   // T
  std::int64_t size() const noexcept { return head_size_; }  // S
  View<const float, 3> cos() const noexcept;                 // [B or 1, T, 3D], by element
  View<const float, 3> sin() const noexcept;                 // [B or 1, T, 3D]

 private:
  std::int64_t head_size_, elements_, batch_, tokens_;
  std::vector<float> values_;  // all cosines, then all sines
};

// Turns queries or keys in place. x: [B, T, H, S] or [T, H, S] (a batch of one), any strides, S
// contiguous. Element types: float, Half, BFloat16, double.
//
// Error: as rotate in gnomon/rotary/rotary.h, 3 * 2^-24 (|a| + |b|), and one more rounding for
// half and bfloat16. Threads split the tokens; the result does not depend on their number.
//
// Throws std::invalid_argument when x has other than the table's T tokens, B rows (where that
// is not 1) or S elements, or S not contiguous. Allocates nothing.
void rotate(const Tensor& x, const Vjepa2Table& table);

// The gradient of `rotate`: the transpose, which here does not undo it.
//   a' = a cos u + b sin v        b' = b cos v - a sin u
void rotate_backward(const Tensor& grad, const Vjepa2Table& table);

}  // namespace gnomon
