// The scores of one tile, computed from products: scale, cap, bias and mask. All scores are in
// units of ln 2.
#if defined(GNOMON_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_SCORES_INL_H_
#undef GNOMON_ATTENTION_SCORES_INL_H_
#else
#define GNOMON_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "src/attention/bias-inl.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/next_piece-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/relative-inl.h"
#include "src/attention/softmax-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::KeyRange;
using internal::Meeting;
using internal::Tile;

template <typename A>
void FindColumns(const AttentionProblem& problem, const Tile& tile, SeenColumns& columns);

// scores [rows, tile_keys] = a [rows, size] b + given, with b in panels. ahead, here and below:
// what is prefetched meanwhile, or null.
template <typename A>
void MultiplyPanels(const Tile& tile, const SeenColumns& columns, std::int64_t size, const A* a,
                    const A* panels, const A* const* given, A* scores,
                    NextPiece* ahead = nullptr);

// out [rows, values] += weights [rows, keys] b [keys, values], or = with Into::onto_zero, for
// the rows that have columns. factors: those of the weights.
template <typename A>
void MultiplyWeights(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                     const A* weights, const A* b, Factors factors, A* out,
                     Into into = Into::add, NextPiece* ahead = nullptr);

// The same with pairs of bfloat16 (multiply-inl.h). factor: of the products, not of `given`.
void MultiplyPairPanels(const Tile& tile, const SeenColumns& columns, std::int64_t size,
                        const float* a, const float* panels, float factor, float* scores,
                        const float* const* given = nullptr, NextPiece* ahead = nullptr);
// weights: pairs, tile_keys / 2 apart.
void MultiplyPairWeights(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                         const float* weights, const float* b, Factors factors, float* out,
                         Into into = Into::add, NextPiece* ahead = nullptr);

// Returns the factor of packed queries. With it, products with keys are in units of ln 2, or
// have the scale that CapScores expects.
inline double QueryFactor(const AttentionProblem& problem) {
  const auto& softmax = problem.softmax;
  return softmax.scale * log2_of_e * (softmax.cap ? 2 / *softmax.cap : 1);
}

// Converts the products of a tile to scores. Hidden scores are -infinity. Returns whether a key
// of the tile is hidden. slope: as in CapScores, if there is a cap.
template <typename A>
bool FinishScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                  const SeenColumns& columns, A* bias_scratch, A* scores, A* slope = nullptr);

// Buffers for the terms that are added to the products of a tile.
template <typename A>
struct AddedScratch {
  A* bias;
  RelativeScratch<A> relative;

  AddedScratch(const internal::TypedProblem<A>& problem, internal::Carve<A>& carve)
      : bias(carve.take(BiasScratchSize(problem))), relative(problem, carve) {}
};

// Computes the scores of a tile. queries.q: times QueryFactor. slope: as in CapScores, if
// there is a cap. Returns whether a key within the columns is hidden: in the tile, or past its
// end, where the packed rows may be keys that no query of the tile sees.
template <typename A>
bool MakeScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                const SeenColumns& columns, const QueryRows<A>& queries, const A* key_panels,
                const AddedScratch<A>& scratch, A* scores, A* slope = nullptr,
                NextPiece* ahead = nullptr);

// The same with pairs of bfloat16, not multiplied by QueryFactor, and without relative vectors.
// q: the rows of the tile, row_stride(pairs_of(size)) apart.
bool MakePairScores(const internal::TypedProblem<float>& problem, const Tile& tile,
                    const SeenColumns& columns, const float* q, const float* key_panels,
                    float* bias_scratch, float* scores, float* slope = nullptr,
                    NextPiece* ahead = nullptr);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
