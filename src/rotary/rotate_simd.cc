// Turning queries and keys, and turning them back.
#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"
#include "src/rotary/turn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/rotary/batch.h"
#include "src/rotary/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

#define GNOMON_TURN(T, Name)                                                             \
  void Turn##Name(T* x, const float* cos, const float* sin, float sign, Pairing pairing, \
                  std::int64_t pairs) {                                                  \
    TurnElements(x, x, cos, sin, sign, pairing, pairs);                                  \
  }
GNOMON_TURN(float, F32)
GNOMON_TURN(double, F64)
GNOMON_TURN(Half, F16)
GNOMON_TURN(BFloat16, BF16)
#undef GNOMON_TURN

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

HWY_EXPORT(TurnF32);
HWY_EXPORT(TurnF64);
HWY_EXPORT(TurnF16);
HWY_EXPORT(TurnBF16);
auto kernel(const float*) { return &GNOMON_DISPATCH(TurnF32); }
auto kernel(const double*) { return &GNOMON_DISPATCH(TurnF64); }
auto kernel(const Half*) { return &GNOMON_DISPATCH(TurnF16); }
auto kernel(const BFloat16*) { return &GNOMON_DISPATCH(TurnBF16); }

constexpr std::int64_t grain_elements = 1 << 15;  // of a piece worth a thread

}  // namespace

namespace rotary_internal {

template <typename T>
void check_heads(const View<T, 4>& x, const RotarySchedule& schedule) {
  if (x.extent(3) - schedule.dim() < schedule.first)  // no sum: `first` may be anything
    refuse("rotary",
           "x must have at least first + dim = " + std::to_string(schedule.first) + " + " +
               std::to_string(schedule.dim()) + " elements per head",
           std::int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
}

template <typename T>
void check_fits(const View<T, 4>& x, const RotaryTable& table) {
  if (x.extent(1) != table.tokens())
    refuse("rotary", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("rotary", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  check_heads(x, table.schedule());
}

Turns turns_of(const RotaryTable& table, std::ptrdiff_t batch, float sign) {
  const auto shared = [&](const View<const float, 3>& of) {
    return View<const float, 3>(
        of.data(), {batch, of.extent(1), of.extent(2)},
        {table.batch() == 1 ? 0 : of.stride(0), of.stride(1), of.stride(2)});
  };
  return {shared(table.cos()), shared(table.sin()), sign};
}

template <typename T>
void turn(View<T, 4> x, const RotarySchedule& schedule, const Turns& turns) {
  const auto turn_head = kernel(x.data());
  const std::int64_t tokens = x.extent(1), heads = x.extent(2), pairs = schedule.dim() / 2;
  const std::int64_t grain = std::max<std::int64_t>(
      1, grain_elements / std::max<std::int64_t>(1, heads * schedule.dim()));
  parallel_for(x.extent(0) * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const float *c = &turns.cos(b, t, 0), *s = &turns.sin(b, t, 0);
      for (std::int64_t h = 0; h < heads; ++h)
        turn_head(&x(b, t, h, schedule.first), c, s, turns.sign, schedule.pairing, pairs);
    }
  });
}

#define GNOMON_INSTANTIATE(T)                                            \
  template void check_heads(const View<T, 4>&, const RotarySchedule&);   \
  template void check_fits(const View<T, 4>&, const RotaryTable&);       \
  template void check_fits(const View<const T, 4>&, const RotaryTable&); \
  template void turn(View<T, 4>, const RotarySchedule&, const Turns&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace rotary_internal

using rotary_internal::batch_of_one;

template <typename T>
void rotate(View<T, 4> x, const RotaryTable& table) {
  rotary_internal::check_fits(x, table);
  rotary_internal::turn(x, table.schedule(), rotary_internal::turns_of(table, x.extent(0)));
}
template <typename T>
void rotate(View<T, 3> x, const RotaryTable& table) {
  rotate(batch_of_one(x), table);
}
template <typename T>
void rotate_backward(View<T, 4> grad, const RotaryTable& table) {
  rotary_internal::check_fits(grad, table);
  rotary_internal::turn(grad, table.schedule(),
                        rotary_internal::turns_of(table, grad.extent(0), -1));
}
template <typename T>
void rotate_backward(View<T, 3> grad, const RotaryTable& table) {
  rotate_backward(batch_of_one(grad), table);
}

#define GNOMON_INSTANTIATE(T)                                    \
  template void rotate(View<T, 4>, const RotaryTable&);          \
  template void rotate(View<T, 3>, const RotaryTable&);          \
  template void rotate_backward(View<T, 4>, const RotaryTable&); \
  template void rotate_backward(View<T, 3>, const RotaryTable&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
#endif  // HWY_ONCE
