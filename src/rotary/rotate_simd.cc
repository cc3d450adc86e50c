// Kernels that rotate heads, for every instruction set.
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/rotary/rotate-inl.h"

// F(T, U, Name) for each conversion from elements T to elements U.
#undef GNOMON_WAYS
#define GNOMON_WAYS(F)          \
  F(float, float, F32)          \
  F(double, double, F64)        \
  F(Half, Half, F16)            \
  F(BFloat16, BFloat16, BF16)   \
  F(float, Half, F32ToF16)      \
  F(float, BFloat16, F32ToBF16) \
  F(Half, float, F16ToF32)      \
  F(BFloat16, float, BF16ToF32)

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

#define GNOMON_ROTATE(T, U, Name)                                                         \
  void Rotate##Name(const Heads<T, U>& heads, const CosSinRows& factors, Pairing pairing, \
                    std::int64_t begin, std::int64_t end, std::int64_t tokens) {          \
    RotateHeads(heads, factors, pairing, begin, end, tokens);                             \
  }
GNOMON_WAYS(GNOMON_ROTATE)
#undef GNOMON_ROTATE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {
namespace {

#define GNOMON_EXPORT(T, U, Name) \
  HWY_EXPORT(Rotate##Name);       \
  auto kernel(const T*, const U*) { return GNOMON_DISPATCH(Rotate##Name); }
GNOMON_WAYS(GNOMON_EXPORT)
#undef GNOMON_EXPORT

}  // namespace

template <typename T, typename U>
RotateKernel<T, U> rotate_kernel() {
  return kernel(static_cast<const T*>(nullptr), static_cast<const U*>(nullptr));
}
#define GNOMON_INSTANTIATE(T, U, Name) template RotateKernel<T, U> rotate_kernel();
GNOMON_WAYS(GNOMON_INSTANTIATE)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
