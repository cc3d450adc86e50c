// Kernels that rotate heads of float and double, for every instruction set.
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_float_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/rotary/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

GNOMON_ROTATE(float, float, F32)
GNOMON_ROTATE(double, double, F64)

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {

GNOMON_ROTATE_KERNEL(float, float, F32)
GNOMON_ROTATE_KERNEL(double, double, F64)

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
