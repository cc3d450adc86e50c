// Dispatch of a public function to its kernel. Include "hwy/highway.h" first; in a *_simd.cc:
//
//   HWY_EXPORT(RotateF32);
//   void rotate(...) { check(...); GNOMON_DISPATCH(RotateF32)(...); }
//
// GNOMON_DISPATCH is HWY_DYNAMIC_DISPATCH, after reading GNOMON_ISA: a function or, from
// Highway 1.1 on, a pointer to it, so do not take its address. Use it only in public entry
// points, because it throws if GNOMON_ISA is invalid.
#pragma once

#define GNOMON_DISPATCH(function) \
  (gnomon::internal::honour_isa(), HWY_DYNAMIC_DISPATCH(function))

namespace gnomon::internal {

void honour_isa();  // reads GNOMON_ISA on the first call; after that one atomic load

}  // namespace gnomon::internal
