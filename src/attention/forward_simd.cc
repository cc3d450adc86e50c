// Attention forward: online softmax over tiles of keys.
//
// Keys come in parts of `part_keys`. Each part has its own maxima, sums and outputs, merged in
// the order of the parts; so a query has the same bits whether one thread goes through all of
// its keys, as in a prompt, or several share them, as in decoding.
#include <algorithm>
#include <cmath>
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
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/scores-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::ForwardPlan;
using internal::ForwardProblem;
using internal::part_keys;

// The queries [query, query + queries) of all heads that share a key head, so that each tile of
// keys is packed once for all of them.
struct ForwardPiece {
  std::int64_t batch, key_head, query, queries;
};

// Running maxima (rounded up to whole numbers), sums and outputs of the rows of a piece; a
// row's sum is a vector, whose lanes are added at the end.
template <typename A>
struct State {
  A *most, *sum, *out;
  std::int64_t rows, width;  // of out

  static constexpr std::int64_t lanes =
      static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  State(internal::Carve<A>& carve, std::int64_t row_count, std::int64_t values)
      : rows(row_count), width(row_stride(values)) {
    most = carve.take(rows);
    sum = carve.take(rows * lanes);
    out = carve.take(rows * width);
  }
  void Clear() const {
    std::fill_n(most, rows, -std::numeric_limits<A>::infinity());
    std::fill_n(sum, rows * lanes, A(0));
    std::fill_n(out, rows * width, A(0));
  }
};

template <typename A>
struct ForwardScratch {
  internal::Carve<A> carve;
  A *q, *row_room, *key_panels, *value, *scores, *bias;
  State<A> total, part;

  ForwardScratch(const AttentionProblem& problem, std::int64_t rows, A* block)
      : carve(block),
        q(carve.take(rows * row_stride(problem.size))),
        row_room(carve.take(16 * row_stride(problem.size))),
        key_panels(carve.take(Panels<A>(tile_keys) * Panel<A>() * problem.size)),
        value(carve.take(tile_keys * row_stride(problem.value_size))),
        scores(carve.take(tile_rows * tile_keys)),
        bias(carve.take(bias_room)),
        total(carve, rows, problem.value_size),
        part(carve, rows, problem.value_size) {}
};

// Takes a tile of scores into the rows' state: scores become 2^(score - maximum).
template <typename A>
void TakeScores(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                A* HWY_RESTRICT scores, const State<A>& state, std::int64_t first) {
  const hn::ScalableTag<A> tag;
  constexpr std::int64_t lanes = State<A>::lanes;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    const Columns& seen = columns[i / block_rows];
    if (seen.begin == seen.end) continue;
    A* HWY_RESTRICT row = scores + i * tile_keys;
    A& most = state.most[first + i];
    auto greatest = hn::Set(tag, most), other = greatest;
    std::int64_t j = seen.begin;
    for (; j + 2 * lanes <= seen.end; j += 2 * lanes) {
      greatest = hn::Max(greatest, hn::Load(tag, row + j));
      other = hn::Max(other, hn::Load(tag, row + j + lanes));
    }
    if (j < seen.end) greatest = hn::Max(greatest, hn::Load(tag, row + j));
    const A now = hn::GetLane(hn::MaxOfLanes(tag, hn::Max(greatest, other)));
    // While nothing is seen any finite number will do: the weight of -infinity is 0.
    const A reference = now == nothing ? A(0) : now;
    const auto shift = hn::Set(tag, reference);
    A* HWY_RESTRICT sum_at = state.sum + (first + i) * lanes;
    auto sum = hn::Load(tag, sum_at);
    if (now != most) {
      const auto factor = WeightOfScore(tag, hn::Set(tag, most - reference));
      sum = hn::Mul(factor, sum);
      A* HWY_RESTRICT to = state.out + (first + i) * state.width;
      for (std::int64_t d = 0; d < padded(values); d += lanes)
        hn::Store(hn::Mul(factor, hn::Load(tag, to + d)), tag, to + d);
      most = now;
    }
    auto part = hn::Zero(tag);
    for (j = seen.begin; j < seen.end; j += lanes) {
      const auto weight = WeightOfScore(tag, hn::Sub(hn::Load(tag, row + j), shift));
      part = hn::Add(part, weight);
      hn::Store(weight, tag, row + j);
    }
    hn::Store(hn::Add(sum, part), tag, sum_at);
  }
}

// Rows of `from` into those of `to`, in this order.
template <typename A>
void MergeRow(std::int64_t values, A from_most, const A* HWY_RESTRICT from_sum,
              const A* HWY_RESTRICT from_out, A& most, A* HWY_RESTRICT sum,
              A* HWY_RESTRICT out) {
  const hn::ScalableTag<A> tag;
  constexpr std::int64_t lanes = State<A>::lanes;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  if (from_most == nothing) return;
  if (most == nothing) {
    most = from_most;
    std::copy_n(from_sum, lanes, sum);
    std::copy_n(from_out, padded(values), out);
    return;
  }
  const A now = std::max(most, from_most);
  const auto old = WeightOfScore(tag, hn::Set(tag, most - now));
  const auto more = WeightOfScore(tag, hn::Set(tag, from_most - now));
  most = now;
  hn::Store(hn::MulAdd(more, hn::Load(tag, from_sum), hn::Mul(old, hn::Load(tag, sum))), tag,
            sum);
  for (std::int64_t d = 0; d < padded(values); d += lanes)
    hn::Store(
        hn::MulAdd(more, hn::Load(tag, from_out + d), hn::Mul(old, hn::Load(tag, out + d))),
        tag, out + d);
}

// A piece's rows: chunks of at most tile_rows heads one after another; within a chunk query by
// query. body(first head, heads, first row).
template <typename Body>
void ForHeads(const AttentionProblem& problem, const ForwardPiece& piece, const Body& body) {
  const std::int64_t group = problem.group();
  for (std::int64_t g = 0; g < group; g += tile_rows)
    body(piece.key_head * group + g, std::min(tile_rows, group - g), g * piece.queries);
}

template <typename A>
void PackQueries(const ForwardProblem<A>& problem, const ForwardPiece& piece, A* q) {
  const A factor = static_cast<A>(QueryFactor(problem));
  const std::int64_t stride = row_stride(problem.size);
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    for (std::int64_t i = 0; i < piece.queries; ++i)
      for (std::int64_t h = 0; h < heads; ++h) {
        if (i + rows_ahead < piece.queries)
          PrefetchRow(problem.q, piece.batch, piece.query + i + rows_ahead, head + h,
                      problem.size);
        A* to = q + (row + i * heads + h) * stride;
        LoadRow(problem.q, problem.position.queries, piece.batch, piece.query + i, head + h,
                problem.size, to);
        RotateRow(problem.position.query_rotary, piece.batch, piece.query + i, Turn::forward,
                  to);
        ScaleRow(factor, padded(problem.size), to);
      }
  });
}

// The keys [begin, end) of one part into `state`, from nothing.
template <typename A>
void RunPart(const ForwardProblem<A>& problem, const ForwardPiece& piece,
             const internal::KeyRange& range, const ForwardScratch<A>& at,
             const State<A>& state) {
  state.Clear();
  const std::int64_t size = problem.size, values = problem.value_size;
  for (std::int64_t key = range.begin / tile_keys * tile_keys; key < range.end;
       key += tile_keys) {
    const std::int64_t keys = std::min(tile_keys, range.end - key);
    PackKeyRows(problem.k, problem.position.keys, problem.position.key_rotary, piece.batch, key,
                keys, piece.key_head, size, at.row_room, PackedRows<A>{nullptr, at.key_panels});
    PackKeyRows(problem.v, problem.position.keys, nullptr, piece.batch, key, keys,
                piece.key_head, values, at.row_room, PackedRows<A>{at.value, nullptr});
    ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
      const std::int64_t queries = std::max<std::int64_t>(1, tile_rows / heads);
      for (std::int64_t i = 0; i < piece.queries; i += queries) {
        const Tile tile =
            trimmed(problem, Tile{piece.batch, head, heads, piece.query + i,
                                  std::min(queries, piece.queries - i), key, keys});
        if (!tile.keys) continue;
        const std::int64_t first = row + i * heads;
        SeenColumns columns;
        FindColumns<A>(problem, tile, columns);
        MakeScores(problem, tile, columns, at.q + first * row_stride(size), at.key_panels,
                   at.bias, at.scores);
        TakeScores(tile, columns, values, at.scores, state, first);
        MultiplyWeights(tile, columns, values, at.scores, at.value,
                        state.out + first * state.width);
      }
    });
  }
}

template <typename A>
void WriteRow(const ForwardProblem<A>& problem, std::int64_t b, std::int64_t query,
              std::int64_t head, A most, const A* sum_lanes, const A* out) {
  const hn::ScalableTag<A> tag;
  const double sum =
      static_cast<double>(hn::GetLane(hn::SumOfLanes(tag, hn::Load(tag, sum_lanes))));
  double scale = sum == 0 ? 0 : 1 / sum;
  double lse = -std::numeric_limits<double>::infinity();
  if (sum != 0) lse = ln_of_2 * (static_cast<double>(most) + std::log2(sum));
  if (!problem.softmax.sinks.empty()) {
    // The sink takes its share of the weight and gives nothing.
    const double sink = problem.softmax.sinks[static_cast<std::size_t>(head)];
    const double together = std::max(sink, lse);
    const double all =
        together + std::log(std::exp(sink - together) + std::exp(lse - together));
    if (sum != 0) scale *= std::exp(lse - all);
    lse = all;
  }
  StoreRow(problem.out, b, query, head, problem.value_size, static_cast<A>(scale), out);
  if (problem.lse.data()) problem.lse(b, head, query) = static_cast<A>(lse);
}

template <typename A>
void RunPiece(const ForwardProblem<A>& problem, const ForwardPiece& piece,
              const ForwardScratch<A>& at) {
  PackQueries(problem, piece, at.q);
  const std::int64_t begin = visible_keys(problem, piece.query).begin;
  const std::int64_t end = visible_keys(problem, piece.query + piece.queries - 1).end;
  bool first = true;
  for (std::int64_t part = begin / part_keys * part_keys; part < end || first;
       part += part_keys, first = false) {
    const internal::KeyRange range{std::max(part, begin), std::min(part + part_keys, end)};
    RunPart(problem, piece, range, at, first ? at.total : at.part);
    if (first) continue;
    for (std::int64_t row = 0; row < at.total.rows; ++row)
      MergeRow(problem.value_size, at.part.most[row], at.part.sum + row * State<A>::lanes,
               at.part.out + row * at.part.width, at.total.most[row],
               at.total.sum + row * State<A>::lanes, at.total.out + row * at.total.width);
  }
  ForHeads(problem, piece, [&](std::int64_t head, std::int64_t heads, std::int64_t row) {
    for (std::int64_t i = 0; i < piece.queries * heads; ++i, ++row)
      WriteRow(problem, piece.batch, piece.query + i / heads, head + i % heads,
               at.total.most[row], at.total.sum + row * State<A>::lanes,
               at.total.out + row * at.total.width);
  });
}

template <typename A>
void ForwardAll(const ForwardProblem<A>& problem) {
  if (!problem.batch || !problem.queries || !problem.heads) return;
  const ForwardPlan plan(problem);
  const std::int64_t rows = plan.queries * problem.group();
  internal::ScratchPool<A> pool(internal::at_once(plan.pieces, plan.grain),
                                ForwardScratch<A>(problem, rows, nullptr).carve.used());
  parallel_for(plan.pieces, plan.grain, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const ForwardScratch<A> scratch(problem, rows, block);
    for (std::int64_t n = begin; n < end; ++n) {
      // The longest first: the last queries see the most keys.
      const std::int64_t pair = n % (problem.batch * problem.key_heads);
      const std::int64_t query =
          (plan.chunks - 1 - n / (problem.batch * problem.key_heads)) * plan.queries;
      RunPiece(problem,
               ForwardPiece{pair / problem.key_heads, pair % problem.key_heads, query,
                            std::min(plan.queries, problem.queries - query)},
               scratch);
    }
    pool.give(block);
  });
}

void ForwardFloat(const ForwardProblem<float>& problem) { ForwardAll(problem); }
void ForwardDouble(const ForwardProblem<double>& problem) { ForwardAll(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);

void internal::run_forward(const ForwardProblem<float>& problem) {
  GNOMON_DISPATCH(ForwardFloat)(problem);
}
void internal::run_forward(const ForwardProblem<double>& problem) {
  GNOMON_DISPATCH(ForwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
