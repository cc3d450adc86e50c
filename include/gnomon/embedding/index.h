// Index of the position, added to the token embeddings: the naive encoding with which tutorials
// begin. docs/embedding/index.md describes why it fails.
//
//   Kazemnejad. "Transformer Architecture: The Positional Encoding", 2019.
//   https://kazemnejad.com/blog/transformer_architecture_positional_encoding/
//
//   raw          P[t, c] = t
//   normalised   P[t, c] = t / (length - 1)
//
// t is the position. c is each channel, or channel 0 only; P is 0 in the other channels.
//
// Letters: T tokens, C width.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/embedding/table.h"

namespace gnomon {

enum class IndexUnit { raw = 1, normalised };
enum class IndexChannels { all = 1, first };

struct Index {
  std::int64_t width = 0;       // C, at least 1
  IndexUnit unit = {};          // raw: t; normalised: t / (length - 1)
  IndexChannels channels = {};  // channels that receive the value
  // normalised only: the tokens of a sequence, at least 2. Position length - 1 has the value 1,
  // and later positions have larger values.
  std::int64_t length = 0;

  bool operator==(const Index&) const = default;
};

// Returns the plan: the table [T, C] of these positions, for add_table. Each value is the
// quotient in double, rounded once to float. Throws std::invalid_argument if a field is out of
// its bounds.
EmbeddingTable lower(const Index& index, std::span<const std::int64_t> positions);

}  // namespace gnomon
