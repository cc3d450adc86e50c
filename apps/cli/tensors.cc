#include "apps/cli/tensors.h"

#include <unistd.h>

#include "gnomon/error.h"
#include "gnomon/io/npy.h"

namespace gnomon::cli {

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

std::unique_ptr<Tensor<float, 2>> read_matrix(const std::string& path) {
  const io::Array array = io::read_npy(path);
  if (array.rank() != 2 || array.size() == 0)
    refuse("parameters", "must be a non-empty matrix", io::to_string(array.shape()));
  auto matrix = std::make_unique<Tensor<float, 2>>(
      std::array<std::ptrdiff_t, 2>{array.shape()[0], array.shape()[1]});
  const std::vector<double> values = array.to_doubles();
  for (std::size_t i = 0; i < values.size(); ++i)
    matrix->values[i] = static_cast<float>(values[i]);
  return matrix;
}

}  // namespace gnomon::cli
