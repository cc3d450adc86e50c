// The kernels of OpenBLAS for this processor. OpenBLAS selects them by the model of the
// processor when it is loaded. 0.3.21 does not know newer models, takes those of a Prescott,
// and runs at a sixth of the possible speed.
#pragma once

namespace gnomon::internal {

inline constexpr char openblas_variable[] = "OPENBLAS_CORETYPE";

// Returns the value of the variable by the instruction sets that the processor supports, which
// do not depend on its model. Null if OpenBLAS should select the kernels.
__attribute__((no_sanitize("address",
                           "undefined")))  // may be called before the sanitizers start
inline const char*
openblas_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

}  // namespace gnomon::internal
