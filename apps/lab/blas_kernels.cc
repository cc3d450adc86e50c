// Selects the kernels of OpenBLAS for programs that link LibTorch, whoever starts them.
// OpenBLAS reads its variable in a constructor of its library, before main. The linker runs
// functions of .preinit_array before the constructors of libraries, so this one sets the
// variable and starts the program again. An environment that has the variable is left as it is.
#include <unistd.h>

#include <cstddef>
#include <initializer_list>

#include "src/core/openblas.h"

namespace {

using gnomon::internal::openblas_core;
using gnomon::internal::openblas_variable;

// Calls no function of a library except execve: their constructors have not run.
__attribute__((no_sanitize("address", "undefined"))) void select_kernels(int, char** arguments,
                                                                         char** environment) {
  const char* const core = openblas_core();
  if (!core) return;
  constexpr std::size_t most = 4096, longest = 64;
  static char* variables[most + 2];
  static char own[longest];
  std::size_t count = 0;
  for (; environment[count]; ++count) {
    std::size_t same = 0;
    while (openblas_variable[same] && environment[count][same] == openblas_variable[same])
      ++same;
    if ((!openblas_variable[same] && environment[count][same] == '=') || count == most) return;
    variables[count] = environment[count];
  }
  std::size_t size = 0;
  for (const char* text : {openblas_variable, "=", core})
    for (; *text; ++text) own[size++] = *text;
  variables[count] = own;
  execve("/proc/self/exe", arguments, variables);  // if it fails, the program is only slow
}

__attribute__((section(".preinit_array"),
               used)) void (*const before_libraries)(int, char**, char**) = select_kernels;

}  // namespace
