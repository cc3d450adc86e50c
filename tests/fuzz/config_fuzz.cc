#include <algorithm>
#include <cmath>

#include "fuzz/target.h"
#include "gnomon/model/config.h"

namespace gnomon::fuzz {
namespace {

bool finite(double value) { return std::isfinite(value); }

bool read(std::span<const std::byte> bytes) {
  return taken(bytes.size(), [&] {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const model::ModelDescription model = model::read_config(text, {.name = "fuzz"});
    for (const std::string& note : model.notes)
      require(internal::ill_formed_utf8(note) == note.npos);
    require(internal::ill_formed_utf8(model.model_type) == model.model_type.npos);
    for (const model::LayerGroup& group : model.groups) {
      for (const std::int64_t layer : group.layers) require(layer >= 0);
      require(finite(group.softmax_scale) && group.softmax_scale >= 0);
      if (!std::holds_alternative<ScaledRotary>(group.encoding)) continue;
      for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 30}) {
        const model::ResolvedRotary resolved = model::resolve(group, length);
        const auto& inv_freq = resolved.schedule.inv_freq;
        require(std::all_of(inv_freq.begin(), inv_freq.end(), finite));
        require(finite(resolved.schedule.table_scale) && finite(resolved.softmax_scale));
      }
    }
  });
}

const Register registered("config", read);

}  // namespace
}  // namespace gnomon::fuzz
