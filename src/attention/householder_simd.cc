// Products of queries and keys through Householder factors.

#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/householder_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/householder_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <typename A>
void FindBlock(internal::TypedProblem<A>& problem, std::int64_t b, std::int64_t head,
               std::int64_t begin, std::int64_t end) {
  const std::int64_t size = problem.size;
  HouseholderRows<A>& rows = *problem.householder_rows;
  A* betas = rows.betas.data() + (b * problem.key_heads + head) * problem.keys;
  const auto row = [&](const Numbers<A>& of, std::int64_t j) {
    return HouseholderRow(problem, of, b, head, j);
  };
  for (std::int64_t j = begin; j < end; ++j) {
    A *key = row(rows.keys, j), *w = row(rows.w, j);
    LoadRow(problem.k, problem.position.keys, b, j, head, size, key);
    RotateRow(problem.position.key_rotary, b, j, Direction::forward, key);
    const bool padding = IsPadding(problem.position.keys, b, j);
    for (std::int64_t n = 0; n < size; ++n)
      w[n] = padding ? A(0) : static_cast<A>(problem.householder.w(b, j, head, n));
    betas[j] = padding ? A(0) : static_cast<A>(problem.householder.betas(b, head, j));
  }
  for (std::int64_t j = begin; j < end; ++j) {
    A *moved = row(rows.moved, j), *product = row(rows.product, j);
    std::copy_n(row(rows.keys, j), padded(size), moved);
    for (std::int64_t s = j + 1; s < end; ++s)
      Reflect(size, Factor<A>{row(rows.w, s), betas[s]}, moved);
    std::copy_n(row(rows.w, j), padded(size), product);
    for (std::int64_t s = j - 1; s >= begin; --s)
      Reflect(size, Factor<A>{row(rows.w, s), betas[s]}, product);
    ScaleRow(-betas[j], padded(size), product);
  }
}

template <typename A>
void FindHouseholderRows(internal::TypedProblem<A>& problem) {
  if (!problem.householder.w.data()) return;
  const std::int64_t heads = problem.batch * problem.key_heads;
  const std::int64_t blocks = (problem.keys + householder_block - 1) / householder_block;
  problem.householder_rows.emplace(heads * problem.keys, row_stride(problem.size));
  parallel_for(heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t head = n / blocks, first = n % blocks * householder_block;
      FindBlock(problem, head / problem.key_heads, head % problem.key_heads, first,
                std::min(first + householder_block, problem.keys));
    }
  });
}

template <typename A>
void PackHouseholder(const internal::TypedProblem<A>& problem, const Tile& tile,
                     const HouseholderScratch<A>& at) {
  const auto of = FactorsOfTile(problem, tile);
  // Whole vectors of rows: those past the keys are never met. Rows past S are not read.
  const std::int64_t whole = tile.keys / 16 * 16;
  const auto pack = [&](const A* rows, A* panels) {
    MakePanels(rows + tile.key * of.stride, whole, problem.size, panels);
  };
  pack(of.moved, at.key_panels), pack(of.w, at.w_panels);
  if (at.product_panels) pack(of.product, at.product_panels);
}

template <typename A>
bool MakeHouseholderScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                           const SeenColumns& columns, A* q, A* bias_scratch,
                           const HouseholderScratch<A>& at, A* scores, A* slope) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const auto of = FactorsOfTile(problem, tile);
  std::int64_t begin = tile.keys;
  for (std::int64_t row = 0; row < tile.rows(); row += block_rows)
    if (const Columns& seen = columns[row / block_rows]; seen.begin < seen.end)
      begin = std::min(begin, seen.begin);
  const auto keep = [&](const A* rows, std::int64_t count, std::int64_t u, std::int64_t row) {
    if (at.met) std::copy_n(rows, count * stride, at.met + (u * tile_rows + row) * stride);
  };
  ForParts(problem, tile, [&](const Tile& part, std::int64_t row, std::int64_t earlier) {
    A *rows = q + row * stride, *to = scores + row * tile_keys;
    if (earlier < blocks_of_tile) {
      keep(rows, part.queries, earlier, row);
      for (std::int64_t r = 0; r < part.queries; ++r)
        ForOwnBlock(problem, part, r, [&](std::int64_t s, bool moves) HWY_ATTR {
          A* x = rows + r * stride;
          to[r * tile_keys + s] = DotRows<A>(size, of.keys + (part.key + s) * stride, x);
          if (moves) Reflect(size, of[part.key + s], x);
        });
    }
    for (std::int64_t u = earlier - 1; u >= begin / householder_block; --u) {
      keep(rows, part.queries, u, row);
      SeenColumns block;
      std::fill(block, block + std::size(block),
                Columns{std::max(begin, u * householder_block), (u + 1) * householder_block});
      MultiplyPanels<A>(part, block, size, rows, at.key_panels, nullptr, to);
      if (!Moves(problem, part, u)) continue;
      A* along = at.along + row * tile_keys;
      MeetFactors<A>(problem, part, u, rows, at.w_panels, along);
      AddBlock(part, u, 0, size, along, of.product, rows);
    }
  });
  return FinishScores(problem, tile, columns, bias_scratch, scores, slope) || tile.keys % 16;
}

// Moves the packed queries of a tile past its keys, without scores.
template <typename A>
void MovePast(const internal::TypedProblem<A>& problem, const Tile& tile, A* q,
              const HouseholderScratch<A>& at) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const auto of = FactorsOfTile(problem, tile);
  ForParts(problem, tile, [&](const Tile& part, std::int64_t row, std::int64_t earlier) {
    A* rows = q + row * stride;
    if (earlier < blocks_of_tile)
      for (std::int64_t r = 0; r < part.queries; ++r)
        ForOwnBlock(problem, part, r, [&](std::int64_t s, bool moves) HWY_ATTR {
          if (moves) Reflect(size, of[part.key + s], rows + r * stride);
        });
    for (std::int64_t u = earlier - 1; u >= 0 && Moves(problem, part, u); --u) {
      A* along = at.along + row * tile_keys;
      MeetFactors<A>(problem, part, u, rows, at.w_panels, along);
      AddBlock(part, u, 0, size, along, of.product, rows);
    }
  });
}

template <typename A>
void KeepQueries(const internal::TypedProblem<A>& problem, const Tile& piece,
                 std::int64_t begin, A* q, const HouseholderScratch<A>& at) {
  const std::int64_t stride = row_stride(problem.size);
  const std::int64_t end =
      visible_keys(problem, piece.batch, piece.query + piece.queries - 1).end;
  for (std::int64_t key = (end - 1) / tile_keys * tile_keys; key >= begin; key -= tile_keys) {
    Tile tile{piece.batch, piece.head, 1, 0, 0, key, std::min(tile_keys, end - key)};
    PackHouseholder(problem, tile, at);
    for (std::int64_t g = 0; g < piece.heads; ++g)
      for (std::int64_t i = 0; i < piece.queries; i += tile.queries) {
        tile.head = piece.head + g, tile.query = piece.query + i;
        tile.queries = RowsOfTile(problem, tile.query, std::min(tile_rows, piece.queries - i));
        if (tile.query + problem.mask.offset < key) continue;
        const std::int64_t first = g * piece.queries + i;
        std::copy_n(q + first * stride, tile.queries * stride,
                    at.kept + ((key - begin) / tile_keys * at.rows + first) * stride);
        MovePast(problem, tile, q + first * stride, at);
      }
  }
}

template <typename A>
void RestoreQueries(const AttentionProblem& problem, const Tile& tile, std::int64_t begin,
                    std::int64_t first, A* q, const HouseholderScratch<A>& at) {
  const std::int64_t stride = row_stride(problem.size);
  std::copy_n(at.kept + ((tile.key - begin) / tile_keys * at.rows + first) * stride,
              tile.queries * stride, q + first * stride);
}

#define GNOMON_HOUSEHOLDER(A)                                                                \
  template void FindHouseholderRows(internal::TypedProblem<A>&);                             \
  template void PackHouseholder(const internal::TypedProblem<A>&, const Tile&,               \
                                const HouseholderScratch<A>&);                               \
  template bool MakeHouseholderScores(const internal::TypedProblem<A>&, const Tile&,         \
                                      const SeenColumns&, A*, A*,                            \
                                      const HouseholderScratch<A>&, A*, A*);                 \
  template void KeepQueries(const internal::TypedProblem<A>&, const Tile&, std::int64_t, A*, \
                            const HouseholderScratch<A>&);                                   \
  template void RestoreQueries(const AttentionProblem&, const Tile&, std::int64_t,           \
                               std::int64_t, A*, const HouseholderScratch<A>&);
GNOMON_HOUSEHOLDER(float)
GNOMON_HOUSEHOLDER(double)
#undef GNOMON_HOUSEHOLDER

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
