// Reader: src/model/config/*.cc
#include "fuzz/description.h"
#include "fuzz/target.h"
#include "gnomon/model/config.h"

namespace gnomon::fuzz {
namespace config_fuzz {

bool read(std::span<const std::byte> bytes) {
  static const auto known = model::families();
  require(known.size() > 300);
  const bool good = taken(bytes.size(), [&] {
    const model::ModelDescription described = model::read_config(text(bytes), {.name = "fuzz"});
    check(described);
    require(internal::ill_formed_utf8(model::to_json(described)) == std::string::npos);
  });
  for (const char* part : {"vision_config", "text_config", "a.b"})
    taken(bytes.size(),
          [&] { check(model::read_config(text(bytes), {.name = "fuzz", .part = part})); });
  answered([&] {
    check(model::read_config(text(bytes), {.name = "fuzz", .assume_pairing = Pairing::halves}));
  });
  return good;
}

const Register registered("config", read);

}  // namespace config_fuzz
}  // namespace gnomon::fuzz
