// Sums and products over the lanes of a vector, from either end.
#if defined(GNOMON_ATTENTION_LANE_SHIFTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_LANE_SHIFTS_INL_H_
#undef GNOMON_ATTENTION_LANE_SHIFTS_INL_H_
#else
#define GNOMON_ATTENTION_LANE_SHIFTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Moves lanes of a vector by 1, 2, 4, ... lanes, towards the first lane or the last one.
template <typename A>
struct LaneShifts {
  using Tag = hn::ScalableTag<A>;
  using V = hn::Vec<Tag>;
  static constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));
  static constexpr int steps = lanes >= 16 ? 4 : lanes >= 8 ? 3 : lanes >= 4 ? 2 : lanes >= 2;
  using Index = hn::TFromD<hn::RebindToSigned<Tag>>;
  HWY_ALIGN Index down[steps + 1][lanes], up[steps + 1][lanes];

  LaneShifts() {
    for (int s = 0; s <= steps; ++s)
      for (int i = 0; i < lanes; ++i) {
        down[s][i] = static_cast<Index>(std::min(i + (1 << s), lanes - 1));
        up[s][i] = static_cast<Index>(std::max(i - (1 << s), 0));
      }
  }
  // Lane i becomes lane i + 2^s; `fill` past the end.
  HWY_INLINE V Down(V v, int s, V fill) const {
    const Tag tag;
    const auto moved = hn::TableLookupLanes(v, hn::SetTableIndices(tag, down[s]));
    return hn::IfThenElse(hn::FirstN(tag, static_cast<std::size_t>(lanes - (1 << s))), moved,
                          fill);
  }
  // Lane i becomes lane i - 2^s; 0 before the start.
  HWY_INLINE V Up(V v, int s) const {
    const Tag tag;
    const auto moved = hn::TableLookupLanes(v, hn::SetTableIndices(tag, up[s]));
    return hn::IfThenZeroElse(hn::FirstN(tag, std::size_t{1} << s), moved);
  }
  HWY_INLINE V SumsFromRight(V v) const {
#pragma GCC unroll 4
    for (int s = 0; s < steps; ++s) v = hn::Add(v, Down(v, s, hn::Zero(Tag())));
    return v;
  }
  HWY_INLINE V ProductsFromRight(V v) const {
#pragma GCC unroll 4
    for (int s = 0; s < steps; ++s) v = hn::Mul(v, Down(v, s, hn::Set(Tag(), A(1))));
    return v;
  }
  HWY_INLINE V SumsFromLeft(V v) const {
#pragma GCC unroll 4
    for (int s = 0; s < steps; ++s) v = hn::Add(v, Up(v, s));
    return v;
  }
  // The last lane as a number.
  static HWY_INLINE A Last(V v) { return hn::GetLane(hn::Reverse(Tag(), v)); }
};

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
