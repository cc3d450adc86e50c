// Kernels for contiguous rows of a bias.
#include <cstdint>

#include "src/bias/form.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/bias/form_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// The portable DemoteTo makes infinities finite, so its targets use plain loops.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
void RoundRow(const double* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(values[i]);
}
void AddRow(const double* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(static_cast<double>(to[i]) + values[i]);
}
#else
template <class D>
HWY_INLINE void StoreRounded([[maybe_unused]] D d, hn::Vec<D> v, float* to) {
  const hn::Rebind<float, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
}
void RoundRow(const double* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT to) {
  ForVectors<double>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    StoreRounded(d, hn::LoadU(d, values + i), to + i);
  });
}
void AddRow(const double* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT to) {
  ForVectors<double>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    StoreRounded(d, hn::Add(LoadElements(d, to + i), hn::LoadU(d, values + i)), to + i);
  });
}
#endif

void AddFloats(const float* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT to) {
  ForVectors<float>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, values + i)), d, to + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(RoundRow);
HWY_EXPORT(AddRow);
HWY_EXPORT(AddFloats);

namespace internal {

BiasRow round_row() { return GNOMON_DISPATCH(RoundRow); }
BiasRow add_row() { return GNOMON_DISPATCH(AddRow); }
GivenRow add_floats() { return GNOMON_DISPATCH(AddFloats); }

}  // namespace internal
}  // namespace gnomon
#endif  // HWY_ONCE
