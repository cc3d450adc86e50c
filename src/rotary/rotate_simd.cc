// Turning queries and keys, and turning them back.
#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"

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

constexpr std::int64_t chunk = 256;  // pairs held in the summing type at a time

// One head vector, from its first rotated element on.
template <typename T>
void TurnHead(T* HWY_RESTRICT x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
              float sign, Pairing pairing, std::int64_t pairs) {
  using A = Accumulator<T>;
  const A direction = static_cast<A>(sign);
  if constexpr (std::is_same_v<T, A>) {
    TurnPairs(x, cos, sin, direction, pairing, pairs);
  } else {
    HWY_ALIGN A wide[2 * chunk];
    for (std::int64_t begin = 0; begin < pairs; begin += chunk) {
      const std::int64_t count = HWY_MIN(chunk, pairs - begin);
      if (pairing == Pairing::halves) {
        FromElements(x + begin, count, wide);
        FromElements(x + pairs + begin, count, wide + chunk);
        TurnHalves(wide, wide + chunk, cos + begin, sin + begin, direction, count);
        ToElements(wide, A(1), count, x + begin);
        ToElements(wide + chunk, A(1), count, x + pairs + begin);
      } else {
        FromElements(x + 2 * begin, 2 * count, wide);
        TurnAdjacent(wide, cos + begin, sin + begin, direction, count);
        ToElements(wide, A(1), 2 * count, x + 2 * begin);
      }
    }
  }
}

#define GNOMON_TURN(T, Name)                                                             \
  void Turn##Name(T* x, const float* cos, const float* sin, float sign, Pairing pairing, \
                  std::int64_t pairs) {                                                  \
    TurnHead(x, cos, sin, sign, pairing, pairs);                                         \
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

template <typename T>
void check(const View<T, 4>& x, const RotaryTable& table) {
  const RotarySchedule& rotary = table.schedule();
  if (x.extent(1) != table.tokens())
    refuse("rotary", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("rotary", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  if (x.extent(3) - rotary.dim() < rotary.first)  // no sum: `first` may be anything
    refuse("rotary",
           "x must have at least first + dim = " + std::to_string(rotary.first) + " + " +
               std::to_string(rotary.dim()) + " elements per head",
           std::int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
}

template <typename T>
void turn(View<T, 4> x, const RotaryTable& table, float sign) {
  check(x, table);
  const RotarySchedule& rotary = table.schedule();
  const auto turn_head = kernel(x.data());
  const std::int64_t tokens = x.extent(1), heads = x.extent(2), pairs = rotary.dim() / 2;
  const View<const float, 3> cos = table.cos(), sin = table.sin();
  const std::int64_t grain = std::max<std::int64_t>(
      1, grain_elements / std::max<std::int64_t>(1, heads * rotary.dim()));
  parallel_for(x.extent(0) * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const std::int64_t row = table.batch() == 1 ? 0 : b;
      const float *c = &cos(row, t, 0), *s = &sin(row, t, 0);
      for (std::int64_t h = 0; h < heads; ++h)
        turn_head(&x(b, t, h, rotary.first), c, s, sign, rotary.pairing, pairs);
    }
  });
}

}  // namespace

template <typename T>
void rotate(View<T, 4> x, const RotaryTable& table) {
  turn(x, table, 1.0f);
}
template <typename T>
void rotate(View<T, 3> x, const RotaryTable& table) {
  turn(rotary_internal::batch_of_one(x), table, 1.0f);
}
template <typename T>
void rotate_backward(View<T, 4> grad, const RotaryTable& table) {
  turn(grad, table, -1.0f);
}
template <typename T>
void rotate_backward(View<T, 3> grad, const RotaryTable& table) {
  turn(rotary_internal::batch_of_one(grad), table, -1.0f);
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
