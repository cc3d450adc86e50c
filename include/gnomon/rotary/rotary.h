// Rotary position embedding (RoPE). Position enters on queries and keys.
//
//   Su, Lu, Pan, Murtadha, Wen, Liu. "RoFormer: Enhanced Transformer with Rotary
//   Position Embedding", 2021. https://arxiv.org/abs/2104.09864, section 3.2.2.
//
// A head vector of D elements is read as R/2 pairs, from element `first` on, and a rest of
// D - R that is left alone. At position p, pair i turns by p * inv_freq[i] radians:
//
//   a' = a cos t - b sin t        t = p * inv_freq[i]
//   b' = a sin t + b cos t        inv_freq[i] = base^(-2i/R)
//
// so the score of a query at m with a key at n depends on m and n only through m - n.
//
//   R = 8:   halves    [a0 a1 a2 a3 b0 b1 b2 b3 | rest]
//            adjacent  [a0 b0 a1 b1 a2 b2 a3 b3 | rest]
//
// Letters used below: B batch, T tokens, H heads, D head size, R rotated elements (even).
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

// Which two elements of a head vector form pair i. Checkpoints differ: a model run with the
// wrong one still produces fluent text, only worse. So there is no default, and zero is
// invalid: a field left out is refused rather than guessed.
enum class Pairing {
  halves = 1,    // (i, i + R/2): GPT-NeoX, and Llama as converted for Hugging Face
  adjacent = 2,  // (2i, 2i + 1): RoFormer, GPT-J, and Llama as released by Meta
};

// Forward: by +position x frequency. Inverse: by minus that angle.
enum class Direction { forward = 1, inverse = 2 };

// What a model's config says about its rotary encoding. A plain value.
struct Rotary {
  std::int64_t dim = 0;  // R, elements rotated per head; even, at least 2
  Pairing pairing = {};
  double base = 10'000.0;  // `rope_theta` in Hugging Face configs; greater than 1
  std::int64_t first = 0;  // the first rotated element of the head; not negative

  bool operator==(const Rotary&) const = default;
};

// The angular frequency of each pair, in radians per position. Returns [R/2], decreasing
// from 1, each within one ulp of base^(-2i/R). Context extension is a function from this
// vector to another.
//
// Throws std::invalid_argument, naming the field and its value, when `rotary` breaks the
// bounds written beside its fields.
std::vector<double> inverse_frequencies(const Rotary& rotary);

// A rotary encoding resolved to what turns a head: which pairs, by how much for each position.
// Every spec of this room (scalings, xPos, axial, M-RoPE) lowers to one; a cached key remembers
// the one it was turned with. A plain value.
struct RotarySchedule {
  Pairing pairing = {};
  std::int64_t first = 0;        // the first rotated element of the head
  std::vector<double> inv_freq;  // [R/2], radians per position; |.| at most 2^20
  // The position axis that turns each pair, [R/2] of 0 to A - 1 (M-RoPE: t, h, w; a grid: y,
  // x); empty: all by axis 0.
  std::vector<std::int32_t> axes = {};
  double table_scale = 1;  // on cos and sin (YaRN's and LongRoPE's attention factor)
  // What pair i grows by for each position after `centre`, as a natural logarithm, [R/2]: xPos,
  // whose queries grow and whose keys shrink. Empty: nothing grows.
  std::vector<double> growth = {};
  std::int64_t centre = 0;

  std::int64_t dim() const noexcept {  // R
    return 2 * static_cast<std::int64_t>(inv_freq.size());
  }
  bool operator==(const RotarySchedule&) const = default;
};

// Plain rotary, without a scaling. Throws as inverse_frequencies.
RotarySchedule schedule(const Rotary& rotary);

// cos and sin of every angle that some tokens need: the plan of a rotation. Immutable; shared
// by threads, layers, queries and keys. Built once per batch or length, O(B T R).
//
// Each entry is within half an ulp + 2^-46 of the true value (times `table_scale`, and with
// `growth` times that within 2^-23 of its true value), for positions up to 2^31 in magnitude;
// see gnomon/angles.h.
//
// Throws std::invalid_argument when the schedule breaks the bounds beside its fields or names
// an axis that has no positions.
class RotaryTable {
 public:
  // One row of positions for every row of a batch, or one shared by all (batch 1).
  RotaryTable(const Rotary& rotary, const Positions& positions, Angles angles = Angles::exact);
  // The same from a bare list of positions [T], shared by the batch.
  RotaryTable(const Rotary& rotary, std::span<const std::int64_t> positions,
              Angles angles = Angles::exact);
  RotaryTable(RotarySchedule schedule, const Positions& positions,
              Angles angles = Angles::exact);
  RotaryTable(RotarySchedule schedule, std::span<const std::int64_t> positions,
              Angles angles = Angles::exact);
  // Positions on several axes, all of one batch and length: M-RoPE.
  RotaryTable(RotarySchedule schedule, std::span<const Positions> axes,
              Angles angles = Angles::exact);
  // The cells of a grid, T of them; axis a of a pair is column a of the coordinates.
  RotaryTable(RotarySchedule schedule, const Grid& grid, Angles angles = Angles::exact);
  // Continuous coordinates [T, A]. With `growth` refused: a centre is an integer.
  RotaryTable(RotarySchedule schedule, View<const double, 2> coordinates,
              Angles angles = Angles::exact);

  const RotarySchedule& schedule() const noexcept { return schedule_; }
  std::int64_t batch() const noexcept { return batch_; }    // 1: shared by all rows
  std::int64_t tokens() const noexcept { return tokens_; }  // T
  View<const float, 3> cos() const noexcept;                // [B or 1, T, R/2]
  View<const float, 3> sin() const noexcept;                // [B or 1, T, R/2]

 private:
  RotarySchedule schedule_;
  std::int64_t batch_, tokens_;
  std::shared_ptr<const float[]> values_;  // all cosines, then all sines; shared by copies
};

// Rotates queries or keys in place. x: [B, T, H, D] or [T, H, D] (a batch of one), any strides
// (so also [B, H, T, D] and packed QKV), D contiguous. Element types: float, Half, BFloat16,
// double.
//
// Direction::inverse gives the gradient of the forward rotation, and undoes the rotation up to
// rounding (with a table_scale s: times s squared).
//
// Error: |x' - exact| <= 3 * 2^-24 * (|a| + |b|) for float and, since the table is float, for
// double; for half and bfloat16 the same sum in float, rounded once more. Every instruction set
// meets it; they need not agree bit for bit. Cost: reads and writes x once, so it is bound by
// memory. Threads split the tokens; the result does not depend on their number.
//
// Throws std::invalid_argument when x has other than the table's T tokens, other than its B
// rows where that is not 1, D < first + R, or D not contiguous. Allocates nothing, and starts
// no thread for less than 2^17 elements.
void rotate(const Tensor& x, const RotaryTable& table,
            Direction direction = Direction::forward);

// Queries and keys of one element type in one pass over the table. They may differ in heads
// and head size. Throws also when they differ in rows; nothing is written then.
void rotate(const Tensor& q, const Tensor& k, const RotaryTable& table,
            Direction direction = Direction::forward);

// x stays, out gets its rotation; elements that do not rotate are copied. out: as x, the same
// shape, no overlap. (Into a cache, perhaps of another type: rotate_append, in cached_keys.h.)
void rotate(const ConstTensor& x, const RotaryTable& table, Direction direction,
            const Tensor& out);

}  // namespace gnomon
