// Properties of every model description, whatever it was read from.
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
    const double scale = group.attention.softmax_scale;
    require(finite(scale) && scale >= 0);
    require(printable(group.unsupported));
    for (const model::ParameterTensor& one : group.tensors) require(printable(one.name));
    const auto turns = [](const model::Encoding& one) {
      return model::rotary_frequencies(one, 1).has_value();
    };
    if (std::none_of(group.position.begin(), group.position.end(), turns)) continue;
    for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 30}) {
      const model::ResolvedRotary resolved = model::resolve(group, length);
      const auto& inv_freq = resolved.frequencies.inv_freq;
      require(std::all_of(inv_freq.begin(), inv_freq.end(), finite));
      require(finite(resolved.frequencies.table_scale) && finite(resolved.softmax_scale));
    }
  }
}

}  // namespace gnomon::fuzz
