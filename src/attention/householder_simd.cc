// Products of queries and keys through Householder factors.

#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/householder_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/householder-inl.h"

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
  return hn::GetLane(hn::SumOfLanes(tag, sum));
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
  const std::int64_t end = visible_keys(problem, piece.query + piece.queries - 1).end;
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

// sums [householder_block, stride] += weights^T rows, of the columns of block u from `begin`.
template <typename A>
void CollectBlock(const Tile& part, std::int64_t u, std::int64_t begin, std::int64_t size,
                  const A* weights, const A* rows, A* sums) {
  const std::int64_t stride = row_stride(size);
  begin = std::max(begin, u * householder_block);
  Product<A> product;
  product.depth = part.queries, product.factors = FactorsOf(rows, part.queries, size);
  product.a = weights + begin, product.a_stride = tile_keys;
  product.b = rows, product.b_row = stride;
  product.c = sums + (part.key + begin) * stride, product.c_row = stride;
  Multiply<Left::by_column, Into::add>(product, (u + 1) * householder_block - begin,
                                       padded(size));
}

// The gradients of a row within its own block. x: the row before it meets its own key.
template <typename A>
void OwnBlockBackward(const internal::TypedProblem<A>& problem, const Tile& part,
                      std::int64_t r, const FactorsOfHead<A>& of, const A* x,
                      const A* score_grad, A* steps, A* key_sums, A* grad) {
  const std::int64_t size = problem.size, stride = of.stride;
  std::int64_t count = 0, own = 0, last = 0;
  ForOwnBlock(problem, part, r, [&](std::int64_t s, bool moves) HWY_ATTR {
    if (!count) own = s, std::copy_n(x, padded(size), steps);
    last = s;
    A* next = steps + ++count * stride;
    std::copy_n(next - stride, padded(size), next);
    if (moves) Reflect(size, of[part.key + s], next);
  });
  const std::int64_t first = FirstSeen(problem, part, r) - part.key;
  for (std::int64_t s = last; count && s <= own; ++s) {
    const A* met = steps + (own - s) * stride;
    if (s > first) ReflectBackward(size, of[part.key + s], met, grad);
    const A ds = score_grad[s];
    if (ds == A(0)) continue;
    AddRow(size, ds, of.keys + (part.key + s) * stride, grad);
    AddRow(size, ds, met, key_sums + (part.key + s) * stride);
  }
}

template <typename A>
void HouseholderBackward(const internal::TypedProblem<A>& problem, const Tile& tile,
                         const Columns& all, const A* score_grad,
                         const HouseholderScratch<A>& at, const HouseholderSums<A>& sums,
                         A* key_sums, A* q_grad) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const auto of = FactorsOfTile(problem, tile, &sums);
  ForParts(problem, tile, [&](const Tile& part, std::int64_t row, std::int64_t earlier) {
    A* grad = q_grad + row * stride;
    const A* ds = score_grad + row * tile_keys;
    for (std::int64_t u = all.begin / householder_block; u < earlier; ++u) {
      const A* met = at.met + (u * tile_rows + row) * stride;
      if (Moves(problem, part, u)) {
        const A* along = at.along + row * tile_keys;
        A* across = at.across + row * tile_keys;
        MeetFactors<A>(problem, part, u, grad, at.product_panels, across);
        CollectBlock<A>(part, u, 0, size, along, grad, sums.product);
        CollectBlock<A>(part, u, 0, size, across, met, sums.w);
        AddBlock<A>(part, u, 0, size, across, of.w, grad);
      }
      CollectBlock<A>(part, u, all.begin, size, ds, met, sums.moved);
      AddBlock<A>(part, u, all.begin, size, ds, of.moved, grad);
    }
    if (earlier == blocks_of_tile) return;
    for (std::int64_t r = 0; r < part.queries; ++r)
      OwnBlockBackward<A>(problem, part, r, of,
                          at.met + (earlier * tile_rows + row + r) * stride, ds + r * tile_keys,
                          sums.steps, key_sums, grad + r * stride);
  });
}

template <typename A>
bool IsZero(std::int64_t size, const A* row) {
  return std::all_of(row, row + size, [](A one) { return one == A(0); });
}

template <typename A>
void FinishHouseholderSums(const internal::TypedProblem<A>& problem, std::int64_t b,
                           std::int64_t key_head, const HouseholderSums<A>& sums, A* key_sums) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  A* const steps = sums.steps;
  const FactorsOfHead<A> of(problem, b, key_head, sums);
  // Computes the rows at each factor from `from` to `to`, by `step`.
  const auto forward = [&](const A* x, std::int64_t from, std::int64_t to, std::int64_t step) {
    std::copy_n(x, padded(size), steps);
    A* at = steps;
    for (std::int64_t s = from; s != to; s += step, at += stride) {
      std::copy_n(at, padded(size), at + stride);
      Reflect(size, of[s], at + stride);
    }
    return at;
  };
  const auto backward = [&](A* grad, std::int64_t from, std::int64_t to, std::int64_t step) {
    const A* at = steps + (to - from) * step * stride;
    for (std::int64_t s = to; s != from;) {
      s -= step, at -= stride;
      ReflectBackward(size, of[s], at, grad);
    }
  };
  // A row without a gradient adds nothing: factors of other sequences may be NaN.
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    const std::int64_t begin = j / householder_block * householder_block;
    const std::int64_t end = std::min(begin + householder_block, problem.keys);
    if (A* grad = sums.moved + j * stride; !IsZero(size, grad)) {
      forward(of.keys + j * stride, j + 1, end, 1);
      backward(grad, j + 1, end, 1);
      AddRow(size, A(1), grad, key_sums + j * stride);
    }
    if (A* grad = sums.product + j * stride; !IsZero(size, grad)) {
      const A* moved = forward(of.w + j * stride, j - 1, begin - 1, -1);
      sums.betas[j] -= DotRows<A>(size, grad, moved);
      ScaleRow(-of.betas[j], padded(size), grad);
      backward(grad, j - 1, begin - 1, -1);
      AddRow(size, A(1), grad, sums.w + j * stride);
    }
  }
}

template <typename A>
void StoreHouseholderGradient(const BackwardProblem<A>& problem, std::int64_t b,
                              std::int64_t key_head, A factor, const HouseholderSums<A>& sums) {
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    if (problem.householder_grad.data())
      for (std::int64_t n = 0; n < problem.size; ++n)
        problem.householder_grad(b, j, key_head, n) =
            static_cast<float>(factor * sums.w[j * row_stride(problem.size) + n]);
    if (problem.betas_grad.data())
      problem.betas_grad(b, key_head, j) = static_cast<float>(factor * sums.betas[j]);
  }
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
                               std::int64_t, A*, const HouseholderScratch<A>&);              \
  template void HouseholderBackward(const internal::TypedProblem<A>&, const Tile&,           \
                                    const Columns&, const A*, const HouseholderScratch<A>&,  \
                                    const HouseholderSums<A>&, A*, A*);                      \
  template void FinishHouseholderSums(const internal::TypedProblem<A>&, std::int64_t,        \
                                      std::int64_t, const HouseholderSums<A>&, A*);          \
  template void StoreHouseholderGradient(const BackwardProblem<A>&, std::int64_t,            \
                                         std::int64_t, A, const HouseholderSums<A>&);
GNOMON_HOUSEHOLDER(float)
GNOMON_HOUSEHOLDER(double)
#undef GNOMON_HOUSEHOLDER

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
