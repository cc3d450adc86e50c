// What every description holds, whatever it was read from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "fuzz/target.h"
#include "gnomon/model/description.h"

namespace gnomon::fuzz {

inline void check(const model::ModelDescription& model) {
  const auto printable = [](const std::string& text) {
    return internal::ill_formed_utf8(text) == text.npos;
  };
  const auto finite = [](double value) { return std::isfinite(value); };
  require(printable(model.model_type));
  require(std::all_of(model.notes.begin(), model.notes.end(), printable));
  for (const model::LayerGroup& group : model.groups) {
    for (const std::int64_t layer : group.layers) require(layer >= 0);
    require(std::is_sorted(group.layers.begin(), group.layers.end()));
    require(finite(group.softmax_scale) && group.softmax_scale >= 0);
    if (!std::holds_alternative<ScaledRotary>(group.encoding)) continue;
    for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 30}) {
      const model::ResolvedRotary resolved = model::resolve(group, length);
      const auto& inv_freq = resolved.schedule.inv_freq;
      require(std::all_of(inv_freq.begin(), inv_freq.end(), finite));
      require(finite(resolved.schedule.table_scale) && finite(resolved.softmax_scale));
    }
  }
}

}  // namespace gnomon::fuzz
