// Layers of a draft, and the groups of equal layers.
#include <algorithm>
#include <map>
#include <utility>

#include "src/core/size.h"
#include "src/model/config/reading.h"

namespace gnomon::model::internal {

std::int64_t Draft::head_dim_of(std::string_view type) const {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const Layer& one) { return one.type == type; });
  return found == layers.end() || found->head_dim == 0 ? head_dim : found->head_dim;
}

void Draft::set(std::int64_t Layer::* size, std::string_view type, std::int64_t value) {
  for (Layer& layer : layers)
    if (layer.type == type) layer.*size = value;
}

std::span<Layer> add_layers(Draft& r, std::int64_t count, const std::string& part) {
  const std::size_t before = r.layers.size();
  r.layers.resize(before + gnomon::internal::to_size(count));
  const std::span<Layer> added = std::span(r.layers).subspan(before);
  for (std::size_t i = 0; i < added.size(); ++i) {
    added[i].number = static_cast<std::int64_t>(i);
    added[i].part = part;
  }
  return added;
}

std::span<Layer> all_layers(Draft& r) {
  return r.layers.empty() ? add_layers(r, r.out.layers) : r.layers;
}

void put(Draft& r, Encoding encoding) { put(r, std::move(encoding), all_layers(r)); }

void put(Draft& r, Encoding encoding, std::span<Layer> layers) {
  for (Layer& layer : layers) layer.encodings.push_back(r.encodings.size());
  r.encodings.push_back(std::move(encoding));
}

void put_ropes(Draft& r) {
  std::map<std::string, std::size_t> indices;  // by the key of the rope
  for (Layer& layer : r.layers) {
    if (!layer.attends || !layer.rotates) continue;
    auto found = r.ropes.find(layer.rope.empty() ? layer.type : layer.rope);
    if (found == r.ropes.end()) found = r.ropes.find("");
    if (found == r.ropes.end())
      r.fail("no frequencies are given for layers of type " + layer.type);
    const auto [index, is_new] = indices.try_emplace(found->first, r.encodings.size());
    const Rope& rope = found->second;
    if (is_new)
      r.encodings.push_back(ScaledRotary{.rotary = rope.rotary,
                                         .scaling = rope.scaling,
                                         .length = r.out.length,
                                         .axes = rope.axes,
                                         .direction = rope.direction});
    layer.encodings.push_back(index->second);
  }
  note_idle_layers(r);
}

void note_idle_layers(Draft& r) {
  const auto idle = std::count_if(r.layers.begin(), r.layers.end(),
                                  [](const Layer& layer) { return !layer.attends; });
  if (idle != 0)
    r.note("layers without attention (" + std::to_string(idle) + " of " +
           std::to_string(r.out.layers) + ") have no position encoding");
}

namespace {

// Returns the group of a layer, except its layer numbers.
LayerGroup group_of(const Draft& r, const Layer& layer) {
  LayerGroup group{.layers = {}, .part = layer.part};
  const std::int64_t head_dim = layer.head_dim != 0 ? layer.head_dim : r.head_dim;
  if (!layer.attends) return group;
  for (const std::size_t i : layer.encodings) group.position.push_back(r.encodings[i]);
  if (head_dim == 0) return group;
  group.heads = layer.heads != 0 ? layer.heads : r.heads;
  group.head_dim = head_dim;
  group.key_heads = layer.key_heads != 0 ? layer.key_heads : r.key_heads;
  if (group.key_heads == 0) group.key_heads = group.heads;
  if (group.heads % group.key_heads != 0)
    r.fail("the query heads of a layer must be a multiple of the key heads " +
           std::to_string(group.key_heads) + ", got " + std::to_string(group.heads));
  group.value_dim = layer.value_dim != 0 ? layer.value_dim : r.value_dim;
  if (group.value_dim == 0) group.value_dim = head_dim;
  group.attention = layer.attention;
  if (layer.attention.softmax_scale == 0)
    group.attention.softmax_scale =
        r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(head_dim)));
  group.unsupported = r.unsupported.empty() ? layer.unsupported : r.unsupported;
  group.stages = r.stages;
  group.tensors = tensors_of(group);
  return group;
}

// Layers that equal each other but for their numbers, and the index of their group.
struct Kind {
  Layer layer;
  std::size_t group;
};

// Returns the index of the group, which may be that of another kind.
std::size_t add_group(Draft& r, LayerGroup group) {
  const auto same =
      std::find_if(r.out.groups.begin(), r.out.groups.end(), [&](LayerGroup& one) {
        std::vector<std::int64_t> numbers = std::exchange(one.layers, {});
        const bool equal = group == one;
        one.layers = std::move(numbers);
        return equal;
      });
  const auto index = static_cast<std::size_t>(same - r.out.groups.begin());
  if (same == r.out.groups.end()) r.out.groups.push_back(std::move(group));
  return index;
}

void group_layer(Draft& r, Layer& layer, std::vector<Kind>& kinds) {
  const std::int64_t number = std::exchange(layer.number, 0);
  auto kind = std::find_if(kinds.begin(), kinds.end(),
                           [&](const Kind& one) { return one.layer == layer; });
  if (kind == kinds.end()) {
    if (kinds.size() == max_kinds)
      r.fail("layers must have at most " + std::to_string(max_kinds) + " kinds");
    kind = kinds.insert(kinds.end(), {layer, add_group(r, group_of(r, layer))});
  }
  r.out.groups[kind->group].layers.push_back(number);
}

}  // namespace

void finish(Draft& r) {
  all_layers(r);
  std::vector<std::string> parts;
  for (const Layer& layer : r.layers)
    if (parts.empty() || parts.back() != layer.part) parts.push_back(layer.part);
  for (const std::string& part : parts) {
    const auto first = static_cast<std::int64_t>(r.out.groups.size());
    std::vector<Kind> kinds;
    // Full attention first, because most readers look for it.
    for (const bool full : {true, false})
      for (Layer& layer : r.layers)
        if (layer.part == part && (layer.type == "full_attention") == full)
          group_layer(r, layer, kinds);
    for (LayerGroup& group : r.out.groups) std::sort(group.layers.begin(), group.layers.end());
    std::stable_partition(r.out.groups.begin() + first, r.out.groups.end(),
                          [](const LayerGroup& group) { return group.head_dim != 0; });
  }
}

}  // namespace gnomon::model::internal
