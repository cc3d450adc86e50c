// Reader: apps/lab/tasks/picture_file.cc
#include "apps/lab/tasks/picture_file.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace picture_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const MemoryFile file(text(bytes));
    const auto picture = lab::image_examples::read_picture_file(file.path());
    require(std::ssize(picture.values) == picture.height * picture.width);
    for (const float value : picture.values) require(value >= 0 && value <= 1);
  });
}

const Register registered("picture", read);

}  // namespace picture_fuzz
}  // namespace gnomon::fuzz
