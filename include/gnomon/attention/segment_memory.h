// The keys and values of earlier segments, for a model that reads a long text piece by piece.
//
//   Dai et al. "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context", 2019.
//   https://arxiv.org/abs/1901.02860, section 3.2. (There the layer's inputs are kept and
//   projected again; that is the same in evaluation, and here nothing is computed twice.)
//
//   SegmentMemory<float> memory({.memory = 512, .segment = 128, .heads = 8,
//                                .key_size = 64, .value_size = 64});
//   const Segment<float> s = memory.append(k, v);              // for each segment, each layer
//   plan.mask = {.visibility = Visibility::causal, .offset = s.offset, .before = 512};
//   attention({q, s.keys, s.values}, plan, out);
//
// A KvCache keeps all it is given, and positions of any kind; this keeps the last M tokens for
// ever, and its positions count on.
//
// Letters: B batch, M tokens remembered, T of a segment, Hk key heads, D head size of keys, Dv
// of values.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

struct SegmentMemoryShape {
  std::int64_t batch = 1;                     // B
  std::int64_t memory = 0;                    // M; not negative
  std::int64_t segment = 0;                   // the longest T of a call; at least 1
  std::int64_t heads = 0;                     // Hk
  std::int64_t key_size = 0, value_size = 0;  // D, Dv

  bool operator==(const SegmentMemoryShape&) const = default;
};

// What the queries of a segment attend to: at most M rows of memory, and the segment behind
// them. Borrowed from the memory until its next call.
template <typename T>
struct Segment {
  View<const T, 4> keys, values;  // [B, offset + T, Hk, D or Dv]
  std::int64_t offset = 0;        // rows of memory: the mask's offset
  std::int64_t first = 0;         // position of row 0 in the text; query 0 is at first + offset

  Positions key_positions() const { return consecutive(keys.extent(1), first); }
  Positions query_positions() const {
    return consecutive(keys.extent(1) - offset, first + offset);
  }
  // Of a gradient shaped as keys or values: the segment's own rows. No gradient goes into
  // memory; what attention's backward pass writes to its rows is left where it is.
  template <typename U>
  View<U, 4> own(const View<U, 4>& grad) const {
    return grad.slice(1, offset, grad.extent(1) - offset);
  }
};

// T: float, Half, BFloat16, double. One layer; a writer excludes all others.
//
// A query that reaches at most M keys back (mask.before = M) gets in any segment what it gets
// in one long text: within attention's error, and for keys that were turned on their way in
// within that of rotate_append.
//
// Memory: B (2 M + segment) Hk (D + Dv) elements, taken at once. Cost of a call: its tokens are
// copied once; the last M tokens move once in every M tokens or more, so O(1) for each on
// average. Nothing is allocated (without a table where keys turn: one is made).
template <typename T>
class SegmentMemory {
 public:
  // With a schedule keys are turned on their way in, for their place in the text. Without one
  // they are kept as they are given: encodings by distance; or rotary whose keys are turned in
  // each segment anew, [0, offset + T) for the whole window.
  //
  // Throws std::invalid_argument when an extent breaks its bound, or the schedule does not fit.
  explicit SegmentMemory(const SegmentMemoryShape& shape,
                         std::optional<RotarySchedule> schedule = {});

  const SegmentMemoryShape& shape() const noexcept { return shape_; }
  const std::optional<RotarySchedule>& schedule() const noexcept { return schedule_; }
  std::int64_t kept() const noexcept;                   // rows that the next segment will see
  std::int64_t next() const noexcept { return next_; }  // position of the next token

  // k [B, T, Hk, D], v [B, T, Hk, Dv]; any strides, the last axis contiguous. table: of the
  // schedule and of positions next() to next() + T - 1, made by the caller as its layers share
  // one; null: made here.
  //
  // Throws std::invalid_argument when shapes do not fit, T is more than `segment`, the table is
  // of another schedule or length, or keys turn and a position exceeds 2^31. Then nothing has
  // changed.
  Segment<T> append(View<const T, 4> k, View<const T, 4> v, const RotaryTable* table = nullptr);

  // Forgets everything: a new text, from position 0.
  void clear() noexcept { tokens_ = next_ = 0; }

 private:
  SegmentMemoryShape shape_;
  std::optional<RotarySchedule> schedule_;
  std::int64_t tokens_ = 0, next_ = 0;  // rows in the stores; tokens ever seen
  std::vector<T> keys_, values_;        // [B, 2 M + segment, Hk, D or Dv]
};

}  // namespace gnomon
