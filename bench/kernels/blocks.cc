#include "bench/kernels/blocks.h"

#include <unistd.h>

#include "gnomon/error.h"

namespace gnomon::bench {

std::size_t elements_that_fit(const std::vector<std::int64_t>& shape, std::size_t bytes) {
  const auto memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  double size = static_cast<double>(bytes);
  std::size_t elements = 1;
  for (std::int64_t extent : shape) {
    if (extent < 0) refuse("array", "extents must not be negative", shape_text(shape));
    size *= static_cast<double>(extent);
    elements *= static_cast<std::size_t>(extent);
  }
  if (size > memory) refuse("array", "the result must fit in memory", shape_text(shape));
  return elements;
}

}  // namespace gnomon::bench
