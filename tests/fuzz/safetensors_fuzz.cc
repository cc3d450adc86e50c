// Reader: src/io/safetensors_header.cc src/io/json.cc
#include <string>

#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "gnomon/io/safetensors.h"
#include "src/io/safetensors_header.h"

namespace gnomon::fuzz {
namespace safetensors_fuzz {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    // Detects a read of one byte too many. After the end of a mapping there are often more
    // bytes.
    io::internal::read_header("fuzz",
                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const MemoryFile file(text(bytes));
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
