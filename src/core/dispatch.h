// How a public function reaches its kernel. Include "hwy/highway.h" first; in a *_simd.cc:
//
//   HWY_EXPORT(RotateF32);
//   void rotate(...) { check(...); GNOMON_DISPATCH(RotateF32)(...); }
//
// It is HWY_DYNAMIC_DISPATCH after GNOMON_ISA has been honoured. Only public entry points use
// it, since an invalid GNOMON_ISA throws.
#pragma once

#define GNOMON_DISPATCH(function) \
  (gnomon::internal::honour_isa(), HWY_DYNAMIC_DISPATCH(function))

namespace gnomon::internal {

void honour_isa();  // reads GNOMON_ISA on the first call; after that one atomic load

}  // namespace gnomon::internal
