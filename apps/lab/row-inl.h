// Loops over the numbers of a row: full vectors first, then single numbers.
#if defined(GNOMON_LAB_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_LAB_ROW_INL_H_
#undef GNOMON_LAB_ROW_INL_H_
#else
#define GNOMON_LAB_ROW_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon::lab::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls body(tag, i) for each vector that begins at i.
template <class Body>
HWY_INLINE void ForRow(std::int64_t width, const Body& body) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) body(tag, i);
  for (; i < width; ++i) body(single, i);
}

// Calls body(tag, i, first, second), which adds to two sums.
template <class Body>
HWY_INLINE void SumsOverRow(std::int64_t width, const Body& body, float& first, float& second) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto a = hn::Zero(tag), b = hn::Zero(tag);
  auto rest_a = hn::Zero(single), rest_b = hn::Zero(single);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) body(tag, i, a, b);
  for (; i < width; ++i) body(single, i, rest_a, rest_b);
  first = hn::GetLane(hn::SumOfLanes(tag, a)) + hn::GetLane(rest_a);
  second = hn::GetLane(hn::SumOfLanes(tag, b)) + hn::GetLane(rest_b);
}

// Returns the sum of body(tag, i).
template <class Body>
HWY_INLINE float SumOverRow(std::int64_t width, const Body& body) {
  float sum = 0, unused = 0;
  SumsOverRow(
      width,
      [&](auto tag, std::int64_t i, auto& a, auto&) HWY_ATTR { a = hn::Add(a, body(tag, i)); },
      sum, unused);
  return sum;
}

}  // namespace gnomon::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
