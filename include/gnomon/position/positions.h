// Positions of the tokens of a batch, and the sequence of the row that each token belongs to.
// Left padding, packing and the offset of a KV cache are described here. No other part of the
// library derives them from a shape.
//
// Letters: B rows of the batch, T tokens in a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

// Positions and sequences of a batch. A plain value; callers may fill it directly.
struct Positions {
  static constexpr std::int32_t padding = -1;

  std::int64_t batch = 0;              // B
  std::int64_t tokens = 0;             // T
  std::vector<std::int64_t> ids = {};  // [B, T], row-major; any integers
  // [B, T]: tokens of a row attend to each other if they have the same number; `padding` tokens
  // attend to nothing and nothing attends to them.
  std::vector<std::int32_t> sequences = {};

  // Returns the ids of row b, [T]. Throws std::invalid_argument if b is out of range.
  std::span<const std::int64_t> row(std::int64_t b) const;
  bool operator==(const Positions&) const = default;
};

// Returns the ids offset, offset + 1, ... in each of `batch` rows: a prompt (offset 0), or new
// tokens after `offset` cached tokens. Throws std::invalid_argument if a size is negative or
// the last position overflows.
Positions consecutive(std::int64_t tokens, std::int64_t offset = 0, std::int64_t batch = 1);

// Returns positions with the given ids, [T] for one row or [B, T]. All tokens of a row belong
// to one sequence.
Positions explicit_ids(std::span<const std::int64_t> ids);
Positions explicit_ids(View<const std::int64_t, 2> ids);

// Returns one row of packed sequences. The ids of each sequence start at 0. lengths: tokens of
// each sequence, at least 1; [3, 2] gives ids 0 1 2 0 1 and sequences 0 0 0 1 1. `tokens`: T,
// at least the sum of the lengths (default: the sum); the remaining tokens are padding (id 0).
// Throws std::invalid_argument if an argument is out of these bounds.
Positions packed(std::span<const std::int64_t> lengths, std::int64_t tokens);
Positions packed(std::span<const std::int64_t> lengths);

// The rows of the sequences of a ragged batch. A plain value that borrows its arrays. Give
// either `starts` or `lengths`. N sequences.
struct RaggedRows {
  std::span<const std::int64_t> starts = {};   // [N + 1], not decreasing, at least 0
  std::span<const std::int64_t> lengths = {};  // [N], at least 0
  // [N]: cached tokens of each sequence, the position of its first row. Empty: 0.
  std::span<const std::int64_t> offsets = {};
  // T, at least the last start, or the greatest length. -1: that number.
  std::int64_t tokens = -1;
};

// Returns the positions of the rows of a ragged batch: row i of sequence n has the id
// offsets[n] + i and the sequence n. With `starts`: one row of the batch with T tokens, where
// sequence n has the tokens starts[n] to starts[n + 1]. With `lengths`: N rows, where sequence
// n has the first lengths[n] tokens of row n. All other tokens are padding (id 0). Throws
// std::invalid_argument if an argument is out of these bounds.
Positions ragged_positions(const RaggedRows& rows);

// Returns the positions for a padding mask [B, T], nonzero for real tokens. The real tokens of
// a row get the ids 0, 1, 2, ..., whether padding is on the left, on the right or in between.
// Padding tokens get `padding_id`, which no encoding reads (Hugging Face generation code uses 1
// or 0).
Positions from_padding_mask(View<const std::uint8_t, 2> mask, std::int64_t padding_id = 0);

// Coordinates of the cells of a grid in row-major order. grid(height, width):
// [height * width, 2], columns y, x. grid(frames, height, width):
// [frames * height * width, 3], columns t, y, x. Throws std::invalid_argument if an extent is
// less than 1 or the grid has 2^58 cells or more.
struct Grid {
  std::int64_t cells = 0, axes = 0;
  std::vector<std::int64_t> coordinates;  // [cells, axes]

  std::vector<std::int64_t> axis(std::int64_t a) const;  // column a, [cells]
  bool operator==(const Grid&) const = default;
};
Grid grid(std::int64_t height, std::int64_t width);
Grid grid(std::int64_t frames, std::int64_t height, std::int64_t width);

// Returns the coordinates of tokens whose id is the index of a grid cell in row-major order:
// one Positions per extent, outermost first, with the sequences of `cells`. Extents {height,
// width} give y = id / width and x = id % width. Throws std::invalid_argument if an extent is
// less than 1, a token that is not padding has an id outside 0 to (product of extents) - 1, or
// the numbers of ids and sequences differ.
std::vector<Positions> grid_axes(const Positions& cells, std::span<const std::int64_t> extents);

// Returns the coordinates of a grid as one Positions per axis, with one sequence.
std::vector<Positions> grid_axes(const Grid& grid);

}  // namespace gnomon
