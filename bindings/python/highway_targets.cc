// The two functions of Highway's library that the kernels call, so that the wheel does not
// depend on libhwy.so: Debian has no static one.
#include <cstdint>

#include "hwy/targets.h"

namespace hwy {

std::int64_t SupportedTargets() {
  std::int64_t targets = HWY_SCALAR | HWY_EMU128;
#if HWY_ARCH_X86
  // These check the processor and that the system saves the registers.
  const auto all = [](auto... has) { return (static_cast<bool>(has) && ...); };
  const bool sse4 = all(__builtin_cpu_supports("sse4.2"), __builtin_cpu_supports("pclmul"),
                        __builtin_cpu_supports("aes"));
  const bool avx2 =
      sse4 && all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("bmi"),
                  __builtin_cpu_supports("bmi2"), __builtin_cpu_supports("fma"),
                  __builtin_cpu_supports("f16c"), __builtin_cpu_supports("lzcnt"));
  const bool avx512 =
      avx2 && all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
                  __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"));
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx512) targets |= HWY_AVX3;
#else
  targets |= HWY_TARGETS;  // the instruction set that every processor of this architecture has
#endif
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
