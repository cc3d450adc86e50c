// Reader: src/model/encodings/scheme.cc
#include "fuzz/target.h"
#include "gnomon/model/scheme.h"

namespace gnomon::fuzz {
namespace scheme_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    // JSON, or the names of the option --encodings.
    const bool json = text(bytes).find_first_of("{[") != std::string_view::npos;
    const model::Scheme scheme =
        json ? model::scheme_from_json(text(bytes))
             : model::parse_scheme(text(bytes), {.width = 64, .heads = 4, .length = 32}, 12);
    const std::string written = model::to_json(scheme);
    require(model::to_json(model::scheme_from_json(written)) == written);
    require(!model::names(scheme).empty());
    model::capacity(scheme);
    std::size_t parts = model::before_layers(scheme).size();
    for (std::size_t i = 0; i < scheme.layers.size(); ++i) {
      const model::Mixture within = model::within_layer(scheme, static_cast<std::int64_t>(i));
      model::sharing(within);
      parts += within.size();
    }
    require(parts >= scheme.layers.front().size());
  });
}

const Register registered("scheme", read);

}  // namespace scheme_fuzz
}  // namespace gnomon::fuzz
