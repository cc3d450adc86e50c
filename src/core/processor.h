// What the processor supports, without Highway's library and the compiler's run-time library:
// that of ziglang reports nothing, and MSVC has none.
#pragma once

#include <cstdint>

namespace gnomon::internal {

// Sets of instructions of x86-64.
namespace has {
inline constexpr std::uint32_t sse4 = 1;    // with SSSE3, PCLMUL and AES
inline constexpr std::uint32_t avx2 = 2;    // with FMA, F16C, BMI 1 and 2, LZCNT
inline constexpr std::uint32_t avx512 = 4;  // F, VL, DQ, BW, CD
inline constexpr std::uint32_t avx512_bf16 = 8;
}  // namespace has

// Returns those that the processor has and whose registers the system saves. 0 on others than
// x86-64.
std::uint32_t processor() noexcept;

}  // namespace gnomon::internal
