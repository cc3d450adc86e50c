// The segment memory of Transformer-XL: the keys and values of earlier segments, for a model
// that processes a long text in segments.
//
// Source: Dai et al. "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
// 2019, https://arxiv.org/abs/1901.02860, section 3.2. The paper stores the inputs of each
// layer and projects them again. In evaluation the result is the same, and here the projection
// is computed once.
//
//   SegmentMemory<float> memory({.memory = 512, .segment = 128, .heads = 8,
//                                .head_dim = 64, .value_dim = 64});
//   const Segment<float> s = memory.append(k, v);              // for each segment, each layer
//   plan.mask = {.visibility = Visibility::causal, .offset = s.offset, .left = 512};
//   attention({q, s.keys, s.values}, plan, out);
//
// Difference to KvCache: a KvCache keeps all entries, at any positions. A SegmentMemory keeps
// the last M tokens of an unlimited text, at consecutive positions.
//
// Letters: B batch, M tokens of memory, T tokens of a segment, Hk key heads, D head dimension
// of keys, Dv head dimension of values.
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
  std::int64_t batch = 1;                    // B
  std::int64_t memory = 0;                   // M; not negative
  std::int64_t segment = 0;                  // the longest T of a call; at least 1
  std::int64_t heads = 0;                    // Hk
  std::int64_t head_dim = 0, value_dim = 0;  // D, Dv

  bool operator==(const SegmentMemoryShape&) const = default;
};

// The keys and values that the queries of a segment attend to: at most M rows of memory,
// followed by the segment. Borrowed from the memory until its next call.
template <typename T>
struct Segment {
  View<const T, 4> keys, values;  // [B, offset + T, Hk, D or Dv]
  std::int64_t offset = 0;        // rows of memory: the mask's offset
  std::int64_t first = 0;         // position of row 0 in the text; query 0 is at first + offset

  Positions key_positions() const { return consecutive(keys.extent(1), first); }
  Positions query_positions() const {
    return consecutive(keys.extent(1) - offset, first + offset);
  }
  // Returns the rows of the segment itself in a gradient shaped as keys or values. Memory
  // receives no gradient: attention's backward pass writes its rows, and the caller ignores
  // them.
  template <typename U>
  View<U, 4> own(const View<U, 4>& grad) const {
    return grad.slice(1, offset, grad.extent(1) - offset);
  }
};

// The segment memory of one layer. T: float, Half, BFloat16, double. Thread-safe: several
// threads may read at the same time; a call that modifies the memory must run alone.
//
// If queries see at most M keys back (mask.left = M), attention by segments gives the same
// result as attention over the whole text, within the error bound of attention, and for keys
// that are rotated here also within that of rotate_append.
//
// Memory: B (2 M + segment) Hk (D + Dv) elements, allocated by the constructor. Cost of a call:
// its tokens are copied once, and the last M tokens are moved at most once in every M tokens,
// so O(1) per token on average. Allocates nothing, except a rotary table if keys are rotated
// and no table is given.
template <typename T>
class SegmentMemory {
 public:
  // With frequencies, keys are rotated when they are appended, for their position in the text.
  // Without frequencies, keys are stored unchanged: for encodings by distance, or for rotary
  // models whose keys are rotated anew in each segment, at positions [0, offset + T) of the
  // window.
  //
  // Throws std::invalid_argument if an extent or the frequencies are invalid.
  explicit SegmentMemory(const SegmentMemoryShape& shape,
                         std::optional<RotaryFrequencies> frequencies = {});

  const SegmentMemoryShape& shape() const noexcept { return shape_; }
  const std::optional<RotaryFrequencies>& frequencies() const noexcept { return frequencies_; }
  std::int64_t kept() const noexcept;                   // rows that the next segment will see
  std::int64_t next() const noexcept { return next_; }  // position of the next token

  // Appends a segment. k [B, T, Hk, D], v [B, T, Hk, Dv]; any strides, the last axis
  // contiguous. table: the rotary table of the frequencies and of positions [next(),
  // next() + T), which the caller can share between layers; null: computed here.
  //
  // Throws std::invalid_argument if shapes do not match, T is more than `segment`, the table
  // has other frequencies or length, or keys are rotated and a position exceeds 2^31. The
  // memory is then unchanged.
  Segment<T> append(View<const T, 4> k, View<const T, 4> v, const RotaryTable* table = nullptr);

  // Removes all tokens. The next token has position 0.
  void clear() noexcept { tokens_ = next_ = 0; }

 private:
  SegmentMemoryShape shape_;
  std::optional<RotaryFrequencies> frequencies_;
  std::int64_t tokens_ = 0, next_ = 0;  // rows in the buffers; tokens appended so far
  std::vector<T> keys_, values_;        // [B, 2 M + segment, Hk, D or Dv]
};

}  // namespace gnomon
