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
