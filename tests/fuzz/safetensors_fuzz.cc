// Reader: src/io/safetensors_header.cc src/io/json.cc
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "fuzz/target.h"
#include "gnomon/io/safetensors.h"
#include "src/io/safetensors_header.h"

namespace gnomon::fuzz {
namespace safetensors_fuzz {

// A file in memory, for functions that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : file_(::memfd_create("fuzz", 0)) {
    require(file_ >= 0 &&
            ::write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    // Detects a read of one byte too many. After the end of a mapping there are often more
    // bytes.
    io::internal::read_header("fuzz",
                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const MemoryFile file(bytes);
    const io::SafeTensors tensors(file.path());
    for (const io::TensorEntry& entry : tensors.tensors()) {
      require(tensors.find(entry.name) == &entry);
      const io::Array array = tensors.tensor(entry);
      if (array.element() != io::Element::opaque)
        require(static_cast<std::int64_t>(array.to_doubles().size()) == array.size());
    }
  });
}

const Register registered("safetensors", read);

}  // namespace safetensors_fuzz
}  // namespace gnomon::fuzz
