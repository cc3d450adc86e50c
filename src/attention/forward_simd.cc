// Attention forward: online softmax over tiles of keys.
//
// Keys are divided into parts of `part_keys`. Each part has separate maxima, sums and outputs,
// which are merged in the order of the parts. So a query has the same bits whether one thread
// processes all of its keys, as for a prompt, or several threads share them, as in decoding.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"
#include "src/attention/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/forward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/channel_gates-inl.h"
#include "src/attention/decode-inl.h"
#include "src/attention/householder-inl.h"
#include "src/attention/online-inl.h"
#include "src/attention/reach-inl.h"
#include "src/attention/walk-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::ForwardPiece;
using internal::ForwardPlan;
using internal::part_keys;

template <typename A>
struct ForwardScratch {
  internal::Carve<A> carve;
  A *q, *relative_q, *row_scratch, *key_panels, *value, *scores;
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

template <typename A>
void PackQueries(const ForwardProblem<A>& problem, const ForwardPiece& piece, A* q,
                 A* relative_q, const ChannelScratch<A>* channels = nullptr) {
  const A factor = static_cast<A>(QueryFactor(problem));
  const std::int64_t stride = row_stride(problem.size);
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    if (channels && channels->decays)
      FindDecays(problem, piece.batch, head, piece.query, piece.queries, row, *channels);
    for (std::int64_t i = 0; i < piece.queries; ++i)
      for (std::int64_t h = 0; h < heads; ++h) {
        if (i + rows_ahead < piece.queries)
          PrefetchRow(problem.q, piece.batch, piece.query + i + rows_ahead, head + h,
                      problem.head_dim);
        A* to = q + (row + i * heads + h) * stride;
        LoadQuery(problem, piece.batch, piece.query + i, head + h, to);
        ShiftRow(problem, head + h, to);
        ScaleRow(factor, padded(problem.size), to);
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

// Computes the state of the keys [begin, end) of one part; `state` is cleared first.
template <typename A>
void RunPart(const ForwardProblem<A>& problem, const ForwardPiece& piece,
             const internal::KeyRange& range, const ForwardScratch<A>& at,
             const State<A>& state) {
  state.Clear();
  // The weights of a stick have no maximum.
  if (problem.stick_breaking) std::fill_n(state.most, state.rows, A(0));
  const std::int64_t size = problem.size, values = problem.value_dim;
  const std::int64_t first_tile = range.begin / tile_keys;
  const std::int64_t tiles = (range.end - 1) / tile_keys + 1 - first_tile;
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
    if (!within_reach(problem, whole)) continue;
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
        if (!tile.keys) continue;
        const std::int64_t first = row + i * heads;
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
          hides = MakeScores(problem, tile, columns, rows, at.key_panels, at.added, at.scores);
        }
        if (hides && !factors) factors = FactorsOf(at.value, keys, values);
        if (problem.walks()) Walk(problem, tile, columns, at.walk, first, at.scores);
        if (!problem.stick_breaking) TakeScores(tile, columns, values, at.scores, state, first);
        AddWeightedVectors(problem, tile, columns, at.scores, at.added.relative,
                           state.out + first * state.width);
        MultiplyWeights(tile, columns, values, at.scores, at.value,
                        hides ? *factors : Factors::all, state.out + first * state.width);
      }
    });
  }
}

template <typename A>
void WritePiece(const ForwardProblem<A>& problem, const ForwardPiece& piece,
                const State<A>& state, const double* sticks = nullptr) {
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    for (std::int64_t i = 0; i < piece.queries * heads; ++i, ++row) {
      if (problem.stick_breaking) {
        const std::int64_t query = piece.query + i / heads, own = head + i % heads;
        StoreRow(problem.out, piece.batch, query, own, problem.value_dim, A(1),
                 state.out + row * state.width);
        if (problem.lse.data())
          problem.lse(piece.batch, own, query) = static_cast<A>(std::log(sticks[row]));
        continue;
      }
      WriteRow(problem, piece.batch, piece.query + i / heads, head + i % heads, state.most[row],
               state.sum + row * State<A>::lanes, state.out + row * state.width);
    }
  });
}

internal::KeyRange SeenByPiece(const AttentionProblem& problem, const ForwardPiece& piece) {
  return {visible_keys(problem, piece.batch, piece.query).begin,
          visible_keys(problem, piece.batch, piece.query + piece.queries - 1).end};
}

// Returns the intersection of a range with part `part` of the keys.
internal::KeyRange InPart(const internal::KeyRange& range, std::int64_t part) {
  return {std::max(part * part_keys, range.begin), std::min((part + 1) * part_keys, range.end)};
}

// One thread for each piece.
template <typename A>
void ForwardByPieces(const ForwardProblem<A>& problem, const ForwardPlan& plan) {
  const std::int64_t rows = plan.queries * problem.group();
  internal::ScratchPool<A> pool(internal::at_once(plan.pieces, plan.grain),
                                ForwardScratch<A>(problem, rows, nullptr).carve.used());
  parallel_for(plan.pieces, plan.grain, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const ForwardScratch<A> at(problem, rows, block);
    for (std::int64_t n = begin; n < end; ++n) {
      const ForwardPiece piece = plan.piece(problem, n);
      const internal::KeyRange range = SeenByPiece(problem, piece);
      PackQueries(problem, piece, at.q, at.relative_q, &at.channels);
      if (problem.walks()) StartWalks(problem, piece, at);
      if (range.begin >= range.end) at.total.Clear();
      const std::int64_t first = range.begin / part_keys;
      const std::int64_t parts =
          range.begin < range.end ? (range.end - 1) / part_keys + 1 - first : 0;
      for (std::int64_t p = 0; p < parts; ++p) {
        const std::int64_t part = first + (FromTheRight(problem) ? parts - 1 - p : p);
        RunPart(problem, piece, InPart(range, part), at, p ? at.part : at.total);
        if (p) MergeStates(at.part, at.total, problem.value_dim);
      }
      WritePiece(problem, piece, at.total, at.walk.running);
    }
    pool.give(block);
  });
}

// The states of all parts of the keys of pieces of `rows` rows.
template <typename A>
class PartStates {
 public:
  PartStates(const ForwardProblem<A>& problem, std::int64_t states, std::int64_t rows)
      : problem_(problem),
        rows_(rows),
        numbers_(NumbersOf(problem, rows)),
        pool_(1, states * numbers_) {}
  State<A> at(std::int64_t index) const {
    internal::Carve<A> carve(pool_.at(0) + index * numbers_);
    return State<A>(carve, rows_, problem_.value_dim);
  }
  // Merges the states of each of `pieces` pieces in order. piece_of(n) returns piece n,
  // states_of(n) the indices of its states.
  template <typename PieceOf, typename StatesOf>
  void Write(std::int64_t pieces, const PieceOf& piece_of, const StatesOf& states_of) const {
    parallel_for(pieces, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const internal::PartIndices own = states_of(n);
        if (!own.count) continue;
        const State<A> total = at(own.first);
        for (std::int64_t part = 1; part < own.count; ++part)
          MergeStates(at(own.first + part * own.step), total, problem_.value_dim);
        WritePiece(problem_, piece_of(n), total);
      }
    });
  }

 private:
  static std::int64_t NumbersOf(const ForwardProblem<A>& problem, std::int64_t rows) {
    internal::Carve<A> carve;
    State<A>(carve, rows, problem.value_dim);
    return carve.used();
  }

  const ForwardProblem<A>& problem_;
  std::int64_t rows_, numbers_;
  internal::ScratchPool<A> pool_;
};

// One thread for each part of the keys of each piece: for few queries and many keys.
template <typename A>
void ForwardByParts(const ForwardProblem<A>& problem, const ForwardPlan& plan) {
  const std::int64_t rows = plan.queries * problem.group(), parts = plan.all_parts(problem);
  internal::ScratchPool<A> pool(internal::at_once(parts, 1),
                                ForwardScratch<A>(problem, rows, nullptr).carve.used());
  const PartStates<A> states(problem, parts, rows);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const ForwardScratch<A> at(problem, rows, block);
    for (std::int64_t n = begin; n < end; ++n) {
      const auto [n_piece, part] = plan.piece_and_part(problem, n);
      const ForwardPiece piece = plan.piece(problem, n_piece);
      PackQueries(problem, piece, at.q, at.relative_q, &at.channels);
      RunPart(problem, piece, InPart(SeenByPiece(problem, piece), part), at, states.at(n));
    }
    pool.give(block);
  });
  states.Write(
      plan.pieces, [&](std::int64_t n) { return plan.piece(problem, n); },
      [&](std::int64_t n) { return plan.parts_of_piece(problem, n); });
}

// One thread for each part of the keys of some key heads, which have at most direct_rows rows
// each.
void ForwardDirectly(const ForwardProblem<float>& problem) {
  const internal::DirectPlan plan(problem);
  if (!plan.pieces) return;
  const PartStates<float> states(problem, plan.units() * problem.key_heads, plan.rows);
  internal::ScratchPool<float> pool(
      internal::at_once(plan.pieces, plan.grain),
      DirectScratch(problem, plan.heads, plan.rows, nullptr).carve.used());
  parallel_for(plan.pieces, plan.grain, [&](std::int64_t begin, std::int64_t end) {
    float* block = pool.take();
    const DirectScratch at(problem, plan.heads, plan.rows, block);
    for (std::int64_t n = begin; n < end; ++n) {
      const internal::DirectPlan::Piece piece = plan.piece(problem, n);
      const std::int64_t queries = problem.queries_of(piece.batch);
      const std::int64_t rows = internal::in_fours(queries * problem.group());
      for (std::int64_t h = 0; h < piece.heads; ++h)
        PackQueries(problem, {piece.batch, piece.first + h, 0, queries},
                    at.q + h * rows * row_stride(problem.size), static_cast<float*>(nullptr));
      const internal::KeyRange range =
          SeenByPiece(problem, {piece.batch, piece.first, 0, queries});
      RunDirectly(problem, piece, InPart(range, piece.part), at, [&](std::int64_t head) {
        return states.at(piece.unit * problem.key_heads + head);
      });
    }
    pool.give(block);
  });
  states.Write(
      problem.batch * problem.key_heads,
      [&](std::int64_t n) {
        const std::int64_t b = n / problem.key_heads;
        return ForwardPiece{b, n % problem.key_heads, 0, problem.queries_of(b)};
      },
      [&](std::int64_t n) {
        const internal::PartIndices units = plan.units_of(n / problem.key_heads);
        return internal::PartIndices{units.first * problem.key_heads + n % problem.key_heads,
                                     problem.key_heads, units.count};
      });
}

// Writes 0 to the rows of `out` that belong to no sequence, and -infinity to those of `lse`.
template <typename A>
void WriteOtherRows(const ForwardProblem<A>& problem) {
  if (!problem.ragged) return;
  Result out = problem.out;
  out.places = {};
  const internal::Numbers<A> zeros(padded(problem.value_dim));
  const auto write = [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t head = 0; head < problem.heads; ++head) {
        StoreRow(out, b, row, head, problem.value_dim, A(1), zeros.data());
        if (problem.lse.data()) problem.lse(b, head, row) = -std::numeric_limits<A>::infinity();
      }
  };
  const auto starts = problem.ragged->query_starts, lengths = problem.ragged->query_lengths;
  if (!starts.empty()) {
    write(0, 0, starts.front());
    write(0, starts.back(), problem.rows);
  }
  for (std::size_t b = 0; b < lengths.size(); ++b)
    write(static_cast<std::int64_t>(b), lengths[b], problem.rows);
}

template <typename A>
void ForwardAll(ForwardProblem<A>& problem) {
  WriteOtherRows(problem);
  if (!problem.batch || !problem.queries || !problem.heads) return;
  FindReach<A>(problem);
  FindHouseholderRows(problem);
  bool directly = false;
  if constexpr (sizeof(A) == 4) {
    directly = internal::can_read_directly(problem);
    if (directly && (problem.ragged || internal::has_few_rows(problem, 0))) {
      ForwardDirectly(problem);
      if (!problem.ragged) return;
    }
  }
  const ForwardPlan plan(problem, directly);
  if (!plan.pieces) return;
  if (plan.parts > 1 && plan.pieces < 4 * threads() && !FromTheRight(problem))
    ForwardByParts(problem, plan);
  else
    ForwardByPieces(problem, plan);
}

void ForwardFloat(ForwardProblem<float>& problem) { ForwardAll(problem); }
void ForwardDouble(ForwardProblem<double>& problem) { ForwardAll(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);

void internal::run_forward(ForwardProblem<float>& problem) {
  GNOMON_DISPATCH(ForwardFloat)(problem);
}
void internal::run_forward(ForwardProblem<double>& problem) {
  GNOMON_DISPATCH(ForwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
