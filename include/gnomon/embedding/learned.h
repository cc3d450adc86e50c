// Learned position embedding: a trained table with one row per position, added to the token
// embeddings.
//
//   Gehring et al. "Convolutional Sequence to Sequence Learning", 2017.
//   https://arxiv.org/abs/1705.03122; Devlin et al. (BERT) 2018; Radford et al. (GPT-2) 2019.
//
// The table has an end: a position without a row is refused, never clamped or wrapped.
//
// Letters: N rows of the table, C channels, T tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon {

// How a position becomes a row of the table. Offsets are the released models' own quirks.
struct Learned {
  std::int64_t rows = 0;    // N, at least 1
  std::int64_t dim = 0;     // C, at least 1
  std::int64_t offset = 0;  // row = position + offset; not negative, less than N

  bool operator==(const Learned&) const = default;
};

// GPT-2, BERT, ViT, CLIP: row = position; capacity N.
Learned learned_plain(std::int64_t rows, std::int64_t dim);
// OPT, BART: row = position + 2, in a table of max_positions + 2 rows.
Learned learned_opt(std::int64_t max_positions, std::int64_t dim);
// RoBERTa, XLM-R, ESM: row = position + padding_idx + 1 where the table has
// `max_position_embeddings` rows; 514 rows with padding_idx 1 hold 512 tokens.
Learned learned_roberta(std::int64_t max_position_embeddings, std::int64_t dim,
                        std::int64_t padding_idx = 1);

// Positions that have a row: 0 to capacity - 1.
std::int64_t capacity(const Learned& learned);

// The rows of the tokens of a batch, [B, T]. Padding tokens get `padding_row` (OPT: offset - 1;
// RoBERTa: padding_idx; both are offset - 1), or row 0 where offset is 0. Throws when a
// position is negative or has no row, naming it and the capacity.
std::vector<std::int64_t> learned_rows(const Learned& learned, const Positions& positions);

}  // namespace gnomon
