// Running sums of the increments of tokens.
#include "src/rotary/token_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_sums_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using rotary_internal::SummedRows;
using rotary_internal::SumStep;

// s modulo 2 pi, in [-pi, pi].
template <class Tag, class Vec>
HWY_INLINE Vec Reduced(Tag d, Vec s) {
  const Vec magic = hn::Set(d, 0x1.8p52);
  const Vec k = hn::Sub(hn::MulAdd(s, hn::Set(d, 0x1.45f306dc9c883p-3), magic), magic);
  const Vec part = hn::NegMulAdd(k, hn::Set(d, 0x1.921fb54442d18p+2), s);
  return hn::NegMulAdd(k, hn::Set(d, 0x1.1a62633145c07p-52), part);
}

template <bool backward, typename T, typename U>
HWY_INLINE void SumTokens(const SummedRows<T, U>& rows) {
  const hn::ScalableTag<double> d;
  [[maybe_unused]] const hn::Rebind<float, hn::ScalableTag<double>> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = 0; n < rows.tokens; ++n) {
    const std::int64_t t = backward ? rows.tokens - 1 - n : n;
    const SumStep step = rows.steps[t];
    const T* const from = rows.from + t * rows.from_step;
    U* const to = rows.to + t * rows.to_step;
    if (step == SumStep::padding) {
      for (std::int64_t i = 0; i < rows.channels; ++i) to[i] = U(0);
      continue;
    }
    if (!backward && step == SumStep::restart)
      for (std::int64_t i = 0; i < rows.channels; ++i) rows.sum[i] = 0;
    // Rows that are read from the last to the first are not prefetched by the processor.
    const std::int64_t ahead = backward ? (t < 2 ? 0 : -2) : (n + 2 < rows.tokens ? 2 : 0);
    const T* const next = from + ahead * rows.from_step;
    const U* const next_to = to + ahead * rows.to_step;
    std::int64_t i = 0;
    for (; i + lanes <= rows.channels; i += lanes) {
      hwy::Prefetch(next + i);
      hwy::Prefetch(next_to + i);
      const auto one = LoadElements(d, from + i), scale = hn::LoadU(d, rows.scale + i);
      auto sum = hn::LoadU(d, rows.sum + i);
      sum = backward ? hn::Add(sum, one) : Reduced(d, hn::MulAdd(scale, one, sum));
      hn::StoreU(sum, d, rows.sum + i);
      if (backward) sum = hn::Mul(scale, sum);
      if constexpr (std::is_same_v<U, double>)
        hn::StoreU(sum, d, to + i);
      else
        hn::StoreU(hn::DemoteTo(narrow, sum), narrow, to + i);
    }
    for (; i < rows.channels; ++i) {
      const hn::CappedTag<double, 1> single;
      double sum = rows.sum[i];
      if constexpr (backward) {
        sum += static_cast<double>(from[i]);
        to[i] = static_cast<U>(rows.scale[i] * sum);
      } else {
        HWY_ALIGN double lane[HWY_MAX_BYTES / sizeof(double)] = {};
        lane[0] = hn::GetLane(hn::MulAdd(hn::Set(single, rows.scale[i]),
                                         hn::Set(single, static_cast<double>(from[i])),
                                         hn::Set(single, sum)));
        hn::Store(Reduced(d, hn::Load(d, lane)), d, lane);
        sum = lane[0];
        to[i] = static_cast<U>(sum);
      }
      rows.sum[i] = sum;
    }
    if (backward && step == SumStep::restart)
      for (i = 0; i < rows.channels; ++i) rows.sum[i] = 0;
  }
}

#define GNOMON_SUM(T, U, Name) \
  void Sum##Name(const SummedRows<T, U>& rows) { SumTokens<false>(rows); }
#define GNOMON_SUM_BACKWARD(T, U, Name) \
  void SumBackward##Name(const SummedRows<T, U>& rows) { SumTokens<true>(rows); }
GNOMON_SUM(float, float, F32F32)
GNOMON_SUM(float, double, F32F64)
GNOMON_SUM(double, double, F64F64)
GNOMON_SUM_BACKWARD(float, float, F32F32)
GNOMON_SUM_BACKWARD(double, float, F64F32)
GNOMON_SUM_BACKWARD(double, double, F64F64)
#undef GNOMON_SUM_BACKWARD
#undef GNOMON_SUM

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {

#define GNOMON_SUM(T, U, Name, function, Kernel) \
  HWY_EXPORT(Kernel##Name);                      \
  template <>                                    \
  SumRows<T, U> function() {                     \
    return GNOMON_DISPATCH(Kernel##Name);        \
  }
GNOMON_SUM(float, float, F32F32, sum_rows, Sum)
GNOMON_SUM(float, double, F32F64, sum_rows, Sum)
GNOMON_SUM(double, double, F64F64, sum_rows, Sum)
GNOMON_SUM(float, float, F32F32, sum_rows_backward, SumBackward)
GNOMON_SUM(double, float, F64F32, sum_rows_backward, SumBackward)
GNOMON_SUM(double, double, F64F64, sum_rows_backward, SumBackward)
#undef GNOMON_SUM

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
