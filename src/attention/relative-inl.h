// Relative vectors in a tile: products of its rows with the vectors of the distances that
// occur, spread over the keys, and the backward pass. A tile has one head. "The vector of (i,
// j)" is the vector of the distance between query i and key j.
#if defined(GNOMON_ATTENTION_RELATIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_RELATIVE_INL_H_
#undef GNOMON_ATTENTION_RELATIVE_INL_H_
#else
#define GNOMON_ATTENTION_RELATIVE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "src/attention/bias-inl.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::part_products;
using internal::RelativeTable;
using internal::TypedProblem;

// Adds the shift of the head to a query.
template <typename A>
HWY_INLINE void ShiftRow(const TypedProblem<A>& problem, std::int64_t head, A* HWY_RESTRICT x) {
  if (problem.relative.shift.empty()) return;
  const A* HWY_RESTRICT shift = problem.relative.shift.data() + head * problem.size;
  for (std::int64_t i = 0; i < problem.size; ++i) x[i] += shift[i];
}

// The greatest number of vectors of a table that a tile of `keys` keys uses, counted from a
// multiple of 16, and one more vector. Given positions may be far apart.
template <typename A>
std::int64_t MostVectors(const AttentionProblem& problem, const RelativeTable<A>& table,
                         std::int64_t keys) {
  const std::int64_t all = padded(table.vectors());
  if (problem.position.queries || table.by_coordinates()) return row_stride(all + 16);
  return row_stride(std::min(all, padded(tile_rows + keys + 16)) + 16);
}

// Buffers for the relative part of a tile.
template <typename A>
struct RelativeScratch {
  A *rows = nullptr, *product = nullptr, *columns = nullptr;

  RelativeScratch(const TypedProblem<A>& problem, internal::Carve<A>& carve) {
    if (problem.relative.empty() && !problem.gated()) return;
    rows = carve.take(tile_rows * tile_keys);
    std::int64_t most = 0;
    const auto& relative = problem.relative;
    for (const auto* tables : {&relative.keys, &relative.values, &relative.projected})
      for (const RelativeTable<A>& table : *tables)
        most = std::max(most, tile_rows * MostVectors(problem, table, tile_keys));
    for (const RelativeTable<A>& table : problem.relative.queries)
      most = std::max(most, Panel<A>() * MostVectors(problem, table, Panel<A>()));
    product = carve.take(most);
    columns = carve.take((tile_rows + 1) * tile_keys);  // int32, which is no larger than A
  }
};

// Packed queries of a tile: rows of the heads, and of the relative queries in units of ln 2
// [rows, row_stride(K)], which are null without projected tables.
template <typename A>
struct QueryRows {
  const A *q, *relative;
};

// Elements of a relative query: K, or 0 without projected tables.
template <typename A>
std::int64_t RelativeSize(const TypedProblem<A>& problem) {
  return problem.relative.projected.empty() ? 0 : problem.relative.projected[0].size();
}
template <typename A>
std::int64_t RelativeStride(const TypedProblem<A>& problem) {
  const std::int64_t size = RelativeSize(problem);
  return size ? row_stride(size) : 0;
}

// Packs the relative query of one row; that of a padding token as zeros.
template <typename A>
void PackRelativeQuery(const TypedProblem<A>& problem, std::int64_t b, std::int64_t query,
                       std::int64_t head, A* HWY_RESTRICT to) {
  const std::int64_t size = RelativeSize(problem);
  if (!size) return;
  const auto& from = problem.position.relative_queries;
  const bool padding = IsPadding(problem.position.queries, b, query);
  for (std::int64_t n = 0; n < size; ++n)
    to[n] =
        padding ? A(0) : static_cast<A>(log2_of_e) * static_cast<A>(from(b, query, head, n));
  std::fill(to + size, to + row_stride(size), A(0));
}

// Stores the gradient of the relative query of one row, if it is required.
template <typename A>
void StoreRelativeGrad(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t query,
                       std::int64_t head, const A* from) {
  if (!problem.relative_query_grad.data()) return;
  for (std::int64_t n = 0; n < RelativeSize(problem); ++n)
    problem.relative_query_grad(b, query, head, n) = static_cast<float>(from[n]);
}

// given[i] is the bias of row i in units of ln 2, if `biased`. It is replaced by the sum of all
// terms that are added to the products of the tile: gate times bias, and the relative terms.
// Returns false if there are none.
template <typename A>
bool AddRelative(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                 const QueryRows<A>& queries, const A* key_panels, bool biased,
                 const RelativeScratch<A>& scratch, const A** given);

// Computes the terms of the relative vectors of values in the gradient of the weights:
// given[i][j] = out_grad_i . vector of (i, j). Returns false if there are none.
template <typename A>
bool ComputeValueTerms(const TypedProblem<A>& problem, const Tile& tile,
                       const SeenColumns& columns, const A* out_grad,
                       const RelativeScratch<A>& scratch, const A** given);

// Adds the relative vectors of values, times the weights of a tile, to out [queries,
// row_stride(Dv)].
template <typename A>
void AddWeightedVectors(const TypedProblem<A>& problem, const Tile& tile,
                        const SeenColumns& columns, const A* weights,
                        const RelativeScratch<A>& scratch, A* out);

// Backward pass of tables that are multiplied by rows a (queries, or weights). a_sum[i] += sum
// over j of grad[i, j] times the vector of (i, j). vector_sums[vector of (i, j)] += grad[i, j]
// a[i]. Either sum may be null. factors: those of the products with a.
template <typename A>
void RowTermsBackward(const TypedProblem<A>& problem, const RelativeTable<A>& table,
                      const Tile& tile, const SeenColumns& columns, const A* grad,
                      const RelativeScratch<A>& scratch, const A* a, Factors factors, A* a_sum,
                      A* vector_sums);

// Backward pass of tables that are multiplied by keys. keys: packed rows of the tile's keys;
// key_sums and vector_sums have the same row stride. factors: those of the products with the
// keys.
template <typename A>
void KeyTermsBackward(const TypedProblem<A>& problem, const RelativeTable<A>& table,
                      const Tile& tile, const SeenColumns& columns, const A* grad,
                      const RelativeScratch<A>& scratch, const A* keys, Factors factors,
                      A* key_sums, A* vector_sums);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
