#include "fuzz/target.h"
#include "gnomon/model/config.h"

namespace gnomon::fuzz {
namespace {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const model::ModelDescription model = model::read_config(text, {.name = "fuzz"});
    for (const std::string& note : model.notes)
      require(internal::ill_formed_utf8(note) == note.npos);
    for (const model::LayerGroup& group : model.groups)
      for (const std::int64_t layer : group.layers) require(layer >= 0 && layer < model.layers);
  });
}

const Register registered("config", read);

}  // namespace
}  // namespace gnomon::fuzz
