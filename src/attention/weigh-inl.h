// Weights and gradients of the scores of one tile.
#if defined(GNOMON_ATTENTION_WEIGH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_WEIGH_INL_H_
#undef GNOMON_ATTENTION_WEIGH_INL_H_
#else
#define GNOMON_ATTENTION_WEIGH_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "src/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Returns the union of the columns of all rows of a tile.
inline Columns Together(const Tile& tile, const SeenColumns& columns) {
  Columns all{tile_keys, 0};
  for (std::int64_t row = 0; row < tile.rows(); row += block_rows) {
    const Columns& seen = columns[row / block_rows];
    if (seen.begin == seen.end) continue;
    all = {std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
  }
  return all;
}

// Replaces scores by p, and score_grad by ds (on entry: dp). Both become 0 where a score is
// hidden, even if the row's lse or dp is NaN, and in the columns of `all` outside those of the
// row.
template <typename A>
void Weigh(const Tile& tile, const SeenColumns& columns, const Columns& all,
           const A* HWY_RESTRICT lse, const A* HWY_RESTRICT delta, A* HWY_RESTRICT scores,
           A* HWY_RESTRICT score_grad) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto nothing = hn::Set(tag, -std::numeric_limits<A>::infinity());
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    A* HWY_RESTRICT row = scores + i * tile_keys;
    A* HWY_RESTRICT grad = score_grad + i * tile_keys;
    const Columns& seen = columns[i / block_rows];
    const bool none = seen.begin == seen.end;
    const std::int64_t begin = none ? all.end : seen.begin, end = none ? all.end : seen.end;
    std::fill(row + all.begin, row + begin, A(0));
    std::fill(grad + all.begin, grad + begin, A(0));
    const auto shift = hn::Set(tag, lse[i]), mean = hn::Set(tag, delta[i]);
    for (std::int64_t j = begin; j < end; j += lanes) {
      const auto score = hn::Load(tag, row + j);
      const auto hidden = hn::Eq(score, nothing);
      const auto p = hn::IfThenZeroElse(hidden, WeightOfScore(tag, hn::Sub(score, shift)));
      const auto ds = hn::Mul(p, hn::Sub(hn::Load(tag, grad + j), mean));
      hn::Store(p, tag, row + j);
      hn::Store(hn::IfThenZeroElse(hidden, ds), tag, grad + j);
    }
    std::fill(row + end, row + all.end, A(0));
    std::fill(grad + end, grad + all.end, A(0));
  }
}

// Multiplies gradients of scores by the derivative of the cap. (The bias is added after the
// cap, so its gradient is that of the scores.) Zeros, as of hidden scores, remain zeros.
template <typename A>
void TimesSlope(const Tile& tile, const SeenColumns& columns, const A* HWY_RESTRICT slope,
                A* HWY_RESTRICT score_grad) {
  const hn::ScalableTag<A> tag;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns& seen = columns[i / block_rows];
    for (std::int64_t j = seen.begin; j < seen.end;
         j += static_cast<std::int64_t>(hn::Lanes(tag))) {
      A* at = score_grad + i * tile_keys + j;
      const auto grad = hn::Load(tag, at);
      const auto product = hn::Mul(grad, hn::Load(tag, slope + i * tile_keys + j));
      hn::Store(hn::IfThenZeroElse(hn::Eq(grad, hn::Zero(tag)), product), tag, at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
