// Kernels that rotate heads of Half, for every instruction set.
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_half_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/rotary/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

GNOMON_ROTATE(Half, Half, F16)
GNOMON_ROTATE(float, Half, F32ToF16)
GNOMON_ROTATE(Half, float, F16ToF32)

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {

GNOMON_ROTATE_KERNEL(Half, Half, F16)
GNOMON_ROTATE_KERNEL(float, Half, F32ToF16)
GNOMON_ROTATE_KERNEL(Half, float, F16ToF32)

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
