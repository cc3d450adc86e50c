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

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Returns the greatest length of each head's vectors, [B, heads]; NaN if a vector contains a
// NaN.
template <typename A>
std::vector<double> Lengths(const Operand& of, std::int64_t batch, std::int64_t rows,
                            std::int64_t heads, std::int64_t size) {
  std::vector<double> lengths(static_cast<std::size_t>(batch * heads));
  internal::ScratchPool<A> pool(internal::at_once(batch * heads, 1), padded(size));
  parallel_for(batch * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    const hn::ScalableTag<A> tag;
    A* scratch = pool.take();
    for (std::int64_t n = begin; n < end; ++n) {
      auto greatest = hn::Zero(tag), spoilt = hn::Zero(tag);
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

// Fills problem.reach. The greatest score of a query is at least that of the key at its own
// row, which is at least -|q| |k|. A score at distance n is at most |q| |k| - slope n. If their
// difference exceeds LeastExponent(), the weight is 0.
template <typename A>
void FindReach(internal::TypedProblem<A>& problem) {
  // Limits: with fewer queries, reading all keys once more takes longer; in shorter texts no
  // key is far.
  constexpr std::int64_t fewest = 64, shortest = 1024;
  const auto* slope = std::get_if<SlopeBias>(problem.position.bias);
  if (!slope || problem.queries < fewest || problem.keys < shortest ||
      problem.position.queries || problem.position.query_rotary || !problem.relative.empty() ||
      !problem.relative.shift.empty() || problem.gated() || problem.position.key_rotary ||
      problem.softmax.cap || problem.mask.offset > problem.keys - problem.queries)
    return;
  const auto q =
      Lengths<A>(problem.q, problem.batch, problem.queries, problem.heads, problem.size);
  const auto k =
      Lengths<A>(problem.k, problem.batch, problem.keys, problem.key_heads, problem.size);
  problem.reach.resize(q.size());
  for (std::int64_t n = 0; n < problem.batch * problem.heads; ++n) {
    const std::int64_t b = n / problem.heads, head = n % problem.heads;
    const double of_keys =
        k[static_cast<std::size_t>(b * problem.key_heads + head / problem.group())];
    const double product =
        std::abs(problem.softmax.scale) * q[static_cast<std::size_t>(n)] * of_keys;
    // Plus one, and a hundredth of the products, as a margin for rounding.
    const double least = (1 - static_cast<double>(LeastExponent<A>())) * ln_of_2;
    const double reach =
        (least + 2.01 * product) / slope->slopes[static_cast<std::size_t>(head)];
    problem.reach[static_cast<std::size_t>(n)] = reach >= 0 && reach < 0x1p40
                                                     ? static_cast<std::int64_t>(reach) + 1
                                                     : internal::unbounded;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
