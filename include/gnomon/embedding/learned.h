// Learned position embedding: a trained table with one row per position, added to the token
// embeddings.
//
//   Gehring et al. "Convolutional Sequence to Sequence Learning", 2017.
//   https://arxiv.org/abs/1705.03122; Devlin et al. (BERT) 2018; Radford et al. (GPT-2) 2019.
//
// The table is finite. A position without a row is refused, never clamped or wrapped.
//
// Letters: N rows of the table, C width, T tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon {

// Mapping from a position to a row of the table. The offsets are those of released models.
struct Learned {
  std::int64_t rows = 0;    // N, at least 1
  std::int64_t width = 0;   // C, at least 1
  std::int64_t offset = 0;  // row = position + offset; at least 0, less than N

  bool operator==(const Learned&) const = default;
};

// GPT-2, BERT, ViT, CLIP: row = position; capacity N.
Learned learned_plain(std::int64_t rows, std::int64_t width);
// OPT, BART: row = position + 2, in a table of max_positions + 2 rows.
Learned learned_opt(std::int64_t max_positions, std::int64_t width);
// RoBERTa, XLM-R, ESM: row = position + padding_idx + 1 in a table of `max_position_embeddings`
// rows; 514 rows with padding_idx 1 hold 512 tokens.
Learned learned_roberta(std::int64_t max_position_embeddings, std::int64_t width,
                        std::int64_t padding_idx = 1);

// Returns the number of positions that have a row: 0 to capacity - 1.
std::int64_t capacity(const Learned& learned);

// Returns the rows of the tokens of a batch, [B, T]. Padding tokens get row offset - 1 (OPT: 1;
// RoBERTa: padding_idx), or row 0 if offset is 0. Throws std::invalid_argument, naming the
// position and the capacity, if a position is negative or has no row.
std::vector<std::int64_t> learned_rows(const Learned& learned, const Positions& positions);

}  // namespace gnomon
