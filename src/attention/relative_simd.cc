// Relative vectors in a tile.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/relative_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/relative-inl.h"
#include "src/attention/used_vectors-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Computes c [rows, columns] = a [rows, depth] b, in sums of at most part_products products.
template <typename A>
void MultiplyDeep(Product<A> p, std::int64_t depth, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t l = 0; l < depth; l += part_products) {
    p.depth = std::min(part_products, depth - l);
    if (l)
      Multiply<Left::by_row, Into::add>(p, rows, columns);
    else
      Multiply<Left::by_row, Into::store>(p, rows, columns);
    p.a += part_products, p.b += part_products * p.b_row;
  }
}

template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> LoadIndices(D d, const std::int32_t* from) {
  const hn::RebindToSigned<D> wide;
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const hn::Rebind<std::int32_t, D> narrow;
    return hn::PromoteTo(wide, hn::LoadU(narrow, from));
  } else {
    (void)d;
    return hn::LoadU(wide, from);
  }
}

// Returns the visible columns within the panel that starts at column `base`.
template <typename A>
Columns InPanel(const Columns& seen, std::int64_t base) {
  return {std::max(seen.begin, base), std::min(seen.end, base + Panel<A>())};
}

// rows[i][j] += products[i][vector of (i, j)].
template <typename A>
void SpreadByRow(const Tile& tile, const SeenColumns& columns, const UsedVectors& met,
                 const A* HWY_RESTRICT products, std::int64_t stride, A* HWY_RESTRICT rows) {
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns& seen = columns[i / block_rows];
    const std::int32_t* HWY_RESTRICT at = met.of_query(i);
    const A* HWY_RESTRICT from = products + i * stride;
    A* HWY_RESTRICT to = rows + i * tile_keys;
    const auto one = hn::Set(d, from[at[0]]);
    const A* const run = from + at[0];
    for (std::int64_t j = seen.begin; j < seen.end; j += lanes) {
      const auto value = met.way == UsedVectors::Step::one ? one
                         : met.way == UsedVectors::Step::run
                             ? hn::LoadU(d, run + j)
                             : hn::GatherIndex(d, from, LoadIndices(d, at + j));
      hn::Store(hn::Add(hn::Load(d, to + j), value), d, to + j);
    }
  }
}

// Returns the factors of products with the vectors of a table. The vector of a distance that no
// query sees has a factor of 0.
template <typename A>
Factors FactorsOf(const RelativeTable<A>& table) {
  return table.finite() ? Factors::all : Factors::nonzero;
}

// Adds the values of columns [begin, end) of a row, multiples of the vector length, to the sums
// of their vectors: sums[of_column[j]] += row[j]. Neighbours with one vector are added lane by
// lane first.
template <typename A>
void CollectAnyRow(const std::int32_t* HWY_RESTRICT of_column, const A* HWY_RESTRICT row,
                   const Columns& columns, A* HWY_RESTRICT sums) {
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);  // sum of the rows of vector `own`
  std::int32_t own = -1;
  const auto add_sum = [&]() HWY_ATTR {
    if (own >= 0) sums[own] += SumLanes(d, sum);
    own = -1, sum = hn::Zero(d);
  };
  for (std::int64_t j = columns.begin; j < columns.end; j += lanes) {
    const std::int32_t* HWY_RESTRICT at = of_column + j;
    const auto values = hn::Load(d, row + j);
    for (std::int64_t l = 0, next; l < lanes; l = next) {
      for (next = l + 1; next < lanes && at[next] == at[l]; ++next) continue;
      if (own != at[l]) add_sum();
      if (own < 0 && next == l + 1 && next < lanes) {
        sums[at[l]] += row[j + l];
        continue;
      }
      own = at[l];
      const auto others = hn::FirstN(d, static_cast<std::size_t>(l));
      const auto these = hn::FirstN(d, static_cast<std::size_t>(next));
      sum = hn::Add(sum, hn::IfThenZeroElse(others, hn::IfThenElseZero(these, values)));
    }
  }
  add_sum();
}

// sums[i][vector of (i, j)] += rows[i][j]. Columns of rows past the keys are 0. The order of
// the additions depends on the indices of the row alone, not on met.way, which depends on the
// other rows of the tile.
template <typename A>
void CollectByRow(const Tile& tile, const SeenColumns& columns, const UsedVectors& met,
                  const A* HWY_RESTRICT rows, A* HWY_RESTRICT sums, std::int64_t stride) {
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(sums, tile.queries * stride, A(0));
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns& seen = columns[i / block_rows];
    const std::int32_t* HWY_RESTRICT at = met.of_query(i);
    const A* HWY_RESTRICT from = rows + i * tile_keys;
    A* HWY_RESTRICT to = sums + i * stride;
    if (met.way == UsedVectors::Step::any) {
      CollectAnyRow(at, from, seen, to);
      continue;
    }
    auto sum = hn::Zero(d);
    for (std::int64_t j = seen.begin; j < seen.end; j += lanes) {
      const auto value = hn::Load(d, from + j);
      A* place = to + at[0] + j;
      if (met.way == UsedVectors::Step::run)
        hn::StoreU(hn::Add(hn::LoadU(d, place), value), d, place);
      else
        sum = hn::Add(sum, value);
    }
    if (met.way == UsedVectors::Step::one) to[at[0]] += SumLanes(d, sum);
  }
}

// rows[i][base + j] += products[vector of (i, j)][j], with products [count, Panel] of the keys
// of the panel that starts at column `base`.
template <typename A>
void SpreadByKey(const Tile& part, const SeenColumns& columns, const UsedVectors& met,
                 const A* HWY_RESTRICT products, std::int64_t base, A* HWY_RESTRICT rows) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> signed_d;
  using Index = hn::TFromD<decltype(signed_d)>;
  constexpr int bits = static_cast<int>(hwy::CeilLog2(static_cast<std::uint64_t>(Panel<A>())));
  static_assert(Panel<A>() == 1 << bits);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < part.queries; ++i) {
    const Columns seen = InPanel<A>(columns[i / block_rows], base);
    const std::int32_t* HWY_RESTRICT at = met.of_query(i);
    const A* const one = products + at[0] * Panel<A>();
    for (std::int64_t j = seen.begin - base; j < seen.end - base; j += lanes) {
      A* to = rows + i * tile_keys + base + j;
      const auto index = hn::Add(hn::ShiftLeft<bits>(LoadIndices(d, at + j)),
                                 hn::Iota(signed_d, static_cast<Index>(j)));
      const auto value = met.way == UsedVectors::Step::one
                             ? hn::Load(d, one + j)
                             : hn::GatherIndex(d, products, index);
      hn::Store(hn::Add(hn::Load(d, to), value), d, to);
    }
  }
}

template <typename A>
void CollectByKey(const Tile& part, const SeenColumns& columns, const UsedVectors& met,
                  const A* HWY_RESTRICT rows, std::int64_t base, A* HWY_RESTRICT sums) {
  std::fill_n(sums, met.count * Panel<A>(), A(0));
  for (std::int64_t i = 0; i < part.queries; ++i) {
    const Columns seen = InPanel<A>(columns[i / block_rows], base);
    const std::int32_t* HWY_RESTRICT at = met.of_query(i);
    const A* HWY_RESTRICT from = rows + i * tile_keys + base;
    for (std::int64_t j = seen.begin - base; j < std::min(seen.end - base, part.keys); ++j)
      sums[at[j] * Panel<A>() + j] += from[j];
  }
}

// Calls body(tile of the panel, its first column) for each panel of keys. A panel uses fewer
// vectors than the tile.
template <typename A, typename Body>
void ForPanels(const Tile& tile, const Body& body) {
  for (std::int64_t base = 0; base < tile.keys; base += Panel<A>()) {
    Tile part = tile;
    part.key += base;
    part.keys = std::min(Panel<A>(), tile.keys - base);
    body(part, base);
  }
}

// scratch.product [queries, stride] = the products of rows a with all used vectors. a: packed
// rows of the table's size. Products with vectors of the margins are 0, for any row.
template <typename A>
void MultiplyByVectors(const RelativeTable<A>& table, const Tile& tile, const UsedVectors& met,
                       const Columns& seen, const A* a, std::int64_t stride,
                       const RelativeScratch<A>& scratch) {
  Product<A> product;
  product.a = a, product.a_stride = row_stride(table.size());
  product.b = table.columns(tile.head) + met.begin + seen.begin;
  product.b_row = row_stride(table.vectors());
  product.c = scratch.product + seen.begin, product.c_row = stride;
  MultiplyDeep(product, table.size(), tile.queries, padded(seen.end - seen.begin));
  for (std::int64_t i = 0; i < tile.queries; ++i) {  // readers may read past the end
    A* row = scratch.product + i * stride;
    std::fill_n(row, seen.begin, A(0));
    std::fill(row + seen.end, row + padded(met.count) + 16, A(0));
  }
}

// rows [queries, tile_keys] += a_i . vector of (i, j), for each table of `tables`.
template <typename A>
void AddQueryTerms(const TypedProblem<A>& problem, const std::vector<RelativeTable<A>>& tables,
                   const Tile& tile, const SeenColumns& columns, const A* a,
                   const RelativeScratch<A>& scratch) {
  for (const RelativeTable<A>& table : tables) {
    const UsedVectors met = FindVectors(problem, table, tile, scratch);
    const Columns seen = OutsideMargins(table, met);
    if (seen.begin == seen.end) continue;
    const std::int64_t stride = MostVectors(problem, table, tile_keys);
    MultiplyByVectors(table, tile, met, seen, a, stride, scratch);
    SpreadByRow(tile, columns, met, scratch.product, stride, scratch.rows);
  }
}

// rows [queries, tile_keys] += k_j . vector of (i, j).
template <typename A>
void AddKeyTerms(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                 const A* key_panels, const RelativeScratch<A>& scratch) {
  for (const RelativeTable<A>& table : problem.relative.queries)
    ForPanels<A>(tile, [&](const Tile& part, std::int64_t base) {
      const UsedVectors met = FindVectors(problem, table, part, scratch);
      Product<A> product;
      product.a_stride = row_stride(table.size());
      product.a = table.rows(tile.head) + met.begin * product.a_stride;
      product.b = key_panels + base * table.size(), product.b_row = Panel<A>();
      product.c = scratch.product, product.c_row = Panel<A>();
      MultiplyDeep(product, table.size(), met.count, Panel<A>());
      SpreadByKey(part, columns, met, scratch.product, base, scratch.rows);
    });
}

// AddRelative for a form with nothing but one projected table: the products are the terms,
// without a copy, if the vectors of a row are consecutive. Returns nothing if they are not.
template <typename A>
std::optional<bool> ProjectTerms(const TypedProblem<A>& problem, const Tile& tile, const A* r,
                                 const RelativeScratch<A>& scratch, const A** given) {
  const RelativeTable<A>& table = problem.relative.projected[0];
  const UsedVectors met = FindVectors(problem, table, tile, scratch);
  const Columns seen = OutsideMargins(table, met);
  if (seen.begin == seen.end) return false;
  if (met.way != UsedVectors::Step::run) return std::nullopt;
  const std::int64_t stride = MostVectors(problem, table, tile_keys);
  MultiplyByVectors(table, tile, met, seen, r, stride, scratch);
  for (std::int64_t i = 0; i < tile.queries; ++i)
    given[i] = scratch.product + i * stride + met.of_query(i)[0];
  return true;
}

template <typename A>
bool AddRelative(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                 const QueryRows<A>& queries, const A* key_panels, bool biased,
                 const RelativeScratch<A>& scratch, const A** given) {
  const auto& relative = problem.relative;
  if (!biased && relative.keys.empty() && relative.queries.empty()) {
    if (relative.projected.empty()) return false;
    if (relative.projected.size() == 1)
      if (const auto terms = ProjectTerms(problem, tile, queries.relative, scratch, given))
        return *terms;
  }
  const hn::ScalableTag<A> d;
  for (std::int64_t r = 0; r < tile.rows(); ++r) {
    const Columns& seen = columns[r / block_rows];
    const A* const from = biased ? given[r] : nullptr;
    A* HWY_RESTRICT to = scratch.rows + r * tile_keys;
    given[r] = to;
    const auto gate = hn::Set(
        d, problem.gated() ? static_cast<A>(problem.gate(tile.batch, tile.head + r % tile.heads,
                                                         tile.query + r / tile.heads))
                           : A(1));
    for (std::int64_t j = seen.begin; j < seen.end;
         j += static_cast<std::int64_t>(hn::Lanes(d)))
      hn::Store(from ? hn::Mul(gate, hn::LoadU(d, from + j)) : hn::Zero(d), d, to + j);
  }
  AddQueryTerms(problem, relative.keys, tile, columns, queries.q, scratch);
  AddQueryTerms(problem, relative.projected, tile, columns, queries.relative, scratch);
  AddKeyTerms(problem, tile, columns, key_panels, scratch);
  return true;
}

template <typename A>
bool ComputeValueTerms(const TypedProblem<A>& problem, const Tile& tile,
                       const SeenColumns& columns, const A* out_grad,
                       const RelativeScratch<A>& scratch, const A** given) {
  if (problem.relative.values.empty()) return false;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns& seen = columns[i / block_rows];
    given[i] = scratch.rows + i * tile_keys;
    std::fill(scratch.rows + i * tile_keys + seen.begin,
              scratch.rows + i * tile_keys + seen.end, A(0));
  }
  AddQueryTerms(problem, problem.relative.values, tile, columns, out_grad, scratch);
  return true;
}

template <typename A>
void AddWeightedVectors(const TypedProblem<A>& problem, const Tile& tile,
                        const SeenColumns& columns, const A* weights,
                        const RelativeScratch<A>& scratch, A* out) {
  for (const RelativeTable<A>& table : problem.relative.values) {
    const UsedVectors met = FindVectors(problem, table, tile, scratch);
    const std::int64_t stride = MostVectors(problem, table, tile_keys);
    CollectByRow(tile, columns, met, weights, scratch.product, stride);
    Product<A> product;
    product.a = scratch.product, product.a_stride = stride;
    product.depth = met.count, product.factors = FactorsOf(table);
    product.b_row = row_stride(table.size());
    product.b = table.rows(tile.head) + met.begin * product.b_row;
    product.c = out, product.c_row = product.b_row;
    Multiply<Left::by_row, Into::add>(product, tile.queries, padded(table.size()));
  }
}

template <typename A>
void RowTermsBackward(const TypedProblem<A>& problem, const RelativeTable<A>& table,
                      const Tile& tile, const SeenColumns& columns, const A* grad,
                      const RelativeScratch<A>& scratch, const A* a, Factors factors, A* a_sum,
                      A* vector_sums) {
  const UsedVectors met = FindVectors(problem, table, tile, scratch);
  const Columns seen = OutsideMargins(table, met);
  if (seen.begin == seen.end) return;
  const std::int64_t first = met.begin + seen.begin, count = seen.end - seen.begin;
  const std::int64_t stride = MostVectors(problem, table, tile_keys);
  const std::int64_t row = row_stride(table.size());
  CollectByRow(tile, columns, met, grad, scratch.product, stride);
  Product<A> product;
  product.a = scratch.product + seen.begin, product.a_stride = stride;
  if (a_sum) {
    product.depth = count, product.factors = FactorsOf(table);
    product.b = table.rows(tile.head) + first * row, product.b_row = row;
    product.c = a_sum, product.c_row = row;
    Multiply<Left::by_row, Into::add>(product, tile.queries, padded(table.size()));
  }
  if (vector_sums) {
    product.depth = tile.queries, product.factors = factors;
    product.b = a, product.b_row = row;
    product.c = vector_sums + first * row, product.c_row = row;
    Multiply<Left::by_column, Into::add>(product, count, padded(table.size()));
  }
}

template <typename A>
void KeyTermsBackward(const TypedProblem<A>& problem, const RelativeTable<A>& table,
                      const Tile& tile, const SeenColumns& columns, const A* grad,
                      const RelativeScratch<A>& scratch, const A* keys, Factors factors,
                      A* key_sums, A* vector_sums) {
  const std::int64_t row = row_stride(table.size());
  ForPanels<A>(tile, [&](const Tile& part, std::int64_t base) {
    const UsedVectors met = FindVectors(problem, table, part, scratch);
    CollectByKey(part, columns, met, grad, base, scratch.product);
    Product<A> product;
    product.a = scratch.product, product.a_stride = Panel<A>();
    product.depth = met.count, product.factors = FactorsOf(table);
    product.b = table.rows(tile.head) + met.begin * row, product.b_row = row;
    product.c = key_sums + base * row, product.c_row = row;
    Multiply<Left::by_column, Into::add>(product, part.keys, padded(table.size()));
    if (!vector_sums) return;
    product.depth = part.keys, product.factors = factors;
    product.b = keys + base * row;
    product.c = vector_sums + met.begin * row;
    Multiply<Left::by_row, Into::add>(product, met.count, padded(table.size()));
  });
}

#define GNOMON_RELATIVE(A)                                                                     \
  template bool AddRelative(const TypedProblem<A>&, const Tile&, const SeenColumns&,           \
                            const QueryRows<A>&, const A*, bool, const RelativeScratch<A>&,    \
                            const A**);                                                        \
  template bool ComputeValueTerms(const TypedProblem<A>&, const Tile&, const SeenColumns&,     \
                                  const A*, const RelativeScratch<A>&, const A**);             \
  template void AddWeightedVectors(const TypedProblem<A>&, const Tile&, const SeenColumns&,    \
                                   const A*, const RelativeScratch<A>&, A*);                   \
  template void RowTermsBackward(const TypedProblem<A>&, const RelativeTable<A>&, const Tile&, \
                                 const SeenColumns&, const A*, const RelativeScratch<A>&,      \
                                 const A*, Factors, A*, A*);                                   \
  template void KeyTermsBackward(const TypedProblem<A>&, const RelativeTable<A>&, const Tile&, \
                                 const SeenColumns&, const A*, const RelativeScratch<A>&,      \
                                 const A*, Factors, A*, A*);
GNOMON_RELATIVE(float)
GNOMON_RELATIVE(double)
#undef GNOMON_RELATIVE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
