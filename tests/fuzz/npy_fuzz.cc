// Reader: src/io/npy.cc
#include "fuzz/target.h"
#include "gnomon/io/npy.h"
#include "src/io/npy_bytes.h"

namespace gnomon::fuzz {
namespace npy_fuzz {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    const io::Array array = io::internal::read_npy("fuzz", bytes, nullptr);
    require(static_cast<std::int64_t>(array.to_doubles().size()) == array.size());
    io::write_npy("/dev/null", array);
  });
}

const Register registered("npy", read);

}  // namespace npy_fuzz
}  // namespace gnomon::fuzz
