// Rotary position embedding (RoPE), applied to queries and keys.
//
//   Su, Lu, Pan, Murtadha, Wen, Liu. "RoFormer: Enhanced Transformer with Rotary
//   Position Embedding", 2021. https://arxiv.org/abs/2104.09864, section 3.2.2.
//
// A head vector has D elements. R of them, starting at element `head_offset`, form R/2 pairs.
// The other D - R elements are not changed. At position p, pair i is rotated by p * inv_freq[i]
// radians:
//
//   a' = a cos t - b sin t        t = p * inv_freq[i]
//   b' = a sin t + b cos t        inv_freq[i] = base^(-2i/R)
//
// The score of a query at position m and a key at position n therefore depends on m and n only
// through the distance m - n.
//
//   R = 8:   halves    [a0 a1 a2 a3 b0 b1 b2 b3 | rest]
//            adjacent  [a0 b0 a1 b1 a2 b2 a3 b3 | rest]
//
// Letters: B batch, T tokens, H heads, D head dimension, R rotary dimension (even), A position
// axes.
//
// Naive version: tests/naive/rotary.h, `naive_rotate`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/dtype.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// The two elements of a head vector that form pair i. Checkpoints differ. A model that runs
// with the wrong pairing still produces fluent text, only worse. There is therefore no default:
// zero is invalid, and a field that is not set is rejected.
enum class Pairing {
  halves = 1,    // (i, i + R/2): GPT-NeoX, and Llama as converted for Hugging Face
  adjacent = 2,  // (2i, 2i + 1): RoFormer, GPT-J, and Llama as released by Meta
};

// Sign of the rotation angle. Forward: +position x frequency. Inverse: -position x frequency.
enum class Direction { forward = 1, inverse = 2 };

// Rotary encoding as given in a model's config. A plain value.
struct Rotary {
  std::int64_t rotary_dim = 0;  // R, rotated elements of a head; even, at least 2
  Pairing pairing = {};
  double base = 10'000.0;        // `rope_theta` in Hugging Face configs; greater than 1
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative

  bool operator==(const Rotary&) const = default;
};

// Returns the angular frequency of each pair, [R/2], in radians per position. The frequencies
// decrease from 1; each is within one ulp of base^(-2i/R). Context extension (scaling.h) maps
// this vector to another one.
//
// Throws std::invalid_argument if a field of `rotary` violates the bound stated next to it. The
// message names the field and its value.
std::vector<double> inverse_frequencies(const Rotary& rotary);

// Resolved rotary encoding: the rotated pairs and the angle of each pair per position. Every
// rotary spec (plain, scaled, xPos, axial, M-RoPE) lowers to a RotaryFrequencies. A KV cache
// stores the frequencies that rotated its keys. A plain value.
struct RotaryFrequencies {
  Pairing pairing = {};
  std::int64_t head_offset = 0;  // first rotated element of the head
  std::vector<double> inv_freq;  // [R/2], radians per position; |.| at most 2^20
  // Position axis of each pair, [R/2], 0 to A - 1 (M-RoPE: t, h, w; a grid: y, x). Empty: all
  // pairs use axis 0.
  std::vector<std::int32_t> axes = {};
  double table_scale = 1;  // factor on cos and sin (attention factor of YaRN and LongRoPE)
  // Natural logarithm of the factor by which pair i grows per position after `centre`, [R/2].
  // Used by xPos: queries grow and keys shrink. Empty: no growth.
  std::vector<double> growth = {};
  std::int64_t centre = 0;

  std::int64_t rotary_dim() const noexcept {  // R
    return 2 * static_cast<std::int64_t>(inv_freq.size());
  }
  bool operator==(const RotaryFrequencies&) const = default;
};

// Lowers plain rotary (no scaling) to rotary frequencies. Throws as inverse_frequencies.
RotaryFrequencies lower(const Rotary& rotary);

// Plan of a rotation: cos and sin of every angle for given positions. Immutable; threads,
// layers, queries and keys can share it. Built once per batch or length. Cost: O(B T R).
//
// Error bound, for positions up to 2^31 in magnitude: each entry is within half an ulp + 2^-46
// of the true value, which includes `table_scale`. See gnomon/angles.h. With `growth`, the
// entry is multiplied by the growth factor m, within m 2^-23 of the exact product.
//
// Throws std::invalid_argument if the frequencies violate the bounds stated next to its fields,
// or names an axis that has no positions.
class RotaryTable {
 public:
  // Positions of each row of the batch, or one row shared by all rows (batch 1).
  RotaryTable(const Rotary& rotary, const Positions& positions, Angles angles = Angles::exact);
  // Positions as a plain list [T], shared by all rows of the batch.
  RotaryTable(const Rotary& rotary, std::span<const std::int64_t> positions,
              Angles angles = Angles::exact);
  RotaryTable(RotaryFrequencies frequencies, const Positions& positions,
              Angles angles = Angles::exact);
  RotaryTable(RotaryFrequencies frequencies, std::span<const std::int64_t> positions,
              Angles angles = Angles::exact);
  // Positions on several axes (M-RoPE), all with the same batch and number of tokens.
  RotaryTable(RotaryFrequencies frequencies, std::span<const Positions> axes,
              Angles angles = Angles::exact);
  // Cells of a grid; T is the number of cells. Axis a is column a of the coordinates.
  RotaryTable(RotaryFrequencies frequencies, const Grid& grid, Angles angles = Angles::exact);
  // Continuous coordinates [T, A]. `growth` must be empty, since `centre` is an integer.
  RotaryTable(RotaryFrequencies frequencies, View<const double, 2> coordinates,
              Angles angles = Angles::exact);
  // Copies of the cosines and sines of another table, [B or 1, T, R/2], as stored in a file.
  // They are not compared with the frequencies.
  RotaryTable(RotaryFrequencies frequencies, View<const float, 3> cos,
              View<const float, 3> sin);

  const RotaryFrequencies& frequencies() const noexcept { return frequencies_; }
  std::int64_t batch() const noexcept { return batch_; }    // 1: shared by all rows
  std::int64_t tokens() const noexcept { return tokens_; }  // T
  View<const float, 3> cos() const noexcept;                // [B or 1, T, R/2]
  View<const float, 3> sin() const noexcept;                // [B or 1, T, R/2]

 private:
  RotaryFrequencies frequencies_;
  std::int64_t batch_, tokens_;
  std::shared_ptr<const float[]> values_;  // all cosines, then all sines; shared by copies
};

// Rotates queries or keys in place. x: [B, T, H, D] or [T, H, D] (a batch of one), any strides
// (this includes [B, H, T, D] and packed QKV), D contiguous. Element types: float, Half,
// BFloat16, double.
//
// Direction::inverse computes the gradient of the forward rotation. It also undoes the rotation
// up to rounding (with a table_scale s, up to the factor s^2).
//
// Error bound: |x' - exact| <= 3 * 2^-24 * (|a| + |b|) for float. The same bound holds for
// double, since the table is in float. Half and bfloat16 are computed in float and rounded once
// more. Every instruction set meets the bound; results may differ in the last bits between
// instruction sets.
//
// Cost: reads and writes x once; memory-bound. Allocates nothing. Tokens are divided among
// threads; the result does not depend on the number of threads. No thread is started for less
// than 2^17 elements.
//
// Throws std::invalid_argument if x does not have the table's T tokens, the table's B is not 1
// and x does not have B rows, D < head_offset + R, or D is not contiguous.
void rotate(const Tensor& x, const RotaryTable& table,
            Direction direction = Direction::forward);

// Rotates queries and keys of one element type in one pass over the table. q and k may differ
// in the number of heads and in the head dimension. Also throws if they differ in the number of
// rows, or overlap; then nothing is written.
void rotate(const Tensor& q, const Tensor& k, const RotaryTable& table,
            Direction direction = Direction::forward);

// Writes the rotation of x to `out`; x is not changed. Elements that are not rotated are
// copied. out: same shape and element type as x, no overlap. To write to a KV cache, perhaps of
// another element type, see rotate_append in cached_keys.h.
void rotate(const ConstTensor& x, const RotaryTable& table, Direction direction,
            const Tensor& out);

}  // namespace gnomon
