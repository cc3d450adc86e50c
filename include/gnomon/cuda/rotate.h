// Rotary position embedding on a CUDA device: rotation of queries and keys in place.
//
// The functions of gnomon/rotary/rotary.h and decoding.h, for tensors on a device. Letters: B
// batch, T tokens, H heads, D head dimension, R rotary dimension, N rows of a table, A position
// axes.
//
// Naive version: tests/naive/rotary.h, `naive_rotate`.
#pragma once

#include <cstdint>

#include "gnomon/cuda/device.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// A rotation by tables of cos and sin. A plain value that borrows the tensors.
struct Rotation {
  Pairing pairing = {};          // required
  std::int64_t head_offset = 0;  // first rotated element of the head
  // float [T, R/2], or [B, T, R/2]; any strides, the last axis contiguous. So the two halves of
  // a cache [N, R] of cos and sin (vLLM, FlashInfer) are valid, as two slices.
  ConstTensor cos, sin;
  // int64 [T] or [B, T], any strides: the row of the tables of each token. cos and sin are then
  // [N, R/2]. Without data: row t is that of token t.
  ConstTensor positions = {};
};

// Rotates queries and keys in place, in one launch. q, k: [B, T, H, D] or [T, H, D], any
// strides, D contiguous; H and D may differ between q and k. Element types: float, Half,
// BFloat16, the same in both. Direction::inverse computes the gradient.
//
// Error bound: as rotate of gnomon/rotary/rotary.h, for the same cos and sin. Deterministic.
// A token whose position is not in [0, N) gets NaN in its rotated elements.
//
// Cost: reads and writes the rotated elements once, and reads a row of the table for each two
// heads (four in float), after the first time from a cache of the device. Elements are moved 16
// bytes at a time if R/2 elements, the strides, head_offset and the data are multiples of 16
// bytes; otherwise 4 bytes, or one element.
//
// Throws std::invalid_argument if a tensor is not on a CUDA device, devices differ, shapes or
// types do not match, D is not contiguous, B T exceeds 2^31 - 1, H D exceeds 2^28 or R exceeds
// 12288; Error if the launch fails.
void rotate(const Tensor& q, const Tensor& k, const Rotation& rotation,
            Direction direction = Direction::forward, Stream stream = nullptr);
void rotate(const Tensor& x, const Rotation& rotation, Direction direction = Direction::forward,
            Stream stream = nullptr);

// Writes the rotation of x to `out`; x is not changed. Elements that are not rotated are
// copied. out: shape and element type of x, any strides, D contiguous, no overlap.
void rotate(const ConstTensor& x, const Rotation& rotation, Direction direction,
            const Tensor& out, Stream stream = nullptr);

// Rotary frequencies in the memory of a device, for rotation without a table and for filling
// tables (gnomon/cuda/table.h). Immutable. 512 R bytes.
class Frequencies {
 public:
  // Copies the frequencies to the device, and waits for the copy. Throws std::invalid_argument
  // if they violate the bounds stated in gnomon/rotary/rotary.h, or have growth (xPos: use a
  // table).
  explicit Frequencies(const RotaryFrequencies& frequencies, int device = 0);

  const RotaryFrequencies& host() const noexcept { return host_; }
  int device() const noexcept { return inv_freq_.device(); }
  const double* inv_freq() const noexcept { return inv_freq_.data(); }  // [R/2]
  const std::int32_t* axes() const noexcept { return axes_.data(); }    // [R/2], or null
  // cos and sin of the positions 0 to 63: [2, 64, R/2].
  const double* steps() const noexcept { return steps_.data(); }

 private:
  RotaryFrequencies host_;
  Array<double> inv_freq_, steps_;
  Array<std::int32_t> axes_;
};

// Rotates without a table, for decoding: cos and sin are computed in the kernel, once for each
// token. positions: int64 [T], or [B, T], or [A, B, T] (M-RoPE), any strides, on the device.
//
// Error bound and results: as `rotate` with a table of these positions, with the same bits. A
// token with a position beyond 2^31 in magnitude gets NaN.
//
// Throws as `rotate`, and if the frequencies name an axis >= A.
void rotate_at(const Tensor& q, const Tensor& k, const ConstTensor& positions,
               const Frequencies& frequencies, Direction direction = Direction::forward,
               Stream stream = nullptr);
void rotate_at(const Tensor& x, const ConstTensor& positions, const Frequencies& frequencies,
               Direction direction = Direction::forward, Stream stream = nullptr);
void rotate_at(const ConstTensor& x, const ConstTensor& positions,
               const Frequencies& frequencies, Direction direction, const Tensor& out,
               Stream stream = nullptr);

}  // namespace gnomon::cuda
