// The reach of a head with a slope: the distance beyond which weights are 0 for any queries and
// keys of the call.
#if defined(GNOMON_ATTENTION_REACH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_REACH_INL_H_
#undef GNOMON_ATTENTION_REACH_INL_H_
#else
#define GNOMON_ATTENTION_REACH_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gnomon/parallel.h"
#include "src/attention/pack-inl.h"
#include "src/attention/softmax-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Returns the greatest length of each head's vectors, [B, heads]; NaN if a vector contains a
// NaN. rows_of(b): the number of rows of sequence b.
template <typename A, typename RowsOf>
std::vector<double> Lengths(const Operand& of, std::int64_t batch, const RowsOf& rows_of,
                            std::int64_t heads, std::int64_t size) {
  std::vector<double> lengths(static_cast<std::size_t>(batch * heads));
  internal::ScratchPool<A> pool(internal::at_once(batch * heads, 1), padded(size));
  parallel_for(batch * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    const hn::ScalableTag<A> tag;
    A* scratch = pool.take();
    for (std::int64_t n = begin; n < end; ++n) {
      auto greatest = hn::Zero(tag), spoilt = hn::Zero(tag);
      const std::int64_t rows = rows_of(n / heads);
      for (std::int64_t row = 0; row < rows; ++row) {
        if (row + rows_ahead < rows)
          PrefetchRow(of, n / heads, row + rows_ahead, n % heads, size);
        LoadRow(of, nullptr, n / heads, row, n % heads, size, scratch);
        auto sum = hn::Zero(tag);
        for (std::int64_t i = 0; i < padded(size);
             i += static_cast<std::int64_t>(hn::Lanes(tag))) {
          const auto x = hn::Load(tag, scratch + i);
          sum = hn::MulAdd(x, x, sum);
        }
        sum = hn::SumOfLanes(tag, sum);
        greatest = hn::Max(greatest, sum);
        spoilt = hn::Add(spoilt, hn::Sub(sum, sum));  // NaN if a sum is not finite
      }
      lengths[static_cast<std::size_t>(n)] =
          std::sqrt(static_cast<double>(hn::GetLane(greatest)) +
                    static_cast<double>(hn::GetLane(spoilt)));
    }
    pool.give(scratch);
  });
  return lengths;
}

// Whether each query sees the key at its own row, unless it sees no key.
inline bool SeesOwnKey(const AttentionProblem& problem) {
  if (!problem.position.queries) return true;
  for (std::int64_t b = 0; b < problem.batch; ++b)
    if (!std::equal(internal::sequences(problem.position.queries, b),
                    internal::sequences(problem.position.queries, b) + problem.queries,
                    internal::sequences(problem.position.keys, b) + problem.mask.offset))
      return false;
  return true;
}

// Fills problem.reach or problem.cumulative.least. The greatest score of a query is at least
// that of the key at its own row, so at least -|q| |k|. A score is at most |q| |k| plus its
// bias. If their difference exceeds LeastExponent(), the weight is 0.
template <typename A>
void FindReach(internal::TypedProblem<A>& problem) {
  // Limits: with fewer queries, reading all keys once more takes longer; in shorter texts no
  // key is far.
  constexpr std::int64_t fewest = 64, shortest = 1024;
  const auto* slope = std::get_if<SlopeBias>(problem.position.bias);
  const CumulativeBias* cumulative = problem.position.cumulative;
  // Sequences with few queries, a short text, or queries behind the keys keep all keys.
  const auto is_long = [&](std::int64_t b) {
    return problem.queries_of(b) >= fewest && problem.keys_of(b) >= shortest &&
           problem.offset_of(b) <= problem.keys_of(b) - problem.queries_of(b);
  };
  bool any = false;
  for (std::int64_t b = 0; b < problem.batch && !any; ++b) any = is_long(b);
  const bool one = cumulative ? std::holds_alternative<NoBias>(*problem.position.bias)
                              : slope && !problem.position.queries;
  if (!any || !one || problem.position.query_rotary || !problem.relative.empty() ||
      !problem.relative.shift.empty() || problem.gated() || problem.position.key_rotary ||
      problem.position.key_slopes.data() || problem.softmax.cap || problem.position.polar ||
      !SeesOwnKey(problem))
    return;
  const auto q = Lengths<A>(
      problem.q, problem.batch,
      [&](std::int64_t b) { return is_long(b) ? problem.queries_of(b) : 0; }, problem.heads,
      problem.size);
  const auto k = Lengths<A>(
      problem.k, problem.batch,
      [&](std::int64_t b) { return is_long(b) ? problem.keys_of(b) : 0; }, problem.key_heads,
      problem.size);
  auto& least_sums = problem.cumulative.least;
  if (cumulative)
    least_sums.resize(q.size());
  else
    problem.reach.resize(q.size());
  // Plus one, and a hundredth of the products, as a margin for rounding.
  double least = (1 - static_cast<double>(LeastExponent<A>())) * ln_of_2;
  if (cumulative && cumulative->lost_weight > 0)
    least = std::min(
        least, std::log(static_cast<double>(problem.keys)) - std::log(cumulative->lost_weight));
  for (std::size_t n = 0; n < q.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n), head = row % problem.heads;
    const double of_keys = k[static_cast<std::size_t>(row / problem.heads * problem.key_heads +
                                                      head / problem.group())];
    const double product = std::abs(problem.softmax.scale) * q[n] * of_keys;
    const double below = least + 2.01 * product;
    if (cumulative) {  // NaN: no key is skipped
      least_sums[n] = below < 0x1p40 ? -below * log2_of_e : -HUGE_VAL;
      continue;
    }
    if (!is_long(row / problem.heads)) {
      problem.reach[n] = internal::unbounded;
      continue;
    }
    const double reach = below / slope->slopes[static_cast<std::size_t>(head)];
    problem.reach[n] = reach >= 0 && reach < 0x1p40 ? static_cast<std::int64_t>(reach) + 1
                                                    : internal::unbounded;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
