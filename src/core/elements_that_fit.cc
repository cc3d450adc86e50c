#include "src/core/elements_that_fit.h"

#ifdef _WIN32
#include <windows.h>
#elif !defined(__wasm__)
#include <unistd.h>
#endif

#include "gnomon/error.h"

namespace gnomon::internal {
namespace {

double memory_of_machine() {
#ifdef __wasm__
  return 0x1p32;  // the address space
#elif defined(_WIN32)
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? static_cast<double>(status.ullTotalPhys) : 0x1p63;
#else
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
#endif
}

}  // namespace

std::size_t elements_that_fit(const std::vector<std::int64_t>& shape, std::size_t bytes) {
  double size = static_cast<double>(bytes);
  std::size_t elements = 1;
  for (std::int64_t extent : shape) {
    if (extent < 0) refuse("array", "extents must not be negative", shape_text(shape));
    size *= static_cast<double>(extent);
    elements *= static_cast<std::size_t>(extent);
  }
  if (size > memory_of_machine())
    refuse("array", "the result must fit in memory", shape_text(shape));
  return elements;
}

}  // namespace gnomon::internal
