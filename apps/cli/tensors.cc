#include "apps/cli/tensors.h"

#include "gnomon/error.h"
#include "gnomon/io/npy.h"

namespace gnomon::cli {

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
