// Kernels that rotate heads of BFloat16, for every instruction set.
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_bfloat16_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/rotary/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

GNOMON_ROTATE(BFloat16, BFloat16, BF16)
GNOMON_ROTATE(float, BFloat16, F32ToBF16)
GNOMON_ROTATE(BFloat16, float, BF16ToF32)

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {

GNOMON_ROTATE_KERNEL(BFloat16, BFloat16, BF16)
GNOMON_ROTATE_KERNEL(float, BFloat16, F32ToBF16)
GNOMON_ROTATE_KERNEL(BFloat16, float, BF16ToF32)

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
