#include "src/core/processor.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gnomon::processor_test {

// The oracle is the compiler's run-time library, which reads the same registers. That of
// ziglang reports nothing, not even SSE2, which every x86-64 has.
TEST(Processor, HasWhatTheCompilersLibraryReports) {
  std::uint32_t expected = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse2")) GTEST_SKIP() << "the compiler's library reports nothing";
  if (__builtin_cpu_supports("sse4.2")) expected |= internal::has::sse4;
  if (__builtin_cpu_supports("avx2")) expected |= internal::has::avx2;
  if (__builtin_cpu_supports("avx512bw")) expected |= internal::has::avx512;
  if (__builtin_cpu_supports("avx512bf16")) expected |= internal::has::avx512_bf16;
#endif
  EXPECT_EQ(internal::processor(), expected);
}

}  // namespace gnomon::processor_test
