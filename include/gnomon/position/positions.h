// What a position is. Which position each token of a batch has, and to which sequence of its
// row it belongs, is decided here and nowhere else: left padding, packing and the offset of a
// KV cache are facts about a batch, not something to guess from a shape.
//
// Letters: B rows of the batch, T tokens in a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

// Positions and sequences of a batch. A plain value: compare, copy, or fill it yourself.
struct Positions {
  static constexpr std::int32_t padding = -1;

  std::int64_t batch = 0;               // B
  std::int64_t tokens = 0;              // T
  std::vector<std::int64_t> ids;        // [B, T], row-major; any integers
  std::vector<std::int32_t> sequences;  // [B, T]: tokens of a row with the same number see each
                                        // other; `padding` sees nothing and is not seen

  std::span<const std::int64_t> row(std::int64_t b) const;  // [T], the ids of row b
  bool operator==(const Positions&) const = default;
};

// offset, offset + 1, ... in each of `batch` rows: a prompt (offset 0), or new tokens after
// `offset` cached ones. Throws when a size is negative or the last position overflows.
Positions consecutive(std::int64_t tokens, std::int64_t offset = 0, std::int64_t batch = 1);

// The caller's own ids, [T] for one row or [B, T]. All tokens of a row are one sequence.
Positions explicit_ids(std::span<const std::int64_t> ids);
Positions explicit_ids(View<const std::int64_t, 2> ids);

// Several sequences one after another in one row, each starting again at 0. lengths: tokens of
// each, at least 1; [3, 2] gives ids 0 1 2 0 1 in sequences 0 0 0 1 1. `tokens`: T of the row,
// at least their sum; the rest is padding (id 0).
Positions packed(std::span<const std::int64_t> lengths, std::int64_t tokens);
Positions packed(std::span<const std::int64_t> lengths);

// From a padding mask [B, T], nonzero where a token is real: real tokens count 0, 1, 2, ... in
// each row wherever the padding stands (left, right, or between); padding gets `padding_id`
// (Hugging Face generation code uses 1 or 0; nothing reads it).
Positions from_padding_mask(View<const std::uint8_t, 2> mask, std::int64_t padding_id = 0);

// Coordinates of the cells of a grid in row-major order, one row of the result per cell.
// grid(height, width): [height * width, 2], columns y, x. grid(frames, height, width):
// [..., 3], columns t, y, x. Throws when an extent is below 1.
struct Grid {
  std::int64_t cells = 0, axes = 0;
  std::vector<std::int64_t> coordinates;  // [cells, axes]

  std::vector<std::int64_t> axis(std::int64_t a) const;  // [cells]
  bool operator==(const Grid&) const = default;
};
Grid grid(std::int64_t height, std::int64_t width);
Grid grid(std::int64_t frames, std::int64_t height, std::int64_t width);

// The coordinates of tokens whose position is a cell of a grid, counted row by row: one
// Positions for each extent, outermost first, with the sequences of `cells`. Extents {height,
// width} give y = id / width, x = id % width. Throws when an extent is below 1, or the id of a
// token that is not padding is not 0 to cells - 1.
std::vector<Positions> grid_axes(const Positions& cells, std::span<const std::int64_t> extents);

// A grid's coordinates as one Positions for each axis, all in one sequence.
std::vector<Positions> grid_axes(const Grid& grid);

}  // namespace gnomon
