#include "gnomon/embedding/learned.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"

namespace gnomon {
namespace {

void check(const Learned& learned) {
  if (learned.rows < 1) refuse("learned", "rows must be at least 1", learned.rows);
  if (learned.width < 1) refuse("learned", "width must be at least 1", learned.width);
  if (learned.offset < 0 || learned.offset >= learned.rows)
    refuse("learned", "offset must be from 0 to rows - 1, " + std::to_string(learned.rows - 1),
           learned.offset);
}

Learned checked(const Learned& learned) {
  check(learned);
  return learned;
}

}  // namespace

Learned learned_plain(std::int64_t rows, std::int64_t width) {
  return checked({.rows = rows, .width = width});
}

Learned learned_opt(std::int64_t max_positions, std::int64_t width) {
  if (max_positions < 1) refuse("learned", "max_positions must be at least 1", max_positions);
  return checked({.rows = max_positions + 2, .width = width, .offset = 2});
}

Learned learned_roberta(std::int64_t max_position_embeddings, std::int64_t width,
                        std::int64_t padding_idx) {
  if (padding_idx < 0 || padding_idx > max_position_embeddings - 2)
    refuse("learned",
           "padding_idx must be from 0 to max_position_embeddings - 2, " +
               std::to_string(max_position_embeddings - 2),
           padding_idx);
  return checked({.rows = max_position_embeddings, .width = width, .offset = padding_idx + 1});
}

std::int64_t capacity(const Learned& learned) {
  check(learned);
  return learned.rows - learned.offset;
}

std::vector<std::int64_t> learned_rows(const Learned& learned, const Positions& positions) {
  const std::int64_t most = capacity(learned);
  const std::int64_t padding_row = std::max<std::int64_t>(learned.offset - 1, 0);
  if (positions.sequences.size() != positions.ids.size())
    refuse("learned",
           "sequences must have one entry per id, " + std::to_string(positions.ids.size()),
           static_cast<std::int64_t>(positions.sequences.size()));
  std::vector<std::int64_t> rows(positions.ids.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t id = positions.ids[i];
    if (positions.sequences[i] == Positions::padding) {
      rows[i] = padding_row;
      continue;
    }
    if (id < 0 || id >= most)
      refuse("learned",
             "position must have a row: the table holds 0 to " + std::to_string(most - 1), id);
    rows[i] = id + learned.offset;
  }
  return rows;
}

}  // namespace gnomon
