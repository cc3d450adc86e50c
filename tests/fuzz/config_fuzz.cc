// Reader: src/model/config/*.cc
#include "fuzz/description.h"
#include "fuzz/target.h"
#include "gnomon/model/config.h"

namespace gnomon::fuzz {
namespace config_fuzz {

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    check(model::read_config(text, {.name = "fuzz"}));
  });
}

const Register registered("config", read);

}  // namespace config_fuzz
}  // namespace gnomon::fuzz
