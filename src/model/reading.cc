#include "src/model/reading.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "gnomon/error.h"

namespace gnomon::model::internal {

std::optional<Json> Keys::find(Names names) {
  std::optional<Json> found;
  for (const std::string_view name : names) {
    asked_.emplace(name);
    if (found) continue;
    found = object_.find(name);
    if (found && found->is_null()) found.reset();
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

std::optional<std::int64_t> Keys::integer(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.integer(name); });
}
std::optional<double> Keys::number(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.number(name); });
}
std::optional<std::string> Keys::string(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.string(name); });
}
std::optional<bool> Keys::boolean(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.boolean(name); });
}

double inverse_sqrt(double x) { return 1 / std::sqrt(x); }

std::int64_t Draft::head_dim_of(const std::string& type) const {
  const auto found = head_dims.find(type);
  return found == head_dims.end() ? head_dim : found->second;
}

void Draft::note(std::string text) {
  if (std::find(out.notes.begin(), out.notes.end(), text) == out.notes.end())
    out.notes.push_back(std::move(text));
}

void Reading::fail(const std::string& reason) const { keys.object().fail(reason); }

std::int64_t Reading::size(Keys::Names names) {
  const auto value = keys.integer(names);
  if (!value)
    fail("a config of " + out.model_type + " must have " + std::string(*names.begin()));
  return size(names, *value);
}

std::int64_t Reading::size(Keys::Names names, std::int64_t otherwise) {
  const std::int64_t value = keys.integer(names).value_or(otherwise);
  constexpr std::int64_t most = std::int64_t{1} << 40;  // products of two still fit
  if (value < 1 || value > most)
    keys.find(names)->fail(std::string(*names.begin()) + " must be 1 to 2^40, got " +
                           std::to_string(value));
  return value;
}

std::int64_t Reading::size_or_default(Keys::Names names, std::int64_t otherwise) {
  if (otherwise == 0) return size(names);
  if (!keys.integer(names))
    note(std::string(*names.begin()) + " is not given: " + std::to_string(otherwise) +
         ", the default of " + out.model_type);
  return size(names, otherwise);
}

std::int64_t hidden_size(Reading& r) {
  return r.size_or_default({"hidden_size", "n_embd", "d_model", "dim", "n_embed", "emb_dim",
                            "embed_dim", "hidden_dim", "model_dim"},
                           r.family.hidden);
}

void read_sizes(Reading& r) {
  constexpr std::int64_t most = 1 << 16;  // layers, heads, elements of a head
  const auto check = [&](const char* what, std::int64_t value) {
    if (value > most)
      r.fail(std::string(what) + " must be at most 65536, got " + std::to_string(value));
  };
  r.out.layers = r.size_or_default({"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                    "decoder_layers", "num_decoder_layers", "encoder_layers"},
                                   r.family.layers);
  check("num_hidden_layers", r.out.layers);
  r.heads = r.size_or_default(
      {"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
       "decoder_attention_heads", "encoder_attention_heads"},
      r.family.heads);
  check("num_attention_heads", r.heads);
  const auto given = r.keys.integer({"head_dim", "kv_channels", "attention_head_dim",
                                     "head_size", "attention_head_size", "d_kv"});
  if (given && r.family.head_dim != by_heads) {
    r.head_dim = r.size({"head_dim", "kv_channels", "attention_head_dim", "head_size",
                         "attention_head_size", "d_kv"});
  } else if (r.family.head_dim > 0) {
    r.head_dim = r.family.head_dim;
    r.note("head_dim is not given: " + std::to_string(r.head_dim) + ", the default of " +
           r.out.model_type);
  } else {
    const std::int64_t hidden = hidden_size(r);
    if (hidden % r.heads != 0)
      r.fail("hidden_size must be a multiple of num_attention_heads " +
             std::to_string(r.heads) + " where head_dim is not given, got " +
             std::to_string(hidden));
    r.head_dim = hidden / r.heads;
  }
  check("head_dim", r.head_dim);
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

void read_layer_types(Reading& r) {
  r.layers.resize(static_cast<std::size_t>(r.out.layers));
  const auto types = r.keys.find({"layer_types"});
  if (!types) return;
  const auto names = types->strings("layer_types");
  if (names.size() < r.layers.size())
    types->fail("layer_types must name each of " + std::to_string(r.layers.size()) +
                " layers, got " + std::to_string(names.size()));
  if (names.size() > r.layers.size())
    r.note("layer_types names " + std::to_string(names.size()) + " layers, the model has " +
           std::to_string(r.layers.size()));
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].type = names[l];
    r.layers[l].attends = !keeps_state(names[l]);
  }
}

LayerGroup& put_group(Draft& r, std::string kind, Encoding encoding, std::int64_t layers,
                      std::string part) {
  LayerGroup group{.layers = {},
                   .kind = std::move(kind),
                   .part = std::move(part),
                   .encoding = std::move(encoding),
                   .head_dim = r.head_dim,
                   .softmax_scale = r.softmax_scale.value_or(
                       r.head_dim > 0 ? inverse_sqrt(static_cast<double>(r.head_dim)) : 0)};
  for (std::int64_t l = 0; l < (layers < 0 ? r.out.layers : layers); ++l)
    group.layers.push_back(l);
  return r.out.groups.emplace_back(std::move(group));
}

void put_rotary_groups(Draft& r) {
  // Full attention first: what most readers look for.
  std::vector<LayerGroup> groups;
  // Of the thousands of layers that a file may claim few differ in these.
  std::map<std::tuple<std::string_view, bool, bool>, std::size_t> group_of;
  for (const bool full : {true, false})
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      const Layer& layer = r.layers[l];
      if ((layer.type == "full_attention") != full) continue;
      const auto [known, added] =
          group_of.try_emplace({layer.type, layer.attends, layer.turns}, groups.size());
      if (!added) {
        groups[known->second].layers.push_back(static_cast<std::int64_t>(l));
        continue;
      }
      LayerGroup group{.layers = {}, .kind = "none"};
      if (layer.attends) {
        group.head_dim = r.head_dim_of(layer.type);
        group.softmax_scale =
            r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(group.head_dim)));
        if (r.temperature && (r.tempered == Draft::Tempered::all || !layer.turns))
          group.temperature = r.temperature;
      }
      if (layer.attends && layer.turns) {
        const auto found = r.ropes.find(layer.type);
        const Rope& rope = found != r.ropes.end() ? found->second : r.ropes.at("");
        group.kind = "rotary";
        group.encoding = ScaledRotary{.rotary = rope.rotary,
                                      .scaling = rope.scaling,
                                      .length = r.out.length,
                                      .axes = rope.axes};
      }
      // A group is found by all but its layers.
      const auto same = std::find_if(groups.begin(), groups.end(), [&](LayerGroup& one) {
        std::vector<std::int64_t> layers;
        layers.swap(one.layers);
        const bool equal = one == group;
        one.layers.swap(layers);
        return equal;
      });
      known->second = static_cast<std::size_t>(same - groups.begin());
      if (same == groups.end()) groups.push_back(std::move(group));
      groups[known->second].layers.push_back(static_cast<std::int64_t>(l));
    }
  std::stable_partition(groups.begin(), groups.end(), [](const LayerGroup& group) {
    return group.kind != "none" || group.head_dim != 0;
  });
  for (LayerGroup& group : groups) {
    std::sort(group.layers.begin(), group.layers.end());
    if (group.kind == "none" && group.head_dim == 0)
      r.note("layers without attention (" + std::to_string(group.layers.size()) + " of " +
             std::to_string(r.out.layers) + ") see no positions");
    r.out.groups.push_back(std::move(group));
  }
}

}  // namespace gnomon::model::internal
