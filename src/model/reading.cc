#include "src/model/reading.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::model::internal {

Keys::Keys(Json object, std::optional<Json> over) : object_(object), over_(over) {
  std::size_t members = 0;
  object.for_each_member([&](const std::string&, Json value) {
    if (++members > Json::max_list)
      value.fail("an object of a config must have at most " + std::to_string(Json::max_list) +
                 " members");
  });
}

std::optional<Json> Keys::find(Names names) {
  std::optional<Json> found;
  for (const std::string_view name : names) {
    asked_.emplace(name);
    if (found) continue;
    for (const auto& object : {over_, std::optional(object_)}) {
      if (!found && object) found = object->find(name);
      if (found && found->is_null()) found.reset();
    }
  }
  return found;
}

// The first of the names that has a value, for messages.
template <typename Read>
auto read_as(Keys& keys, Keys::Names names, Read read)
    -> std::optional<decltype(read(std::declval<Json>(), std::string_view()))> {
  for (const std::string_view name : names)
    if (const auto value = keys.find({name})) {
      keys.find(names);  // the others count as asked for
      return read(*value, name);
    }
  return std::nullopt;
}

std::optional<double> above(Keys& keys, Keys::Names names, double bound, const char* rule) {
  return read_as(keys, names, [&](Json v, std::string_view name) {
    const double value = v.number(name);
    if (!std::isfinite(value) || !(value > bound))
      v.fail(std::string(name) + " must be " + rule + ", got " + v.shown());
    return value;
  });
}

std::optional<std::int64_t> Keys::integer(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.integer(name); });
}
std::optional<std::int64_t> Keys::size(Names names, std::int64_t most) {
  return read_as(*this, names, [&](Json v, std::string_view name) {
    const std::int64_t value = v.integer(name);
    if (value < 1 || value > most)
      v.fail(std::string(name) + " must be 1 to " + std::to_string(most) + ", got " +
             v.shown());
    return value;
  });
}
std::optional<double> Keys::number(Names names) {
  return above(*this, names, -std::numeric_limits<double>::infinity(), "finite");
}
std::optional<double> Keys::positive(Names names) {
  return above(*this, names, 0, "finite and positive");
}
std::optional<double> Keys::base(Names names) {
  return above(*this, names, 1, "finite and greater than 1");
}
std::optional<std::string> Keys::string(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.string(name); });
}
std::optional<Json> Keys::object_in(std::string_view name) {
  const auto value = find({name});
  if (value) value->require(JsonType::object, name);
  return value;
}
std::optional<bool> Keys::boolean(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.boolean(name); });
}

double inverse_sqrt(double x) { return 1 / std::sqrt(x); }

std::string shown(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

std::int64_t Draft::head_dim_of(const std::string& type) const {
  const auto found = head_dims.find(type);
  return found == head_dims.end() ? head_dim : found->second;
}

void Draft::note(std::string text) {
  text = gnomon::internal::printable(text, 400);  // it may quote the file
  constexpr std::size_t most = 100;               // a hostile file may give cause for millions
  if (std::find(out.notes.begin(), out.notes.end(), text) != out.notes.end()) return;
  if (out.notes.size() < most)
    out.notes.push_back(out.notes.size() + 1 < most ? std::move(text)
                                                    : "and more, left out here");
}

void Reading::fail(const std::string& reason) const { keys.object().fail(reason); }

void Reading::fail_at(Keys::Names names, const std::string& reason) {
  if (const auto value = keys.find(names)) value->fail(reason);
  Reading::fail(reason);
}

std::int64_t Reading::size(Keys::Names names) {
  const auto value = keys.integer(names);
  if (!value)
    fail("a config of " + out.model_type + " must have " + std::string(*names.begin()));
  return size(names, 0);
}

std::int64_t Reading::size(Keys::Names names, std::int64_t otherwise, std::int64_t most) {
  return keys.size(names, most).value_or(otherwise);
}

std::int64_t Reading::size_or_default(Keys::Names names, std::int64_t otherwise,
                                      std::int64_t most) {
  if (!keys.integer(names)) {
    if (otherwise == 0) size(names);  // fails
    note(std::string(*names.begin()) + " is not given: " + std::to_string(otherwise) +
         ", the default of " + out.model_type);
  }
  return size(names, otherwise, most);
}

const Keys::Names hidden_names = {"hidden_size", "n_embd",     "d_model",
                                  "dim",         "n_embed",    "emb_dim",
                                  "embed_dim",   "hidden_dim", "model_dim"};
const Keys::Names head_dim_names = {"head_dim",  "kv_channels",         "attention_head_dim",
                                    "head_size", "attention_head_size", "d_kv"};

std::int64_t hidden_size(Reading& r) {
  return r.size_or_default(hidden_names, r.family.hidden);
}

namespace {

std::int64_t layer_count(Reading& r) {
  const Keys::Names names = {"num_hidden_layers", "n_layer",        "n_layers",
                             "num_layers",        "decoder_layers", "num_decoder_layers",
                             "encoder_layers"};
  const auto given = r.keys.find(names);
  if (r.family.model_type == "lxmert" && given && given->is(JsonType::object))
    return r.size_or_default({"l_layers"}, r.family.layers, most_of_few);
  if (const auto types = r.keys.find({"layers_block_type"}); types && !given)
    return std::max<std::int64_t>(std::ssize(types->strings("layers_block_type")), 1);
  return r.size_or_default(names, r.family.layers, most_of_few);
}

// Families whose heads are hidden_size / num_attention_heads elements, rounded down.
bool rounds_down(std::string_view model_type) {
  return model_type == "glm4_moe" || model_type == "glm4v_moe_text" ||
         model_type == "qwen3_omni_moe_text";
}

}  // namespace

void read_sizes(Reading& r) {
  r.out.layers = layer_count(r);
  r.heads = r.size_or_default(
      {"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
       "decoder_attention_heads", "encoder_attention_heads"},
      r.family.heads, most_of_few);
  const std::int64_t given = r.size(head_dim_names, 0, most_of_few);
  if (given != 0 && r.family.head_dim != by_heads) {
    r.head_dim = given;
  } else if (r.family.head_dim > 0) {
    r.head_dim = r.family.head_dim;
    r.note("head_dim is not given: " + std::to_string(r.head_dim) + ", the default of " +
           r.out.model_type);
  } else {
    const std::int64_t hidden = hidden_size(r);
    if (hidden % r.heads != 0 && (hidden < r.heads || !rounds_down(r.family.model_type)))
      r.fail_at(hidden_names, "hidden_size must be a multiple of num_attention_heads " +
                                  std::to_string(r.heads) +
                                  " where head_dim is not given, got " +
                                  std::to_string(hidden));
    r.head_dim = hidden / r.heads;
    if (r.head_dim > most_of_few)
      r.fail_at(hidden_names, "hidden_size must be at most 65536 times num_attention_heads " +
                                  std::to_string(r.heads) + ", got " + std::to_string(hidden));
    if (given != 0 && given != r.head_dim)
      r.note("head_dim " + std::to_string(given) + " is not used by " + r.out.model_type +
             ": it is hidden_size / num_attention_heads, " + std::to_string(r.head_dim));
  }
  const Keys::Names lengths = {"max_position_embeddings",
                               "n_positions",
                               "max_seq_len",
                               "seq_length",
                               "n_ctx",
                               "max_sequence_length",
                               "max_target_positions",
                               "max_context_length"};
  r.length_given = r.keys.integer(lengths).has_value();
  r.out.length = r.size(lengths, r.family.length);
  if (!r.length_given)
    r.note("max_position_embeddings is not given: " + std::to_string(r.out.length) +
           ", the default of " + r.out.model_type);
}

bool keeps_state(std::string_view layer_type) {
  for (const char* word : {"linear", "conv", "mamba", "recurrent", "lightning", "ssm"})
    if (layer_type.find(word) != std::string_view::npos) return true;
  return false;
}

// per_layer_config: {"3": {"num_attention_heads": 6}}, what differs in single layers.
void read_single_layers(Reading& r) {
  const auto all = r.keys.object_in("per_layer_config");
  if (!all) return;
  all->for_each_member([&](const std::string& number, Json value) {
    std::size_t l = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), l);
    if (error != std::errc() || end != number.data() + number.size())
      value.fail("per_layer_config must name layers by their numbers, got " +
                 gnomon::internal::shown(number));
    if (l >= r.layers.size()) return;
    value.require(JsonType::object, "an entry of per_layer_config");
    Layer& layer = r.layers[l];
    Keys keys(value);
    layer.heads = keys.size({"num_attention_heads"}, most_of_few).value_or(layer.heads);
    const auto by_type = [&](const char* name, std::map<std::string, std::int64_t>& sizes) {
      const auto size = keys.size({name}, most_of_few);
      if (size && sizes.try_emplace(layer.type, *size).first->second != *size)
        value.fail(std::string(name) + " must be the same in all layers of type " + layer.type);
    };
    by_type("head_dim", r.head_dims);
    by_type("num_key_value_heads", r.key_heads_of);
  });
}

void read_layer_types(Reading& r) {
  r.layers.resize(static_cast<std::size_t>(r.out.layers));
  const auto types = r.keys.find({"layer_types"});
  if (!types) return read_single_layers(r);
  const auto names = types->strings("layer_types");
  if (names.size() < r.layers.size())
    types->fail("layer_types must name each of " + std::to_string(r.layers.size()) +
                " layers, got " + std::to_string(names.size()));
  if (names.size() > r.layers.size())
    r.note("layer_types names " + std::to_string(names.size()) + " layers, the model has " +
           std::to_string(r.layers.size()));
  static constexpr std::string_view known[] = {"full_attention",
                                               "sliding_attention",
                                               "chunked_attention",
                                               "attention",
                                               "hybrid",
                                               "compressed_sparse_attention",
                                               "heavily_compressed_attention",
                                               "indexed_attention"};
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    if (std::find(std::begin(known), std::end(known), names[l]) == std::end(known) &&
        !keeps_state(names[l]))
      r.note("layer_types: " + gnomon::internal::shown(names[l]) +
             " is not known, and taken for attention");
    r.layers[l].type = names[l];
    r.layers[l].attends = !keeps_state(names[l]);
  }
  read_single_layers(r);
}

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

// What a layer's group is, but for its layers.
LayerGroup group_of_layer(const Draft& r, const Layer& layer) {
  LayerGroup group;
  if (!layer.attends) return group;
  group.heads = layer.heads != 0 ? layer.heads : r.heads;
  group.head_dim = r.head_dim_of(layer.type);
  group.attention.softmax_scale =
      r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(group.head_dim)));
  if (r.temperature && (r.tempered == Draft::Tempered::all || !layer.turns))
    group.attention.query_scale = r.temperature;
  if (!layer.turns) return group;
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

// Groups of equal layers: add() gives the group of a kind of layer, made by `make` at its first
// layer. Kinds are told apart by a cheap key, groups by all they hold.
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
          r_.fail("layers must be of at most " + std::to_string(most_kinds) + " kinds");
        groups_.push_back(std::move(group));
        layers_.emplace_back();
      }
    }
    layers_[kind->second].push_back(layer);
  }
  // In the order of their first layers, those that do not attend last.
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
  std::vector<LayerGroup> groups_;  // their layers apart, so that groups compare by the rest
  std::vector<std::vector<std::int64_t>> layers_;
  std::map<Key, std::size_t> kinds_;
};

}  // namespace

void put_rotary_groups(Draft& r) {
  Grouping<std::tuple<std::string_view, std::string_view, bool, bool, std::int64_t>> grouping(
      r);
  // Full attention first: what most readers look for.
  for (const bool full : {true, false})
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      const Layer& layer = r.layers[l];
      if ((layer.type == "full_attention") == full)
        grouping.add({layer.type, layer.rope, layer.attends, layer.turns, layer.heads},
                     static_cast<std::int64_t>(l), [&] { return group_of_layer(r, layer); });
    }
  for (LayerGroup& group : std::move(grouping).groups()) {
    if (group.head_dim == 0)
      r.note("layers without attention (" + std::to_string(group.layers.size()) + " of " +
             std::to_string(r.out.layers) + ") see no positions");
    r.out.groups.push_back(std::move(group));
  }
}

namespace {

// One layer of a part: what the groups that it was put into say together.
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
  return all;
}

}  // namespace

void finish(Draft& r) {
  // And their layers, in the order in which they were put.
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
      const Layer& layer =
          static_cast<std::size_t>(l) < r.layers.size() ? r.layers[static_cast<std::size_t>(l)]
                                                        : plain;
      if (!groups.empty())
        grouping.add({groups, layer.type, layer.slides, layer.sinks, layer.unsupported}, l,
                     [&] { return joined(r, groups, layer); });
    };
    // In the order in which they were put.
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
