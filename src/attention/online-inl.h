// Online softmax: running maxima, sums and outputs of rows, updated tile by tile and merged.
#if defined(GNOMON_ATTENTION_ONLINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_ONLINE_INL_H_
#undef GNOMON_ATTENTION_ONLINE_INL_H_
#else
#define GNOMON_ATTENTION_ONLINE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/attention/scores-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::ForwardProblem;

// The distance of packed queries, and of packed keys, in floats.
inline std::int64_t QueryStride(const AttentionProblem& problem) {
  return row_stride(problem.pairs ? pairs_of(problem.size) : problem.size);
}

// Running maxima, sums and outputs of the rows of a piece. The sum of a row is a vector, whose
// lanes are added at the end.
template <typename A>
struct State {
  A *most, *sum, *out;
  std::int64_t rows, width;  // width: row stride of out

  static constexpr std::int64_t lanes =
      static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  State(internal::Carve<A>& carve, std::int64_t row_count, std::int64_t values)
      : rows(row_count), width(row_stride(values)) {
    most = carve.take(rows);
    sum = carve.take(rows * lanes);
    out = carve.take(rows * width);
  }
  void Clear() const { Clear(0, rows); }
  void Clear(std::int64_t first, std::int64_t count) const {
    std::fill_n(most + first, count, -std::numeric_limits<A>::infinity());
    std::fill_n(sum + first * lanes, count * lanes, A(0));
    std::fill_n(out + first * width, count * width, A(0));
  }
};

// Updates the state with `count` rows of scores that have the same columns. Scores become
// 2^(score - maximum). Into::onto_zero: the state is not read, and its `out` not written.
template <Into into, int count, typename A>
HWY_INLINE void TakeRows(const Columns& seen, std::int64_t values, A* HWY_RESTRICT scores,
                         const State<A>& state, std::int64_t first) {
  const hn::ScalableTag<A> tag;
  using V = hn::Vec<decltype(tag)>;
  constexpr std::int64_t lanes = State<A>::lanes;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  V greatest[count], shift[count], sum[count];
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r)
    greatest[r] = hn::Set(tag, into == Into::add ? state.most[first + r] : nothing);
  for (std::int64_t j = seen.begin; j < seen.end; j += lanes)
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r)
      greatest[r] = hn::Max(greatest[r], hn::Load(tag, scores + r * tile_keys + j));
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) {
    A& most = state.most[first + r];
    const A now = hn::GetLane(hn::MaxOfLanes(tag, greatest[r]));
    // While no key is visible any finite number is correct: the weight of -infinity is 0.
    const A reference = now == nothing ? A(0) : now;
    shift[r] = hn::Set(tag, reference);
    sum[r] = hn::Zero(tag);
    if (into == Into::onto_zero) {
      most = now;
      continue;
    }
    if (now == most) continue;
    A* HWY_RESTRICT to = state.out + (first + r) * state.width;
    const auto factor = WeightOfScore(tag, hn::Set(tag, most - reference));
    A* HWY_RESTRICT total = state.sum + (first + r) * lanes;
    hn::Store(hn::Mul(factor, hn::Load(tag, total)), tag, total);
    for (std::int64_t d = 0; d < padded(values); d += lanes)
      hn::Store(hn::Mul(factor, hn::Load(tag, to + d)), tag, to + d);
    most = now;
  }
  for (std::int64_t j = seen.begin; j < seen.end; j += lanes)
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      A* at = scores + r * tile_keys + j;
      const auto weight = WeightOfScore(tag, hn::Sub(hn::Load(tag, at), shift[r]));
      sum[r] = hn::Add(sum[r], weight);
      hn::Store(weight, tag, at);
    }
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) {
    A* HWY_RESTRICT total = state.sum + (first + r) * lanes;
    hn::Store(into == Into::add ? hn::Add(hn::Load(tag, total), sum[r]) : sum[r], tag, total);
  }
}

// Updates the state of the rows from `first` with a tile of scores. Into::onto_zero: the first
// of these rows; rows without columns are cleared.
template <Into into = Into::add, typename A>
void TakeScores(const Tile& tile, const SeenColumns& columns, std::int64_t values,
                A* HWY_RESTRICT scores, const State<A>& state, std::int64_t first) {
  constexpr std::int64_t together = 3;
  static_assert(block_rows % together == 0);  // so these rows have the same columns
  for (std::int64_t i = 0; i < tile.rows();) {
    const Columns& seen = columns[i / block_rows];
    if (seen.begin == seen.end) {
      if (into == Into::onto_zero)
        state.Clear(first + i, std::min(block_rows, tile.rows() - i));
      i += block_rows;
    } else if (i + together <= tile.rows()) {
      TakeRows<into, together>(seen, values, scores + i * tile_keys, state, first + i);
      i += together;
    } else {
      TakeRows<into, 1>(seen, values, scores + i * tile_keys, state, first + i);
      ++i;
    }
  }
}

// Merges rows of `from` into rows of `to`, in this order.
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

// Merges the rows of `part` into those of `total`.
template <typename A>
void MergeStates(const State<A>& part, const State<A>& total, std::int64_t values) {
  for (std::int64_t row = 0; row < total.rows; ++row)
    MergeRow(values, part.most[row], part.sum + row * State<A>::lanes,
             part.out + row * part.width, total.most[row], total.sum + row * State<A>::lanes,
             total.out + row * total.width);
}

// Stores lse and returns the factor of the sums of a row: `scale`, less the share of a sink.
template <typename A>
HWY_NOINLINE double FinishRow(const ForwardProblem<A>& problem, std::int64_t b,
                              std::int64_t query, std::int64_t head, A most, double sum,
                              double scale) {
  double lse = -std::numeric_limits<double>::infinity();
  if (sum != 0) lse = ln_of_2 * (static_cast<double>(most) + std::log2(sum));
  const double sink = problem.has_sinks() ? problem.sink(b, head, query)
                                          : -std::numeric_limits<double>::infinity();
  if (sink != -std::numeric_limits<double>::infinity()) {
    // The sink takes its share of the weight and has a value of zero.
    const double together = std::max(sink, lse);
    const double all =
        together + std::log(std::exp(sink - together) + std::exp(lse - together));
    if (sum != 0) scale *= std::exp(lse - all);
    lse = all;
  }
  if (problem.lse.data()) {
    const internal::Place at = problem.out.places(b, query);
    problem.lse(at.batch, head, at.row) = static_cast<A>(lse);
  }
  return scale;
}

template <typename A>
HWY_INLINE void WriteRow(const ForwardProblem<A>& problem, std::int64_t b, std::int64_t query,
                         std::int64_t head, A most, const A* sum_lanes, const A* out) {
  const hn::ScalableTag<A> tag;
  const double sum = static_cast<double>(SumLanes(tag, hn::Load(tag, sum_lanes)));
  double scale = sum == 0 ? 0 : 1 / sum;
  if (problem.lse.data() || problem.has_sinks())
    scale = FinishRow(problem, b, query, head, most, sum, scale);
  StoreRow(problem.out, b, query, head, problem.value_dim, static_cast<A>(scale), out);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
