// Reader: src/model/gguf/gguf_reader.cc src/model/gguf/gguf.cc
#include "fuzz/target.h"
#include "gnomon/model/gguf.h"

namespace gnomon::fuzz {
namespace gguf_fuzz {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    const model::Gguf file(bytes, "fuzz");
    const auto attempt = [&](auto method, const auto& what) {
      taken(bytes.size(), [&] { (file.*method)(what); });
    };
    for (const model::GgufEntry& entry : file.metadata()) {
      require(file.find(entry.key) == &entry);
      // Exceptions are slow with sanitizers, and all alike, so those of one entry are enough.
      const bool all = &entry == &file.metadata().front();
      if (all || entry.element == model::GgufType::boolean) {
        attempt(&model::Gguf::boolean, entry.key);
        attempt(&model::Gguf::booleans, entry.key);
      }
      if (all || entry.element == model::GgufType::text) {
        attempt(&model::Gguf::text, entry.key);
        attempt(&model::Gguf::texts, entry.key);
      }
      if (all || (entry.element != model::GgufType::boolean &&
                  entry.element != model::GgufType::text)) {
        attempt(&model::Gguf::integers, entry.key);
        attempt(&model::Gguf::numbers, entry.key);
        if (entry.type == entry.element) {
          attempt(&model::Gguf::integer, entry.key);
          attempt(&model::Gguf::number, entry.key);
        }
      }
    }
    for (const model::GgufTensor& tensor : file.tensors()) {
      require(file.find_tensor(tensor.name) == &tensor && tensor.size() >= 0);
      attempt(&model::Gguf::values, tensor);
    }
  });
}

const Register registered("gguf", read);

}  // namespace gguf_fuzz
}  // namespace gnomon::fuzz
