// Groups of equal layers, put by the readers of families and made final.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/model/reading.h"

namespace gnomon::model::internal {

LayerGroup& put_group(Draft& r, Mixture position, std::int64_t layers, std::string part) {
  LayerGroup group{.layers = {}, .part = std::move(part), .position = std::move(position)};
  group.heads = r.heads;
  group.head_dim = r.head_dim;
  group.attention.softmax_scale = r.softmax_scale.value_or(
      r.head_dim > 0 ? inverse_sqrt(static_cast<double>(r.head_dim)) : 0);
  for (std::int64_t l = 0; l < (layers < 0 ? r.out.layers : layers); ++l)
    group.layers.push_back(l);
  return r.out.groups.emplace_back(std::move(group));
}

namespace {

// Returns the group of a layer, except its layer numbers.
LayerGroup group_of_layer(const Draft& r, const Layer& layer) {
  LayerGroup group;
  if (!layer.attends) return group;
  group.heads = layer.heads != 0 ? layer.heads : r.heads;
  group.head_dim = r.head_dim_of(layer.type);
  group.attention.softmax_scale =
      r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(group.head_dim)));
  if (r.temperature && (r.tempered == Draft::Tempered::all || !layer.rotates))
    group.attention.query_scale = r.temperature;
  if (!layer.rotates) return group;
  auto found = r.ropes.find(layer.rope.empty() ? layer.type : layer.rope);
  if (found == r.ropes.end()) found = r.ropes.find("");
  if (found == r.ropes.end())
    r.fail("no frequencies are given for layers of type " + layer.type);
  const Rope& rope = found->second;
  group.position = {ScaledRotary{.rotary = rope.rotary,
                                 .scaling = rope.scaling,
                                 .length = r.out.length,
                                 .axes = rope.axes,
                                 .direction = rope.direction}};
  return group;
}

// Collects layers into groups of equal layers. Layers with equal keys share a group, and `make`
// creates the group at the first of them. Keys with equal groups share one too.
template <typename Key>
class Grouping {
 public:
  explicit Grouping(Draft& r) : r_(r) {}

  template <typename Make>
  void add(const Key& key, std::int64_t layer, Make make) {
    const auto [kind, fresh] = kinds_.try_emplace(key, groups_.size());
    if (fresh) {
      LayerGroup group = make();
      const auto same = std::find(groups_.begin(), groups_.end(), group);
      kind->second = static_cast<std::size_t>(same - groups_.begin());
      if (same == groups_.end()) {
        if (groups_.size() == most_kinds)
          r_.fail("layers must have at most " + std::to_string(most_kinds) + " kinds");
        groups_.push_back(std::move(group));
        layers_.emplace_back();
      }
    }
    layers_[kind->second].push_back(layer);
  }
  // In insertion order, but groups without attention are last.
  std::vector<LayerGroup> groups() && {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      groups_[i].layers = std::move(layers_[i]);
      std::sort(groups_[i].layers.begin(), groups_[i].layers.end());
    }
    std::stable_partition(groups_.begin(), groups_.end(),
                          [](const LayerGroup& group) { return group.head_dim != 0; });
    return std::move(groups_);
  }

 private:
  Draft& r_;
  std::vector<LayerGroup> groups_;  // without layer numbers, for comparison
  std::vector<std::vector<std::int64_t>> layers_;
  std::map<Key, std::size_t> kinds_;
};

}  // namespace

void put_rotary_groups(Draft& r) {
  Grouping<std::tuple<std::string_view, std::string_view, bool, bool, std::int64_t>> grouping(
      r);
  // Full attention first, because most readers look for it.
  for (const bool full : {true, false})
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      const Layer& layer = r.layers[l];
      if ((layer.type == "full_attention") == full)
        grouping.add({layer.type, layer.rope, layer.attends, layer.rotates, layer.heads},
                     static_cast<std::int64_t>(l), [&] { return group_of_layer(r, layer); });
    }
  for (LayerGroup& group : std::move(grouping).groups()) {
    if (group.head_dim == 0)
      r.note("layers without attention (" + std::to_string(group.layers.size()) + " of " +
             std::to_string(r.out.layers) + ") have no position encoding");
    r.out.groups.push_back(std::move(group));
  }
}

namespace {

// Returns the group of one layer of a part, joined from all groups that contain the layer.
LayerGroup joined(const Draft& r, const std::vector<std::size_t>& in, const Layer& layer) {
  LayerGroup all;
  for (const std::size_t i : in) {
    const LayerGroup& one = r.out.groups[i];
    if (all.heads == 0) {
      const Mixture position = std::move(all.position);
      all = one;
      all.position = position;
    }
    all.position.insert(all.position.end(), one.position.begin(), one.position.end());
  }
  all.layers.clear();
  if (all.head_dim == 0) return all;
  LayerAttention& attention = all.attention;
  const LayerAttention own = attention;
  attention = r.attention;
  attention.softmax_scale = own.softmax_scale;
  attention.query_scale = own.query_scale;
  attention.partition = own.partition;
  if (own.table_input != TableInput::embeddings) attention.table_input = own.table_input;
  if (all.part == "encoder") attention.visibility = Visibility::bidirectional;
  if (all.part == "decoder") attention.visibility = Visibility::causal;
  if (layer.slides) attention.left = r.left, attention.right = r.right;
  if (layer.type != "chunked_attention") attention.chunk.reset();
  if (!layer.normalises) attention.query_norm.reset(), attention.key_norm.reset();
  if (!layer.sinks) attention.sinks = Sinks::none;
  const auto keys = r.key_heads_of.find(layer.type);
  all.key_heads = keys != r.key_heads_of.end() ? keys->second : r.key_heads;
  if (all.key_heads == 0) all.key_heads = all.heads;
  if (all.heads % all.key_heads != 0)
    r.fail("the query heads of a layer must be a multiple of the key heads " +
           std::to_string(all.key_heads) + ", got " + std::to_string(all.heads));
  const auto values = r.value_dims.find(layer.type);
  all.value_dim = values != r.value_dims.end() ? values->second : r.value_dim;
  if (all.value_dim == 0) all.value_dim = all.head_dim;
  for (const std::string& one : {r.unsupported, layer.unsupported})
    if (all.unsupported.empty()) all.unsupported = one;
  all.stages = r.stages;
  all.tensors = tensors_of(all);
  if (!r.trained_norms)
    std::erase_if(all.tensors, [](const ParameterTensor& one) {
      return one.parameter.find("_norm.") != std::string::npos;
    });
  return all;
}

}  // namespace

void finish(Draft& r) {
  // Parts and their numbers of layers, in insertion order.
  std::vector<std::pair<std::string, std::int64_t>> parts;
  for (const LayerGroup& group : r.out.groups) {
    if (group.layers.empty()) continue;
    auto found = std::find_if(parts.begin(), parts.end(),
                              [&](const auto& one) { return one.first == group.part; });
    if (found == parts.end()) found = parts.insert(parts.end(), {group.part, 0});
    found->second = std::max(found->second, group.layers.back() + 1);
  }
  std::vector<LayerGroup> all;
  for (const auto& [part, layers] : parts) {
    std::vector<std::vector<std::size_t>> in(static_cast<std::size_t>(layers));
    for (std::size_t i = 0; i < r.out.groups.size(); ++i)
      if (r.out.groups[i].part == part)
        for (const std::int64_t l : r.out.groups[i].layers)
          in[static_cast<std::size_t>(l)].push_back(i);
    Grouping<std::tuple<std::vector<std::size_t>, std::string, bool, bool, std::string>>
        grouping(r);
    const Layer plain;
    const auto visit = [&](std::int64_t l) {
      const auto& groups = in[static_cast<std::size_t>(l)];
      const Layer& layer = static_cast<std::size_t>(l) < r.layers.size()
                               ? r.layers[static_cast<std::size_t>(l)]
                               : plain;
      if (!groups.empty())
        grouping.add({groups, layer.type, layer.slides, layer.sinks, layer.unsupported}, l,
                     [&] { return joined(r, groups, layer); });
    };
    // In insertion order.
    std::vector<bool> seen(in.size());
    for (const LayerGroup& group : r.out.groups)
      if (group.part == part)
        for (const std::int64_t l : group.layers)
          if (!seen[static_cast<std::size_t>(l)]) {
            seen[static_cast<std::size_t>(l)] = true;
            visit(l);
          }
    for (LayerGroup& group : std::move(grouping).groups()) all.push_back(std::move(group));
  }
  r.out.groups = std::move(all);
}

}  // namespace gnomon::model::internal
