// Reader: src/model/encodings/scheme.cc
#include "fuzz/target.h"
#include "gnomon/model/scheme.h"

namespace gnomon::fuzz {
namespace scheme_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const model::Scheme scheme = model::scheme_from_json(text(bytes));
    const std::string written = model::to_json(scheme);
    require(model::to_json(model::scheme_from_json(written)) == written);
    require(!model::names(scheme).empty());
    model::capacity(scheme);
  });
}

const Register registered("scheme", read);

}  // namespace scheme_fuzz
}  // namespace gnomon::fuzz
