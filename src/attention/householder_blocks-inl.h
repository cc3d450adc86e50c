// Householder factors applied to rows and to blocks of rows.
#if defined(GNOMON_ATTENTION_HOUSEHOLDER_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_HOUSEHOLDER_BLOCKS_INL_H_
#undef GNOMON_ATTENTION_HOUSEHOLDER_BLOCKS_INL_H_
#else
#define GNOMON_ATTENTION_HOUSEHOLDER_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "src/attention/householder-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::HouseholderRows;
using internal::Numbers;

template <typename A>
HWY_INLINE A DotRows(std::int64_t size, const A* HWY_RESTRICT x, const A* HWY_RESTRICT y) {
  const hn::ScalableTag<A> tag;
  auto sum = hn::Zero(tag);
  for (std::int64_t i = 0; i < padded(size); i += static_cast<std::int64_t>(hn::Lanes(tag)))
    sum = hn::MulAdd(hn::Load(tag, x + i), hn::Load(tag, y + i), sum);
  return SumLanes(tag, sum);
}

// y += factor x.
template <typename A>
HWY_INLINE void AddRow(std::int64_t size, A factor, const A* HWY_RESTRICT x,
                       A* HWY_RESTRICT y) {
  const hn::ScalableTag<A> tag;
  const auto by = hn::Set(tag, factor);
  for (std::int64_t i = 0; i < padded(size); i += static_cast<std::int64_t>(hn::Lanes(tag)))
    hn::Store(hn::MulAdd(by, hn::Load(tag, x + i), hn::Load(tag, y + i)), tag, y + i);
}

// One factor: its direction and strength, and their gradients.
template <typename A>
struct Factor {
  const A* w;
  A beta;
  A *w_grad = nullptr, *beta_grad = nullptr;
};

// Applies a factor to x: x -= beta (w . x) w.
template <typename A>
HWY_INLINE void Reflect(std::int64_t size, const Factor<A>& h, A* HWY_RESTRICT x) {
  AddRow(size, -h.beta * DotRows(size, h.w, x), h.w, x);
}

// Replaces the gradient of the result by that of x, and adds those of the factor.
template <typename A>
HWY_INLINE void ReflectBackward(std::int64_t size, const Factor<A>& h, const A* x, A* grad) {
  const A of_x = DotRows(size, h.w, x), of_grad = DotRows<A>(size, h.w, grad);
  *h.beta_grad -= of_x * of_grad;
  AddRow<A>(size, -h.beta * of_x, grad, h.w_grad);
  AddRow(size, -h.beta * of_grad, x, h.w_grad);
  AddRow(size, -h.beta * of_grad, h.w, grad);
}

// The factors of one key head.
template <typename A>
struct FactorsOfHead {
  const A *keys, *moved, *w, *product, *betas;
  HouseholderSums<A> sums;
  std::int64_t stride;

  FactorsOfHead(const internal::TypedProblem<A>& problem, std::int64_t b, std::int64_t key_head,
                const HouseholderSums<A>& of)
      : sums(of), stride(row_stride(problem.size)) {
    const HouseholderRows<A>& rows = *problem.householder_rows;
    keys = HouseholderRow(problem, rows.keys, b, key_head, 0);
    moved = HouseholderRow(problem, rows.moved, b, key_head, 0);
    w = HouseholderRow(problem, rows.w, b, key_head, 0);
    product = HouseholderRow(problem, rows.product, b, key_head, 0);
    betas = rows.betas.data() + (b * problem.key_heads + key_head) * problem.keys;
  }
  Factor<A> operator[](std::int64_t row) const {
    return {w + row * stride, betas[row], sums.w ? sums.w + row * stride : nullptr,
            sums.betas ? sums.betas + row : nullptr};
  }
};

template <typename A>
FactorsOfHead<A> FactorsOfTile(const internal::TypedProblem<A>& problem, const Tile& tile,
                               const HouseholderSums<A>* sums = nullptr) {
  internal::Carve<A> none;
  return {problem, tile.batch, tile.head / problem.group(),
          sums ? *sums : HouseholderSums<A>(none, problem)};
}

inline bool IsLaterTile(const AttentionProblem& problem, const Tile& tile) {
  return (tile.query + problem.mask.offset) / tile_keys > tile.key / tile_keys;
}

// Calls body(rows of one block, or all rows if the tile is later than its keys; index of the
// first row; number of the tile's blocks of keys that are earlier than the rows).
template <typename Body>
HWY_INLINE void ForParts(const AttentionProblem& problem, const Tile& tile, const Body& body) {
  if (IsLaterTile(problem, tile)) return body(tile, std::int64_t{0}, blocks_of_tile);
  for (std::int64_t r = 0, count; r < tile.queries; r += count) {
    const std::int64_t own = tile.query + r + problem.mask.offset - tile.key;
    count = std::min(householder_block - own % householder_block, tile.queries - r);
    Tile part = tile;
    part.query += r, part.queries = count;
    body(part, r, own / householder_block);
  }
}

inline std::int64_t FirstSeen(const AttentionProblem& problem, const Tile& tile,
                              std::int64_t row) {
  return problem.householder
      .first_seen[static_cast<std::size_t>(tile.batch * problem.queries + tile.query + row)];
}

// Whether a row of a tile sees a key before block u, so that it moves past the block.
inline bool Moves(const AttentionProblem& problem, const Tile& part, std::int64_t u) {
  for (std::int64_t r = 0; r < part.queries; ++r)
    if (FirstSeen(problem, part, r) < part.key + u * householder_block) return true;
  return false;
}

// Products of rows with the panels of block u, 0 for rows that do not move past it.
template <typename A>
void MeetFactors(const AttentionProblem& problem, const Tile& part, std::int64_t u,
                 const A* rows, const A* panels, A* to) {
  const std::int64_t begin = u * householder_block;
  SeenColumns columns;
  std::fill(columns, columns + std::size(columns), Columns{begin, begin + householder_block});
  MultiplyPanels<A>(part, columns, problem.size, rows, panels, nullptr, to);
  for (std::int64_t r = 0; r < part.queries; ++r)
    if (FirstSeen(problem, part, r) >= part.key + begin)
      std::fill_n(to + r * tile_keys + begin, householder_block, A(0));
}

// out += weights of columns [begin, end of block u) times rows of keys.
template <typename A>
void AddBlock(const Tile& part, std::int64_t u, std::int64_t begin, std::int64_t size,
              const A* weights, const A* rows, A* out) {
  SeenColumns columns;
  const Columns block{std::max(begin, u * householder_block), (u + 1) * householder_block};
  std::fill(columns, columns + std::size(columns), block);
  const A* of_tile = rows + part.key * row_stride(size);
  const Factors factors =
      FactorsOf(of_tile + block.begin * row_stride(size), block.end - block.begin, size);
  MultiplyWeights(part, columns, size, weights, of_tile, factors, out);
}

// Calls step(key of the tile, whether the row moves past it) for the keys of a row's own block
// that it sees, from its own key leftwards.
template <typename Step>
HWY_INLINE void ForOwnBlock(const AttentionProblem& problem, const Tile& part, std::int64_t r,
                            const Step& step) {
  const std::int64_t own = part.query + r + problem.mask.offset - part.key;
  const std::int64_t start = own / householder_block * householder_block;
  const std::int64_t first = FirstSeen(problem, part, r) - part.key;
  for (std::int64_t s = own; s >= std::max(start, first); --s) step(s, s > first);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
