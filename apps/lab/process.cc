#include "apps/lab/process.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>

#include "gnomon/error.h"

namespace gnomon::lab {

void start_again_for_openblas(char** argv) {
  if (std::getenv("GNOMON_LAB_STARTED")) return;
  setenv("GNOMON_LAB_STARTED", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
  execv("/proc/self/exe", argv);
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int never = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, never);
  mallopt(M_TRIM_THRESHOLD, never);
  mallopt(M_ARENA_MAX, 1);  // other arenas consist of 64 MB heaps, which are returned
#endif
}

void check_blas(int jobs) {
  const auto parallel =
      reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (jobs > 1 && parallel && parallel() == 0)
    refuse("lab",
           "--jobs must be 1 with an OpenBLAS without threads, which is not thread-safe "
           "(Debian: install libopenblas0-pthread)",
           jobs);
}

}  // namespace gnomon::lab
