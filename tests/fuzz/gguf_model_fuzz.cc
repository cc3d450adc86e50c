// Reader: src/model/gguf/gguf_architectures.cc
// Reader: src/model/gguf/gguf_attention.cc
// Reader: src/model/gguf/gguf_keys.cc
// Reader: src/model/gguf/gguf_layers.cc
// Reader: src/model/gguf/gguf_model.cc
// Reader: src/model/gguf/gguf_rope.cc
// Reader: src/model/gguf/gguf_scaling.cc
#include "fuzz/description.h"
#include "fuzz/target.h"
#include "gnomon/model/gguf_model.h"

namespace gnomon::fuzz {
namespace gguf_model_fuzz {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] { check(model::read_gguf(model::Gguf(bytes, "fuzz"))); });
}

const Register registered("gguf_model", read);

}  // namespace gguf_model_fuzz
}  // namespace gnomon::fuzz
