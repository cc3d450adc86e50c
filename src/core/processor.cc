#include "src/core/processor.h"

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "hwy/base.h"
#include "hwy/targets.h"

#if HWY_ARCH_X86 && !defined(__GNUC__) && !defined(__clang__)
#include <intrin.h>
#endif

namespace gnomon::internal {

#if HWY_ARCH_X86
namespace {

using Registers = std::array<std::uint32_t, 4>;  // eax, ebx, ecx, edx

Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) noexcept {
  Registers r{};
#if defined(__GNUC__) || defined(__clang__)
  __asm__ volatile("cpuid"
                   : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
                   : "a"(leaf), "c"(subleaf));
#else
  __cpuidex(reinterpret_cast<int*>(r.data()), static_cast<int>(leaf),
            static_cast<int>(subleaf));
#endif
  return r;
}

// Which registers the system saves.
std::uint32_t saved_registers() noexcept {
#if defined(__GNUC__) || defined(__clang__)
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
#else
  return static_cast<std::uint32_t>(_xgetbv(0));
#endif
}

template <typename... Bits>
bool all(std::uint32_t word, Bits... bits) noexcept {
  return ((word >> bits & 1) && ...);
}

// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID.
std::uint32_t detect() noexcept {
  const std::uint32_t leaves = cpuid(0)[0];
  const std::uint32_t basic = cpuid(1)[2];
  if (!all(basic, 1, 9, 19, 20, 25)) return 0;
  if (leaves < 7 || !all(basic, 27)) return has::sse4;  // 27: xgetbv is enabled
  const std::uint32_t saved = saved_registers();
  const Registers more = cpuid(7);
  const bool lzcnt = cpuid(0x80000000)[0] > 0x80000000 && all(cpuid(0x80000001)[2], 5);
  if (!all(saved, 1, 2) || !all(basic, 12, 28, 29) || !all(more[1], 3, 5, 8) || !lzcnt)
    return has::sse4;
  if (!all(saved, 5, 6, 7) || !all(more[1], 16, 17, 28, 30, 31)) return has::sse4 | has::avx2;
  const bool bf16 = more[0] > 0 && all(cpuid(7, 1)[0], 5);
  return has::sse4 | has::avx2 | has::avx512 | (bf16 ? has::avx512_bf16 : 0);
}

}  // namespace

// In a virtual machine, cpuid takes a microsecond. There is no mutex, which a forked child
// might find locked: threads that ask at the same time get the same answer.
std::uint32_t processor() noexcept {
  constexpr std::uint32_t unknown = ~std::uint32_t{0};
  static std::atomic<std::uint32_t> known{unknown};
  std::uint32_t features = known.load(std::memory_order_relaxed);
  if (features == unknown) known.store(features = detect(), std::memory_order_relaxed);
  return features;
}
#else
std::uint32_t processor() noexcept { return 0; }
#endif

}  // namespace gnomon::internal

// The functions of Highway's library that the kernels call, so that the library requires the
// headers of Highway only. CMake renames the namespace hwy to gnomon_hwy, so that a program may
// use another version of Highway.
namespace hwy {

std::int64_t SupportedTargets() {
  std::int64_t targets = HWY_SCALAR | HWY_EMU128;
#if HWY_ARCH_X86
  using namespace gnomon::internal;
  const std::uint32_t features = processor();
  if (features & has::sse4) targets |= HWY_SSE4;
  if (features & has::avx2) targets |= HWY_AVX2;
  if (features & has::avx512) targets |= HWY_AVX3;
#else
  targets |= HWY_TARGETS;  // the instruction set that every processor of this architecture has
#endif
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

HWY_NORETURN void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
