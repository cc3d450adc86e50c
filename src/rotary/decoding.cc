#include "gnomon/rotary/decoding.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/angles.h"
#include "src/rotary/check.h"
#include "src/rotary/growth.h"
#include "src/rotary/turn.h"

namespace gnomon {
namespace {

using rotary_internal::batch_of_one;
using rotary_internal::Way;
using std::int64_t;

constexpr int64_t chunk = 256;  // pairs whose cosines and sines are held at a time

void check_positions(const RotarySchedule& schedule, View<const int64_t, 3> positions,
                     int64_t batch, int64_t tokens) {
  rotary_internal::check(schedule, positions.extent(0));
  if (positions.extent(0) < 1)
    refuse("rotary", "positions must have at least one axis", positions.extent(0));
  internal::check_frequencies(schedule.inv_freq);
  if ((positions.extent(1) != 1 && positions.extent(1) != batch) ||
      positions.extent(2) != tokens)
    refuse("rotary",
           "positions must be [A, 1 or B, T] = [A, 1 or " + std::to_string(batch) + ", " +
               std::to_string(tokens) + "]",
           shape_text(positions.extents()));
  constexpr int64_t most = int64_t{1} << 31;
  for (int64_t axis = 0; axis < positions.extent(0); ++axis)
    for (int64_t b = 0; b < positions.extent(1); ++b)
      for (int64_t t = 0; t < tokens; ++t)
        if (const int64_t p = positions(axis, b, t); p < -most || p > most)
          refuse("rotary", "positions must be at most 2^31 in magnitude", p);
}

// The cosines and sines of pairs [begin, end) of one token, at position(axis).
template <typename Position>
void make_factors(internal::PairAngles angles, const RotarySchedule& schedule, int64_t begin,
                  int64_t end, const Position& position, float* cos, float* sin) {
  const auto first = static_cast<std::size_t>(begin);
  const double* const frequencies = schedule.inv_freq.data() + first;
  int64_t at[chunk];
  const bool one_axis = schedule.axes.empty();
  if (one_axis) at[0] = position(0);
  for (int64_t i = begin; !one_axis && i < end; ++i)
    at[i - begin] = position(schedule.axes[static_cast<std::size_t>(i)]);
  angles(at, one_axis ? 0 : 1, frequencies, end - begin, schedule.table_scale, cos, sin);
  if (schedule.growth.empty()) return;
  for (int64_t i = begin; i < end; ++i)
    rotary_internal::grow(schedule, static_cast<std::size_t>(i), at[one_axis ? 0 : i - begin],
                          cos[i - begin], sin[i - begin]);
}

// All have the rows and tokens that positions were checked for.
template <typename... T, typename... U>
void turn_at(const RotarySchedule& schedule, View<const int64_t, 3> positions,
             const Way<T, U>&... ways) {
  const internal::PairAngles angles = internal::pair_angles();
  const int64_t pairs = schedule.dim() / 2;
  rotary_internal::for_tokens(
      [&](int64_t b, int64_t t, int64_t count) {
        float cos[chunk], sin[chunk];
        const int64_t row = positions.extent(1) == 1 ? 0 : b;
        for (const int64_t last = t + count; t < last; ++t)
          for (int64_t begin = 0; begin < pairs; begin += chunk) {
            const int64_t end = std::min(pairs, begin + chunk);
            make_factors(
                angles, schedule, begin, end,
                [&](std::int32_t axis) { return positions(axis, row, t); }, cos, sin);
            (rotary_internal::turn_kernel<T, U>()(ways.heads(schedule, b, t), {cos, sin, 0, 1},
                                                  schedule.pairing, begin, end, 1),
             ...);
          }
      },
      ways...);
}

template <typename Q, typename K>
void check_rows(const Q& q, const K& k) {
  if (k.extent(0) != q.extent(0) || k.extent(1) != q.extent(1))
    refuse("rotary",
           "k must have the rows and tokens of q, " + std::to_string(q.extent(0)) + " x " +
               std::to_string(q.extent(1)),
           std::to_string(k.extent(0)) + " x " + std::to_string(k.extent(1)));
}

// [T] as [A, 1, T], the same on every axis that the schedule names.
View<const int64_t, 3> on_all_axes(const RotarySchedule& schedule,
                                   std::span<const int64_t> positions) {
  std::int32_t axes = 1;
  for (const std::int32_t axis : schedule.axes) axes = std::max(axes, axis + 1);
  return {positions.data(), {axes, 1, std::ssize(positions)}, {0, 0, 1}};
}

}  // namespace

template <typename T>
void rotate_at(View<T, 4> q, View<T, 4> k, const RotarySchedule& schedule,
               View<const int64_t, 3> positions) {
  check_positions(schedule, positions, q.extent(0), q.extent(1));
  check_rows(q, k);
  rotary_internal::check_heads(q, schedule);
  rotary_internal::check_heads(k, schedule);
  turn_at(schedule, positions, Way<T, T>(q), Way<T, T>(k));
}
template <typename T>
void rotate_at(View<T, 4> x, const RotarySchedule& schedule, View<const int64_t, 3> positions) {
  check_positions(schedule, positions, x.extent(0), x.extent(1));
  rotary_internal::check_heads(x, schedule);
  turn_at(schedule, positions, Way<T, T>(x));
}
template <typename T>
void rotate_at(View<T, 3> q, View<T, 3> k, const RotarySchedule& schedule,
               std::span<const int64_t> positions) {
  rotate_at(batch_of_one(q), batch_of_one(k), schedule, on_all_axes(schedule, positions));
}
template <typename T>
void rotate_at(View<T, 3> x, const RotarySchedule& schedule,
               std::span<const int64_t> positions) {
  rotate_at(batch_of_one(x), schedule, on_all_axes(schedule, positions));
}

template <typename T, typename U>
void rotate_append_at(View<T, 4> q, std::type_identity_t<View<const T, 4>> k,
                      const RotarySchedule& schedule, View<const int64_t, 3> positions,
                      View<U, 4> slot) {
  check_positions(schedule, positions, q.extent(0), q.extent(1));
  check_rows(q, k);
  rotary_internal::check_heads(q, schedule);
  rotary_internal::check_heads(k, schedule);
  rotary_internal::check_target("slot", k, slot);
  turn_at(schedule, positions, Way<T, T>(q), Way<T, U>(k, slot));
}
template <typename T, typename U>
void rotate_append_at(View<T, 3> q, std::type_identity_t<View<const T, 3>> k,
                      const RotarySchedule& schedule, std::span<const int64_t> positions,
                      View<U, 3> slot) {
  rotate_append_at<T>(batch_of_one(q), batch_of_one(k), schedule,
                      on_all_axes(schedule, positions), batch_of_one(slot));
}

#define GNOMON_INSTANTIATE(T)                                                         \
  template void rotate_at(View<T, 4>, View<T, 4>, const RotarySchedule&,              \
                          View<const int64_t, 3>);                                    \
  template void rotate_at(View<T, 4>, const RotarySchedule&, View<const int64_t, 3>); \
  template void rotate_at(View<T, 3>, View<T, 3>, const RotarySchedule&,              \
                          std::span<const int64_t>);                                  \
  template void rotate_at(View<T, 3>, const RotarySchedule&, std::span<const int64_t>);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE
#define GNOMON_INSTANTIATE(T, U)                                                      \
  template void rotate_append_at(View<T, 4>, View<const T, 4>, const RotarySchedule&, \
                                 View<const int64_t, 3>, View<U, 4>);                 \
  template void rotate_append_at(View<T, 3>, View<const T, 3>, const RotarySchedule&, \
                                 std::span<const int64_t>, View<U, 3>);
GNOMON_INSTANTIATE(float, float)
GNOMON_INSTANTIATE(double, double)
GNOMON_INSTANTIATE(Half, Half)
GNOMON_INSTANTIATE(BFloat16, BFloat16)
GNOMON_INSTANTIATE(float, Half)
GNOMON_INSTANTIATE(float, BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
