// Tables of cos and sin in the memory of a CUDA device, filled there.
//
// Letters: T tokens, R rotary dimension, A position axes.
//
// Naive version: tests/naive/rotary.h, `naive_cos_sin`.
#pragma once

#include <cstdint>

#include "gnomon/cuda/device.h"
#include "gnomon/cuda/rotate.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// Fills cos and sin for the positions begin to begin + T - 1, on all axes. cos, sin: [T, R/2],
// any strides, the last axis contiguous, of one type: float, Half or BFloat16.
//
// Error bound: half an ulp of the type + table_scale 2^-46, as fill_cos_sin of gnomon/angles.h
// (Angles::exact). Deterministic: an entry depends only on its position and frequency.
//
// Cost: for each entry one complex product in double and one write; for each 64th position one
// cos and one sin in double. Anchors are computed on the device, so nothing is copied to it.
//
// Throws std::invalid_argument if shapes, types or devices do not match, or a position exceeds
// 2^31 in magnitude; Error if the launch fails.
void fill_cos_sin(const Frequencies& frequencies, std::int64_t begin, const Tensor& cos,
                  const Tensor& sin, Stream stream = nullptr);

// The same for positions on the device: int64 [T], or [A, T] for frequencies with axes
// (M-RoPE). cos and sin are computed for each entry. A position beyond 2^31 gives NaN.
void fill_cos_sin(const Frequencies& frequencies, const ConstTensor& positions,
                  const Tensor& cos, const Tensor& sin, Stream stream = nullptr);

// An owned table of cos and sin in float on a device. Immutable.
class RotaryTable {
 public:
  // Copies a table of the host: any encoding that lowers to one, also xPos, M-RoPE and grids.
  explicit RotaryTable(const gnomon::RotaryTable& table, int device = 0);
  // Positions begin to begin + tokens - 1, filled on the device; waits for it.
  RotaryTable(const RotaryFrequencies& frequencies, std::int64_t begin, std::int64_t tokens,
              int device = 0);

  std::int64_t batch() const noexcept { return extents_[0]; }
  std::int64_t tokens() const noexcept { return extents_[1]; }
  // The arguments of `rotate`. They borrow the table: it must outlive them and not move. With
  // positions, the table must have one batch row.
  Rotation rotation(const ConstTensor& positions = {}) const noexcept;

 private:
  ConstTensor part(std::int64_t begin, std::int32_t rank) const noexcept;

  Pairing pairing_ = {};
  std::int64_t head_offset_ = 0;
  std::int64_t extents_[3] = {};  // [B or 1, T, R/2]
  Array<float> values_;           // all cosines, then all sines
};

}  // namespace gnomon::cuda
