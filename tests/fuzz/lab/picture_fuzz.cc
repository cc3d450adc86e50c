// Reader: apps/lab/tasks/picture_file.cc
#include <ATen/Functions.h>

#include "apps/lab/tasks/image.h"
#include "fuzz/lab/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace picture_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const MemoryFile file(text(bytes));
    const at::Tensor grey = lab::image_examples::read_picture(file.path());
    require(grey.dim() == 2 && grey.ge(0).logical_and(grey.le(1)).all().item<bool>());
  });
}

const Register registered("picture", read);

}  // namespace picture_fuzz
}  // namespace gnomon::fuzz
