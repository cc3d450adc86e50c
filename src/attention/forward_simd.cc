// Attention forward: online softmax over tiles of keys.
//
// Keys are divided into parts of `part_keys`. Each part has separate maxima, sums and outputs,
// which are merged in the order of the parts. So a query has the same bits whether one thread
// processes all of its keys, as for a prompt, or several threads share them, as in decoding.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"
#include "src/attention/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/forward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/cache_blocks-inl.h"
#include "src/attention/decode-inl.h"
#include "src/attention/forward_piece-inl.h"
#include "src/attention/reach-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Whether the next piece is prefetched: pieces have one tile of keys, and fit in the L2 cache.
inline bool PrefetchesNext(const AttentionProblem& problem, const ForwardPiece& piece) {
  constexpr std::int64_t most = 65536;  // elements
  const std::int64_t keys = problem.keys_of(piece.batch);
  return keys <= tile_keys &&
         (piece.queries * problem.group() + keys) * (problem.size + problem.value_dim) <= most;
}
// The multiply-adds of a piece: of the mean of the keys that its queries see.
inline std::int64_t MultiplyAddsOf(const AttentionProblem& problem, const ForwardPiece& piece) {
  const std::int64_t middle = piece.query + piece.queries / 2;
  const internal::KeyRange seen = visible_keys(problem, piece.batch, middle);
  return piece.queries * problem.group() * (seen.end - seen.begin) *
         (problem.size + problem.value_dim);
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
    NextPiece next(problem, problem.out);
    for (std::int64_t n = begin; n < end; ++n) {
      const ForwardPiece piece = plan.piece(problem, n);
      const internal::KeyRange range = SeenByPiece(problem, piece);
      NextPiece* const ahead = n + 1 < end && PrefetchesNext(problem, piece) ? &next : nullptr;
      if (ahead) next.Start(plan.piece(problem, n + 1), MultiplyAddsOf(problem, piece));
      PackQueries(problem, piece, at.q, at.relative_q, &at.channels);
      if (problem.walks()) StartWalks(problem, piece, at);
      if (range.begin >= range.end) at.total.Clear();
      const std::int64_t first = range.begin / part_keys;
      const std::int64_t parts =
          range.begin < range.end ? (range.end - 1) / part_keys + 1 - first : 0;
      for (std::int64_t p = 0; p < parts; ++p) {
        const std::int64_t part = first + (FromTheRight(problem) ? parts - 1 - p : p);
        RunPart(problem, piece, InPart(range, part), at, p ? at.part : at.total, ahead);
        if (p) MergeStates(at.part, at.total, problem.value_dim);
      }
      WritePiece(problem, piece, at.total, at.walk.running);
      if (ahead) next.Finish();
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
  // The size of a state.
  static std::int64_t NumbersOf(const ForwardProblem<A>& problem, std::int64_t rows) {
    internal::Carve<A> carve;
    State<A>(carve, rows, problem.value_dim);
    return carve.used();
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

// Packs the queries of all heads of a piece, in memory order.
template <class Scratch>
void PackQueriesOfHeads(const ForwardProblem<float>& problem,
                        const internal::DirectPlan::Piece& piece, const Scratch& at) {
  const float factor = static_cast<float>(QueryFactor(problem));
  const std::int64_t group = problem.group(), stride = QueryStride(problem);
  for (std::int64_t i = 0; i < problem.queries_of(piece.batch); ++i)
    for (std::int64_t h = 0; h < piece.heads; ++h)
      for (std::int64_t g = 0; g < group; ++g)
        PackQuery(problem, piece.batch, i, (piece.first + h) * group + g, factor,
                  at.queries_of(h) + (i * group + g) * stride);
  for (std::int64_t h = 0; h < piece.heads; ++h) at.FinishQueries(h);
}

// Writes the results of all heads of a piece, in memory order.
template <typename StateOf>
void WriteHeads(const ForwardProblem<float>& problem, const internal::DirectPlan::Piece& piece,
                const StateOf& state_of) {
  const std::int64_t group = problem.group();
  for (std::int64_t i = 0; i < problem.queries_of(piece.batch); ++i)
    for (std::int64_t h = 0; h < piece.heads; ++h) {
      const State<float> state = state_of(piece.first + h);
      for (std::int64_t g = 0, row = i * group; g < group; ++g, ++row)
        WriteRow(problem, piece.batch, i, (piece.first + h) * group + g, state.most[row],
                 state.sum + row * State<float>::lanes, state.out + row * state.width);
    }
}

// One thread for each part of the keys of some key heads. Scratch: DirectScratch or
// BlockScratch.
template <class Scratch>
void ForwardOverCache(const ForwardProblem<float>& problem, internal::CacheReading reading) {
  const internal::DirectPlan plan(problem, reading);
  if (!plan.pieces) return;
  // Sequences of one part are written at once.
  const bool apart = plan.parts > 1;
  const std::int64_t each = PartStates<float>::NumbersOf(problem, plan.rows);
  const std::int64_t used = Scratch(problem, plan.heads, plan.rows, nullptr).used();
  const PartStates<float> states(problem, apart ? plan.units() * problem.key_heads : 0,
                                 plan.rows);
  internal::ScratchPool<float> pool(internal::at_once(plan.pieces, plan.grain),
                                    used + (apart ? 0 : plan.heads * each));
  parallel_for(plan.pieces, plan.grain, [&](std::int64_t begin, std::int64_t end) {
    float* block = pool.take();
    for (std::int64_t n = begin; n < end; ++n) {
      const internal::DirectPlan::Piece piece = plan.piece(problem, n);
      const std::int64_t queries = problem.queries_of(piece.batch);
      const Scratch at(problem, piece.heads, queries * problem.group(), block);
      PackQueriesOfHeads(problem, piece, at);
      const internal::KeyRange range =
          SeenByPiece(problem, {piece.batch, piece.first, 0, queries});
      const auto state_of = [&](std::int64_t head) {
        if (apart) return states.at(piece.unit * problem.key_heads + head);
        internal::Carve<float> carve(block + used + (head - piece.first) * each);
        return State<float>(carve, plan.rows, problem.value_dim);
      };
      Run(problem, piece, InPart(range, piece.part), at, state_of);
      if (!apart) WriteHeads(problem, piece, state_of);
    }
    pool.give(block);
  });
  if (!apart) return;
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

// Returns how the problem is computed. plan: of the sequences that are not read over a cache.
template <typename A>
internal::ForwardChoice Choose(const ForwardProblem<A>& problem, const ForwardPlan& plan,
                               bool over_cache) {
  internal::ForwardChoice choice;
  choice.pairs = sizeof(A) == 4 && problem.takes_bfloat16() && HasPairs();
  choice.pairs_over_cache =
      choice.pairs && problem.size % 32 == 0 && problem.value_dim % 32 == 0;
  choice.by_parts = plan.parts > 1 && plan.pieces < 4 * threads() && !FromTheRight(problem);
  choice.queries = plan.queries;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (!problem.queries_of(b)) continue;
    const auto reading =
        over_cache ? internal::reading_of(problem, b) : internal::CacheReading::none;
    ++(reading == internal::CacheReading::direct   ? choice.direct
       : reading == internal::CacheReading::blocks ? choice.blocks
                                                   : choice.others);
    if (!problem.ragged) break;  // all are alike
  }
  return choice;
}
template <typename A>
bool ReadsOverCache(const ForwardProblem<A>& problem) {
  return sizeof(A) == 4 && internal::can_read_directly(problem);
}

template <typename A>
void ForwardAll(ForwardProblem<A>& problem) {
  WriteOtherRows(problem);
  if (!problem.batch || !problem.queries || !problem.heads) return;
  FindReach<A>(problem);
  FindHouseholderRows(problem);
  const bool over_cache = ReadsOverCache(problem);
  const ForwardPlan plan(problem, over_cache);
  const internal::ForwardChoice choice = Choose(problem, plan, over_cache);
  if constexpr (sizeof(A) == 4) {
    problem.pairs = choice.pairs_over_cache;
    if (choice.direct) ForwardOverCache<DirectScratch>(problem, internal::CacheReading::direct);
    if (choice.blocks) ForwardOverCache<BlockScratch>(problem, internal::CacheReading::blocks);
  }
  if (!choice.others || !plan.pieces) return;
  problem.pairs = choice.pairs;
  if (choice.by_parts)
    ForwardByParts(problem, plan);
  else
    ForwardByPieces(problem, plan);
}

template <typename A>
internal::ForwardChoice ChooseForward(const ForwardProblem<A>& problem) {
  if (!problem.batch || !problem.queries || !problem.heads) return {};
  const bool over_cache = ReadsOverCache(problem);
  return Choose(problem, ForwardPlan(problem, over_cache), over_cache);
}
internal::ForwardChoice ChooseFloat(ForwardProblem<float>& problem) {
  return ChooseForward(problem);
}
internal::ForwardChoice ChooseDouble(ForwardProblem<double>& problem) {
  return ChooseForward(problem);
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
HWY_EXPORT(ChooseFloat);
HWY_EXPORT(ChooseDouble);

internal::ForwardChoice internal::choose_forward(ForwardProblem<float>& problem) {
  return GNOMON_DISPATCH(ChooseFloat)(problem);
}
internal::ForwardChoice internal::choose_forward(ForwardProblem<double>& problem) {
  return GNOMON_DISPATCH(ChooseDouble)(problem);
}

void internal::run_forward(ForwardProblem<float>& problem) {
  GNOMON_DISPATCH(ForwardFloat)(problem);
}
void internal::run_forward(ForwardProblem<double>& problem) {
  GNOMON_DISPATCH(ForwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
