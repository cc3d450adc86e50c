// `gnomon lab` starts a separate program, because the lab requires LibTorch.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/cli/command.h"
#include "gnomon/error.h"

namespace gnomon::cli {

int run_lab(char** argv) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Looks beside this program (where `cmake --install` puts it), then in the build folder.
  for (const char* place :
       {"gnomon-lab", "../libexec/gnomon/gnomon-lab", "../lab/gnomon-lab"}) {
    const fs::path program = here / place;
    if (!fs::exists(program, error)) continue;
    execv(program.c_str(), argv);
    refuse("lab", program.string() + " must start", std::strerror(errno));
  }
  refuse("lab", "gnomon-lab must be installed (it is built if LibTorch is found)",
         "none near " + here.string());
}

}  // namespace gnomon::cli
