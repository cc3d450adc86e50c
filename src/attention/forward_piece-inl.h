// One piece of a forward pass: its queries, its tiles of keys, and its results.
#if defined(GNOMON_ATTENTION_FORWARD_PIECE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_FORWARD_PIECE_INL_H_
#undef GNOMON_ATTENTION_FORWARD_PIECE_INL_H_
#else
#define GNOMON_ATTENTION_FORWARD_PIECE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/attention/channel_gates-inl.h"
#include "src/attention/householder-inl.h"
#include "src/attention/online-inl.h"
#include "src/attention/walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::ForwardPiece;
using internal::ForwardPlan;
using internal::part_keys;

template <typename A>
struct ForwardScratch {
  internal::Carve<A> carve;
  A *q, *relative_q, *row_scratch, *key_panels, *value, *scores, *pair_weights;
  AddedScratch<A> added;
  WalkRows<A> walk;
  ChannelScratch<A> channels;
  HouseholderScratch<A> householder;
  State<A> total, part;

  ForwardScratch(const internal::TypedProblem<A>& problem, std::int64_t rows, A* block)
      : carve(block),
        q(carve.take(rows * row_stride(problem.size))),
        relative_q(carve.take(rows * RelativeStride(problem))),
        row_scratch(carve.take(16 * row_stride(problem.size))),
        key_panels(carve.take(Panels<A>(tile_keys) * Panel<A>() * problem.size)),
        value(carve.take(tile_keys * row_stride(problem.value_dim))),
        scores(carve.take(tile_rows * tile_keys)),
        pair_weights(carve.take(problem.pairs ? tile_rows * tile_keys / 2 : 0)),
        added(problem, carve),
        walk(problem, carve, rows),
        channels(problem, rows, Pass::forward, carve),
        householder(problem, rows, Pass::forward, carve),
        total(carve, rows, problem.value_dim),
        part(carve, rows, problem.value_dim) {}
};

// Calls body(first head, heads, first row) for groups of at most tile_rows heads of a piece
// (one head if a tile contains a single head). Within a group, rows are
// ordered by query.
template <typename Body>
void ForHeads(const AttentionProblem& problem, const ForwardPiece& piece, const Body& body) {
  const std::int64_t group = problem.group();
  const std::int64_t most = problem.single_heads() ? 1 : tile_rows;
  for (std::int64_t g = 0; g < group; g += most)
    body(piece.key_head * group + g, std::min(most, group - g), g * piece.queries);
}

// Packs the row of a query: times `factor`, or in pairs as it is.
template <typename A>
HWY_INLINE void PackQuery(const ForwardProblem<A>& problem, std::int64_t b, std::int64_t query,
                          std::int64_t head, A factor, A* HWY_RESTRICT to) {
  if constexpr (sizeof(A) == 4)
    if (problem.pairs)
      return LoadPairs(problem.q, problem.position.queries, b, query, head, problem.size, to);
  LoadQuery(problem, b, query, head, to);
  ShiftRow(problem, head, to);
  ScaleRow(factor, padded(problem.size), to);
}

// Whether packed queries are whole vectors of floats in memory times a factor.
template <typename A>
bool ScalesOnly(const ForwardProblem<A>& problem) {
  return sizeof(A) == 4 && problem.q.dtype == DType::f32 && problem.head_dim % 16 == 0 &&
         !problem.position.queries && !problem.position.query_rotary &&
         !problem.position.polar && problem.relative.shift.empty();
}

// PackQuery for ScalesOnly.
template <typename A>
HWY_INLINE void ScaleQuery(const ForwardProblem<A>& problem, std::int64_t b, std::int64_t query,
                           std::int64_t head, A factor, A* HWY_RESTRICT to) {
  const hn::ScalableTag<A> d;
  const auto by = hn::Set(d, factor);
  const A* from = static_cast<const A*>(problem.q.data) + OffsetOf(problem.q, b, query, head);
  for (std::int64_t i = 0; i < problem.head_dim; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::Store(hn::Mul(by, hn::LoadU(d, from + i)), d, to + i);
}

template <typename A>
void PackQueries(const ForwardProblem<A>& problem, const ForwardPiece& piece, A* q,
                 A* relative_q, const ChannelScratch<A>* channels = nullptr) {
  const bool scales_only = ScalesOnly(problem);
  const A factor = static_cast<A>(QueryFactor(problem));
  const std::int64_t stride = QueryStride(problem);
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    if (channels && channels->decays)
      FindDecays(problem, piece.batch, head, piece.query, piece.queries, row, *channels);
    for (std::int64_t i = 0; i < piece.queries; ++i)
      for (std::int64_t h = 0; h < heads; ++h) {
        if (i + rows_ahead < piece.queries)
          PrefetchRow(problem.q, piece.batch, piece.query + i + rows_ahead, head + h,
                      problem.head_dim);
        A* const to = q + (row + i * heads + h) * stride;
        if (scales_only)
          ScaleQuery(problem, piece.batch, piece.query + i, head + h, factor, to);
        else
          PackQuery(problem, piece.batch, piece.query + i, head + h, factor, to);
        PackRelativeQuery(problem, piece.batch, piece.query + i, head + h,
                          relative_q + (row + i * heads + h) * RelativeStride(problem));
      }
  });
}

template <typename A>
void StartWalks(const ForwardProblem<A>& problem, const ForwardPiece& piece,
                const ForwardScratch<A>& at) {
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    StartWalk(problem, Tile{piece.batch, head, heads, piece.query, piece.queries, 0, 0},
              at.q + row * row_stride(problem.size), at.walk, row);
  });
}

// Whether queries meet the tiles of keys from the right to the left, and change with each.
inline bool FromTheRight(const AttentionProblem& problem) {
  return problem.product == PairProduct::householder || problem.walks();
}

// TakeScores with a value of `into`.
template <typename A>
void TakeFirst(Into into, const Tile& tile, const SeenColumns& columns, std::int64_t values,
               A* scores, const State<A>& state, std::int64_t first) {
  if (into == Into::onto_zero)
    TakeScores<Into::onto_zero>(tile, columns, values, scores, state, first);
  else
    TakeScores(tile, columns, values, scores, state, first);
}

// The tiles of a piece with the keys [key, key + keys), by products of pairs.
inline void RunPairs(const ForwardProblem<float>& problem, const ForwardPiece& piece,
                     std::int64_t key, std::int64_t keys, const ForwardScratch<float>& at,
                     const State<float>& state, Into into, NextPiece* ahead) {
  const std::int64_t size = problem.size, values = problem.value_dim;
  PackPairKeys(problem.k, problem.position.keys, piece.batch, key, keys, piece.key_head, size,
               at.row_scratch, PackedRows<float>{nullptr, at.key_panels});
  PackPairValues(problem.v, problem.position.keys, piece.batch, key, keys, piece.key_head,
                 values, at.row_scratch, at.value);
  std::optional<Factors> factors;
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    const std::int64_t most = std::max<std::int64_t>(1, tile_rows / heads);
    for (std::int64_t i = 0, queries; i < piece.queries; i += queries) {
      queries = std::min(most, piece.queries - i);
      const Tile tile =
          trimmed(problem, Tile{piece.batch, head, heads, piece.query + i, queries, key, keys});
      const std::int64_t first = row + i * heads;
      if (!tile.keys) {
        if (into == Into::onto_zero) state.Clear(first, queries * heads);
        continue;
      }
      SeenColumns columns;
      FindColumns<float>(problem, tile, columns);
      const bool hides =
          MakePairScores(problem, tile, columns, at.q + first * row_stride(pairs_of(size)),
                         at.key_panels, at.added.bias, at.scores, nullptr, ahead);
      if (hides && !factors) factors = FactorsOfPairs(at.value, keys, values);
      TakeFirst(into, tile, columns, values, at.scores, state, first);
      for (std::int64_t r = 0; r < tile.rows(); ++r) {
        const Columns& seen = columns[r / block_rows];
        RoundToPairs(at.scores + r * tile_keys + seen.begin, seen.end - seen.begin,
                     at.pair_weights + (r * tile_keys + seen.begin) / 2);
      }
      MultiplyPairWeights(tile, columns, values, at.pair_weights, at.value,
                          hides ? *factors : Factors::all, state.out + first * state.width,
                          into, ahead);
    }
  });
}

// Computes the state of the keys [begin, end) of one part.
template <typename A>
void RunPart(const ForwardProblem<A>& problem, const ForwardPiece& piece,
             const internal::KeyRange& range, const ForwardScratch<A>& at,
             const State<A>& state, NextPiece* ahead = nullptr) {
  const std::int64_t size = problem.size, values = problem.value_dim;
  const std::int64_t first_tile = range.begin / tile_keys;
  const std::int64_t tiles = (range.end - 1) / tile_keys + 1 - first_tile;
  // The state of a single tile is stored, that of several is cleared and added to.
  const Into into = tiles == 1 && !problem.walks() && !problem.relative_vectors()
                        ? Into::onto_zero
                        : Into::add;
  if (into == Into::add) state.Clear();
  // The weights of a stick have no maximum.
  if (problem.stick_breaking) std::fill_n(state.most, state.rows, A(0));
  for (std::int64_t n = 0; n < tiles; ++n) {
    if (problem.stick_breaking &&
        WalkEnded(problem, at.walk.running, piece.queries * problem.group()))
      return;
    const std::int64_t at_tile = FromTheRight(problem) ? tiles - 1 - n : n;
    const std::int64_t key = (first_tile + at_tile) * tile_keys;
    const std::int64_t keys = std::min(tile_keys, range.end - key);
    const Tile whole{piece.batch,
                     piece.key_head * problem.group(),
                     problem.group(),
                     piece.query,
                     piece.queries,
                     key,
                     keys};
    if (!within_reach(problem, whole)) {
      if (into == Into::onto_zero) state.Clear();
      continue;
    }
    if constexpr (sizeof(A) == 4)
      if (problem.pairs) {
        RunPairs(problem, piece, key, keys, at, state, into, ahead);
        continue;
      }
    if (at.householder.key_panels)
      PackHouseholder(problem, whole, at.householder);
    else
      PackKeyRows(problem.k, problem.position.keys, problem.position.key_rotary, piece.batch,
                  key, keys, piece.key_head, size, at.row_scratch,
                  PackedRows<A>{at.channels.keys, at.channels.keys ? nullptr : at.key_panels,
                                problem.polar_dim()});
    PackKeyRows(problem.v, problem.position.keys, nullptr, piece.batch, key, keys,
                piece.key_head, values, at.row_scratch, PackedRows<A>{at.value, nullptr});
    std::optional<Factors> factors;  // set for a tile with hidden scores
    ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
      const std::int64_t most = std::max<std::int64_t>(1, tile_rows / heads);
      bool scaled = false;
      for (std::int64_t i = 0, queries; i < piece.queries; i += queries) {
        queries = RowsOfTile(problem, piece.query + i, std::min(most, piece.queries - i));
        const Tile tile = trimmed(
            problem, Tile{piece.batch, head, heads, piece.query + i, queries, key, keys});
        const std::int64_t first = row + i * heads;
        if (!tile.keys) {
          if (into == Into::onto_zero) state.Clear(first, queries * heads);
          continue;
        }
        if (problem.stick_breaking && WalkEnded(problem, at.walk.running + first, tile.rows()))
          continue;
        SeenColumns columns;
        FindColumns<A>(problem, tile, columns);
        A* q = at.q + first * row_stride(size);
        const QueryRows<A> rows{q, at.relative_q + first * RelativeStride(problem)};
        bool hides = false;
        if (at.channels.keys) {
          if (!std::exchange(scaled, true)) {
            Tile of_head = whole;
            of_head.head = head;
            ScaleKeys(problem, of_head, at.channels);
          }
          hides = MakeGatedScores(problem, tile, columns, first, q, at.added.bias, at.channels,
                                  at.scores);
        } else if (at.householder.key_panels) {
          hides = MakeHouseholderScores(problem, tile, columns, q, at.added.bias,
                                        at.householder, at.scores);
        } else {
          hides = MakeScores(problem, tile, columns, rows, at.key_panels, at.added, at.scores,
                             static_cast<A*>(nullptr), ahead);
        }
        if (hides && !factors) factors = FactorsOf(at.value, keys, values);
        if (problem.walks()) Walk(problem, tile, columns, at.walk, first, at.scores);
        if (!problem.stick_breaking)
          TakeFirst(into, tile, columns, values, at.scores, state, first);
        AddWeightedVectors(problem, tile, columns, at.scores, at.added.relative,
                           state.out + first * state.width);
        MultiplyWeights(tile, columns, values, at.scores, at.value,
                        hides ? *factors : Factors::all, state.out + first * state.width, into,
                        ahead);
      }
    });
  }
}

template <typename A>
void WritePiece(const ForwardProblem<A>& problem, const ForwardPiece& piece,
                const State<A>& state, const double* sticks = nullptr) {
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    for (std::int64_t query = piece.query; query < piece.query + piece.queries; ++query)
      for (std::int64_t own = head; own < head + heads; ++own, ++row) {
        if (problem.stick_breaking) {
          StoreRow(problem.out, piece.batch, query, own, problem.value_dim, A(1),
                   state.out + row * state.width);
          if (problem.lse.data())
            problem.lse(piece.batch, own, query) = static_cast<A>(std::log(sticks[row]));
          continue;
        }
        WriteRow(problem, piece.batch, query, own, state.most[row],
                 state.sum + row * State<A>::lanes, state.out + row * state.width);
      }
  });
}

inline internal::KeyRange SeenByPiece(const AttentionProblem& problem,
                                      const ForwardPiece& piece) {
  return {visible_keys(problem, piece.batch, piece.query).begin,
          visible_keys(problem, piece.batch, piece.query + piece.queries - 1).end};
}

// Returns the intersection of a range with part `part` of the keys.
inline internal::KeyRange InPart(const internal::KeyRange& range, std::int64_t part) {
  return {std::max(part * part_keys, range.begin), std::min((part + 1) * part_keys, range.end)};
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
