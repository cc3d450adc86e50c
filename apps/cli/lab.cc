// `gnomon lab` starts a separate program, because the lab requires LibTorch.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "apps/cli/command.h"
#include "gnomon/error.h"

namespace gnomon::cli {
namespace {

// OpenBLAS 0.3.21 does not recognize newer processors, selects kernels for a Prescott and runs
// at a sixth of the possible speed. It reads its environment when it is loaded, before main, so
// this program sets it for the lab. Variables that the user has set are not changed.
void set_openblas_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
}

}  // namespace

int run_lab(char** argv) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Looks beside this program (where `cmake --install` puts it), then in the build folder.
  for (const char* place :
       {"gnomon-lab", "../libexec/gnomon/gnomon-lab", "../lab/gnomon-lab"}) {
    const fs::path program = here / place;
    if (!fs::exists(program, error)) continue;
    set_openblas_core();
    execv(program.c_str(), argv);
    refuse("lab", program.string() + " must start", std::strerror(errno));
  }
  refuse("lab", "gnomon-lab must be installed (it is built if LibTorch is found)",
         "none near " + here.string());
}

}  // namespace gnomon::cli
