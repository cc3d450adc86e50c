// The scores of one tile.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/scores_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// The columns of the keys that query `query` of the tile sees.
inline KeyRange SeenByQuery(const AttentionProblem& problem, const Tile& tile,
                            std::int64_t query) {
  const KeyRange range = visible_keys(problem, tile.batch, tile.query + query);
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin - tile.key, 0, tile.keys);
  return {begin, std::clamp<std::int64_t>(range.end - tile.key, begin, tile.keys)};
}

// Whether every query of the tile sees every key of it, without regard to sequences.
inline bool SeesAll(const AttentionProblem& problem, const Tile& tile) {
  return visible_keys(problem, tile.batch, tile.query + tile.queries - 1).begin <= tile.key &&
         visible_keys(problem, tile.batch, tile.query).end >= tile.key + tile.keys;
}

template <typename A>
void FindColumns(const AttentionProblem& problem, const Tile& tile, SeenColumns& columns) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  if (SeesAll(problem, tile)) {
    std::fill(columns, columns + std::size(columns),
              Columns{0, (tile.keys + lanes - 1) / lanes * lanes, tile.keys});
    return;
  }
  for (std::int64_t row = 0; row < tile.rows(); row += block_rows) {
    const std::int64_t last = std::min(row + block_rows, tile.rows()) - 1;
    Columns& seen = columns[row / block_rows];
    seen.begin = SeenByQuery(problem, tile, row / tile.heads).begin / lanes * lanes;
    seen.last = SeenByQuery(problem, tile, last / tile.heads).end;
    seen.end = (seen.last + lanes - 1) / lanes * lanes;
    if (seen.end <= seen.begin) seen = {};
  }
}

// Calls body(first row, rows, columns) for groups of rows that have the same columns. ahead:
// what is prefetched between groups, which are then of at most two blocks, or null.
template <typename Body>
HWY_INLINE void ForBlocks(const Tile& tile, const SeenColumns& columns, const NextPiece* ahead,
                          const Body& body) {
  for (std::int64_t row = 0; row < tile.rows();) {
    const Columns& seen = columns[row / block_rows];
    std::int64_t end = row + block_rows;
    const std::int64_t most = ahead ? row + 2 * block_rows : tile.rows();
    while (end < std::min(most, tile.rows()) && columns[end / block_rows] == seen)
      end += block_rows;
    if (seen.begin < seen.end) body(row, std::min(end, tile.rows()) - row, seen);
    row = end;
  }
}

// Calls body(product, rows, vectors) for the blocks of a product of rows a [rows, depth] and
// panels: all but the depth of the product is set. size: multiply-adds for each score.
template <typename A, typename Body>
HWY_INLINE void ForPanels(const Tile& tile, const SeenColumns& columns, std::int64_t size,
                          std::int64_t depth, const A* a, const A* panels,
                          const A* const* given, A* scores, NextPiece* ahead,
                          const Body& body) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  constexpr std::int64_t panel = Panel<A>();
  const std::int64_t stride = row_stride(depth);
  for (std::int64_t base = 0; base < tile.keys; base += panel, panels += panel * depth)
    ForBlocks(tile, columns, ahead,
              [&](std::int64_t row, std::int64_t rows, const Columns& seen) {
                const std::int64_t begin = std::max(seen.begin, base);
                const std::int64_t vectors = (std::min(seen.end, base + panel) - begin) / lanes;
                if (vectors <= 0) return;
                if (ahead) ahead->Advance(rows * vectors * lanes * size);
                Product<A> product;
                product.a = a + row * stride, product.a_stride = stride;
                product.b = panels + (begin - base), product.b_row = panel;
                product.c = scores + row * tile_keys + begin, product.c_row = tile_keys;
                product.given = given ? given + row : nullptr, product.given_at = begin;
                body(product, rows, vectors);
              });
}

template <typename A>
void MultiplyPanels(const Tile& tile, const SeenColumns& columns, std::int64_t size, const A* a,
                    const A* panels, const A* const* given, A* scores, NextPiece* ahead) {
  ForPanels(tile, columns, size, size, a, panels, given, scores, ahead,
            [&](Product<A> product, std::int64_t rows, std::int64_t vectors) {
              // Sums over more than 64 products are computed in parts, to keep the rounding
              // error of long sums below the bound in attention.h.
              for (std::int64_t l = 0; l < size; l += part_products) {
                product.depth = std::min(part_products, size - l);
                if (l)
                  MultiplyRows<Left::by_row, Into::add>(product, rows, vectors);
                else if (given)
                  MultiplyRows<Left::by_row, Into::onto_given>(product, rows, vectors);
                else
                  MultiplyRows<Left::by_row, Into::store>(product, rows, vectors);
                product.a += part_products, product.b += part_products * Panel<A>();
              }
            });
}

template <typename A>
void MultiplyWeights(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                     const A* weights, const A* b, Factors factors, A* out, Into into,
                     NextPiece* ahead) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  const std::int64_t stride = row_stride(values);
  const std::int64_t width = padded(values);
  for (std::int64_t base = 0; base < width; base += Panel<A>())
    ForBlocks(
        tile, columns, ahead, [&](std::int64_t row, std::int64_t rows, const Columns& seen) {
          const std::int64_t count = std::min(Panel<A>(), width - base);
          if (ahead) ahead->Advance(rows * (seen.end - seen.begin) * count);
          Product<A> product;
          product.depth = seen.last - seen.begin, product.factors = factors;
          product.a = weights + row * tile_keys + seen.begin, product.a_stride = tile_keys;
          product.b = b + seen.begin * stride + base, product.b_row = stride;
          product.c = out + row * stride + base, product.c_row = stride;
          if (into == Into::add)
            return MultiplyRows<Left::by_row, Into::add>(product, rows, count / lanes);
          if (factors == Factors::all)
            return MultiplyRows<Left::by_row, Into::onto_zero>(product, rows, count / lanes);
          for (std::int64_t r = 0; r < rows; ++r)
            std::fill_n(product.c + r * stride, count, A(0));
          MultiplyRows<Left::by_row, Into::add>(product, rows, count / lanes);
        });
}

void MultiplyPairPanels(const Tile& tile, const SeenColumns& columns, std::int64_t size,
                        const float* a, const float* panels, float factor, float* scores,
                        const float* const* given, NextPiece* ahead) {
  const std::int64_t depth = pairs_of(size);
  ForPanels(tile, columns, size, depth, a, panels, given, scores, ahead,
            [&](Product<float> product, std::int64_t rows, std::int64_t vectors) {
              product.depth = depth, product.factor = factor;
              if (given)
                MultiplyPairs<Left::by_row, Into::onto_given>(product, rows, vectors);
              else
                MultiplyPairs<Left::by_row, Into::store>(product, rows, vectors);
            });
}

void MultiplyPairWeights(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                         const float* weights, const float* b, Factors factors, float* out,
                         Into into, NextPiece* ahead) {
  constexpr std::int64_t lanes =
      static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const std::int64_t stride = row_stride(values), width = padded(values);
  for (std::int64_t base = 0; base < width; base += Panel<float>())
    ForBlocks(
        tile, columns, ahead, [&](std::int64_t row, std::int64_t rows, const Columns& seen) {
          const std::int64_t count = std::min(Panel<float>(), width - base);
          if (ahead) ahead->Advance(rows * (seen.end - seen.begin) * count);
          Product<float> product;
          product.depth = (seen.last - seen.begin + 1) / 2, product.factors = factors;
          product.a = weights + (row * tile_keys + seen.begin) / 2,
          product.a_stride = tile_keys / 2;
          product.b = b + seen.begin / 2 * stride + base, product.b_row = stride;
          product.c = out + row * stride + base, product.c_row = stride;
          if (into == Into::add)
            return MultiplyPairs<Left::by_row, Into::add>(product, rows, count / lanes);
          if (factors == Factors::all)
            return MultiplyPairs<Left::by_row, Into::onto_zero>(product, rows, count / lanes);
          for (std::int64_t r = 0; r < rows; ++r)
            std::fill_n(product.c + r * stride, count, 0.f);
          MultiplyPairs<Left::by_row, Into::add>(product, rows, count / lanes);
        });
}

// Applies the cap to products, x = 2 s / (cap ln 2) to cap tanh(s / cap) / ln 2, and adds the
// bias. If `slope` is not null, stores the derivative of the capped score, 1 - tanh^2, there.
template <typename A>
void CapScores(const Tile& tile, const SeenColumns& columns, double cap, const A* const* given,
               A* HWY_RESTRICT scores, A* HWY_RESTRICT slope) {
  const hn::ScalableTag<A> tag;
  const auto height = hn::Set(tag, static_cast<A>(cap * log2_of_e));
  const auto one = hn::Set(tag, A(1));
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    const Columns& seen = columns[row / block_rows];
    for (std::int64_t j = seen.begin; j < seen.end;
         j += static_cast<std::int64_t>(hn::Lanes(tag))) {
      A* at = scores + row * tile_keys + j;
      const auto tanh = TanhOfDoubled(tag, hn::Load(tag, at));
      if (slope) hn::Store(hn::NegMulAdd(tanh, tanh, one), tag, slope + row * tile_keys + j);
      const auto capped = hn::Mul(height, tanh);
      hn::Store(given ? hn::Add(capped, hn::LoadU(tag, given[row] + j)) : capped, tag, at);
    }
  }
}

// Writes -infinity for keys that a query does not see, and past the keys. Returns whether a key
// of the tile is hidden.
template <typename A>
bool HideScores(const AttentionProblem& problem, const Tile& tile, const SeenColumns& columns,
                A* HWY_RESTRICT scores) {
  const bool mixed = meeting_of(problem, tile) != Meeting::all;
  const bool hides = mixed || !SeesAll(problem, tile);
  if (!hides && tile.keys == padded(tile.keys)) return false;
  const std::int32_t* of_query = internal::sequences(problem.position.queries, tile.batch);
  const std::int32_t* of_key = internal::sequences(problem.position.keys, tile.batch);
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  const hn::ScalableTag<A> tag;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(tag));
  const auto all_nothing = hn::Set(tag, nothing);
  const auto first_lanes = [&](std::int64_t count) HWY_ATTR {
    return hn::FirstN(tag, static_cast<std::size_t>(count));
  };
  KeyRange seen;
  std::int64_t query = 0, next = 0;  // next: the first row of `query`
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    const Columns& of_block = columns[i / block_rows];
    if (i == next) seen = SeenByQuery(problem, tile, query++), next += tile.heads;
    if (of_block.begin == of_block.end) continue;
    A* HWY_RESTRICT row = scores + i * tile_keys;
    if (seen.begin > of_block.begin) {
      const std::int64_t end = std::min(seen.begin, of_block.end);
      std::int64_t j = of_block.begin;
      for (; j + lanes <= end; j += lanes) hn::Store(all_nothing, tag, row + j);
      if (j < end)
        hn::Store(hn::IfThenElse(first_lanes(end - j), all_nothing, hn::Load(tag, row + j)),
                  tag, row + j);
    }
    if (seen.end < of_block.end) {
      const std::int64_t begin = std::max(seen.end, of_block.begin);
      std::int64_t j = begin / lanes * lanes;
      if (j < begin) {
        hn::Store(hn::IfThenElse(first_lanes(begin - j), hn::Load(tag, row + j), all_nothing),
                  tag, row + j);
        j += lanes;
      }
      for (; j < of_block.end; j += lanes) hn::Store(all_nothing, tag, row + j);
    }
    if (mixed) {
      const std::int32_t own = of_query[tile.query + query - 1];
      for (std::int64_t j = seen.begin; j < seen.end; ++j)
        if (own == Positions::padding || of_key[tile.key + j] != own) row[j] = nothing;
    }
  }
  return hides;
}

// Writes -infinity where the bias is -infinity, because its sum with a product that is NaN or
// infinity is NaN. bias: the rows of FillBias.
template <typename A>
void HideByBias(const Tile& tile, const SeenColumns& columns, const A* const* bias,
                A* HWY_RESTRICT scores) {
  const hn::ScalableTag<A> tag;
  const auto nothing = hn::Set(tag, -std::numeric_limits<A>::infinity());
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    const Columns& seen = columns[row / block_rows];
    for (std::int64_t j = seen.begin; j < seen.end;
         j += static_cast<std::int64_t>(hn::Lanes(tag))) {
      A* at = scores + row * tile_keys + j;
      const auto hidden = hn::Eq(hn::LoadU(tag, bias[row] + j), nothing);
      hn::Store(hn::IfThenElse(hidden, nothing, hn::Load(tag, at)), tag, at);
    }
  }
}

template <typename A>
void AddGiven(const Tile& tile, const SeenColumns& columns, const A* const* given,
              A* HWY_RESTRICT scores) {
  const hn::ScalableTag<A> tag;
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    const Columns& seen = columns[row / block_rows];
    for (std::int64_t j = seen.begin; j < seen.end;
         j += static_cast<std::int64_t>(hn::Lanes(tag))) {
      A* at = scores + row * tile_keys + j;
      hn::Store(hn::Add(hn::Load(tag, at), hn::LoadU(tag, given[row] + j)), tag, at);
    }
  }
}

template <typename A>
bool FinishScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                  const SeenColumns& columns, A* bias_scratch, A* scores, A* slope) {
  const A* rows[tile_rows];
  const TileBias bias = FillBias(problem, tile, bias_scratch, rows);
  const A* const* given = bias == TileBias::none ? nullptr : rows;
  if (problem.softmax.cap)
    CapScores(tile, columns, *problem.softmax.cap, given, scores, slope);
  else if (given)
    AddGiven(tile, columns, given, scores);
  if (bias == TileBias::hiding) HideByBias(tile, columns, given, scores);
  return HideScores(problem, tile, columns, scores) || bias == TileBias::hiding;
}

template <typename A>
bool MakeScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                const SeenColumns& columns, const QueryRows<A>& queries, const A* key_panels,
                const AddedScratch<A>& scratch, A* scores, A* slope, NextPiece* ahead) {
  const A *rows[tile_rows], *of_bias[tile_rows];  // AddRelative replaces `rows`
  const TileBias bias = FillBias(problem, tile, scratch.bias, rows);
  const bool biased = bias != TileBias::none, hides = bias == TileBias::hiding;
  const A* const* given = biased ? rows : nullptr;
  if (hides) std::copy_n(rows, tile.rows(), of_bias);
  if (scratch.relative.rows &&
      AddRelative(problem, tile, columns, queries, key_panels, biased, scratch.relative, rows))
    given = rows;
  MultiplyPanels(tile, columns, problem.size, queries.q, key_panels,
                 problem.softmax.cap ? nullptr : given, scores, ahead);
  if (problem.softmax.cap) CapScores(tile, columns, *problem.softmax.cap, given, scores, slope);
  if (hides) HideByBias<A>(tile, columns, of_bias, scores);
  return HideScores(problem, tile, columns, scores) || hides || tile.keys % 16;
}

bool MakePairScores(const internal::TypedProblem<float>& problem, const Tile& tile,
                    const SeenColumns& columns, const float* q, const float* key_panels,
                    float* bias_scratch, float* scores, float* slope, NextPiece* ahead) {
  const float* rows[tile_rows];
  const TileBias bias = FillBias(problem, tile, bias_scratch, rows);
  const bool hides = bias == TileBias::hiding;
  const float* const* given = bias == TileBias::none ? nullptr : rows;
  MultiplyPairPanels(tile, columns, problem.size, q, key_panels,
                     static_cast<float>(QueryFactor(problem)), scores,
                     problem.softmax.cap ? nullptr : given, ahead);
  if (problem.softmax.cap) CapScores(tile, columns, *problem.softmax.cap, given, scores, slope);
  if (hides) HideByBias(tile, columns, given, scores);
  return HideScores(problem, tile, columns, scores) || hides || tile.keys % 16;
}

#define GNOMON_SCORES(A)                                                                      \
  template void FindColumns<A>(const AttentionProblem&, const Tile&, SeenColumns&);           \
  template void MultiplyPanels(const Tile&, const SeenColumns&, std::int64_t, const A*,       \
                               const A*, const A* const*, A*, NextPiece*);                    \
  template void MultiplyWeights(const Tile&, const SeenColumns&, std::int64_t, const A*,      \
                                const A*, Factors, A*, Into, NextPiece*);                     \
  template bool FinishScores(const internal::TypedProblem<A>&, const Tile&,                   \
                             const SeenColumns&, A*, A*, A*);                                 \
  template bool MakeScores(const internal::TypedProblem<A>&, const Tile&, const SeenColumns&, \
                           const QueryRows<A>&, const A*, const AddedScratch<A>&, A*, A*,     \
                           NextPiece*);
GNOMON_SCORES(float)
GNOMON_SCORES(double)
#undef GNOMON_SCORES

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
