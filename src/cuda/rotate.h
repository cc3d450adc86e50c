// Checked arguments of rotations, and the division of their work into blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gnomon/cuda/rotate.h"
#include "src/cuda/arguments.h"
#include "src/cuda/launch.h"
#include "src/cuda/rotate_kernel.h"

namespace gnomon::cuda {

// The batch and the tokens of head vectors [B, T, H, D] or [T, H, D].
struct TokenShape {
  std::int64_t batch = 0, tokens = 0;
  bool operator==(const TokenShape&) const = default;
};

// Checks head vectors, and returns their batch and tokens. Throws std::invalid_argument unless
// a head contains R elements from `head_offset` on.
TokenShape check_heads(Arguments& arguments, std::string_view name, const ConstTensor& x,
                       std::int64_t head_offset, std::int64_t rotary_dim);
template <typename T>
Heads<T> heads_of(const ConstTensor& x, std::int64_t head_offset) {
  const Axis head = axis_from_last(x, 1), token = axis_from_last(x, 2),
             row = axis_from_last(x, 3);
  return {data<T>(x) + head_offset, row.stride, token.stride, head.stride,
          static_cast<std::int32_t>(head.extent)};
}

// Checks the table of a rotation, and returns it. rows: those of the head vectors.
TableAngles check_table(Arguments& arguments, const Rotation& rotation, const TokenShape& rows);
// Checks positions for angles that the kernel computes.
ComputedAngles check_positions(Arguments& arguments, const ConstTensor& positions,
                               const Frequencies& frequencies, const TokenShape& rows);

// Whether a table can be read in vectors of 16 bytes.
inline bool in_vectors(const AnyAngles& angles) {
  const TableAngles& table = angles.table;
  return !angles.from_table || (reinterpret_cast<std::uintptr_t>(table.cos) % 16 == 0 &&
                                reinterpret_cast<std::uintptr_t>(table.sin) % 16 == 0 &&
                                table.row % 4 == 0 && table.token % 4 == 0);
}
// The tokens of a block, of computed angles in 48 KB of shared memory, and its bytes.
inline std::int64_t most_tokens(const AnyAngles& angles, std::int64_t pairs) {
  return angles.from_table ? 64 : std::clamp<std::int64_t>((6 << 10) / pairs, 1, 64);
}
inline std::size_t shared_bytes(const AnyAngles& angles, std::int64_t pairs, int tokens) {
  return angles.from_table ? 0 : static_cast<std::size_t>(8 * pairs * tokens);
}

// The largest number of pairs that a work item can have, for loads of up to 16 bytes: `bytes`
// of each tensor must be aligned, and pairs and head_offset must be multiples.
int width_of(std::initializer_list<const ConstTensor*> tensors, std::int64_t pairs,
             std::int64_t head_offset);

constexpr std::int64_t busy = 1024;  // threads that occupy a multiprocessor

// items: those of one token. most_tokens: limit of a block, at least 1.
Division divide(std::int64_t tokens, std::int64_t items, std::int64_t most_tokens, int device);

}  // namespace gnomon::cuda
