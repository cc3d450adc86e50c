#include "gnomon/model/description.h"

#include <algorithm>
#include <map>

#include "gnomon/error.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::model {
namespace {

using internal::json_of;
using internal::OrderedJson;

// Puts the fields of the spec and the values that follow from it. A rotary encoding is resolved
// at `length`.
void put_encoding(const Encoding& encoding, std::int64_t length, OrderedJson& json) {
  const OrderedJson fields = json_of(encoding);
  if (const auto rotary = rotary_frequencies(encoding, length)) {
    json["pairing"] = rotary->pairing == Pairing::halves ? "halves" : "adjacent";
    json["rotary_dim"] = rotary->rotary_dim();
    json["head_offset"] = rotary->head_offset;
    json["base"] = fields.value("base", 0.0);
    json["scaling"] = fields.value("scaling", json_of(RopeScaling(NoScaling{})));
    json["inv_freq"] = rotary->inv_freq;
    json["table_scale"] = rotary->table_scale;
    json["axes"] = rotary->axes.empty() ? OrderedJson() : OrderedJson(rotary->axes);
    return;
  }
  for (const OrderedJson& part : {fields, internal::derived_json(encoding)})
    for (const auto& [name, value] : part.items())
      if (!json.contains(name)) json[name] = value;
  if (const auto most = capacity(encoding)) json["capacity"] = *most;
}

OrderedJson norm_json(const std::optional<LayerNorm>& norm) {
  if (!norm) return "none";
  return norm->order == NormOrder::before_rotation ? "before the rotation"
                                                   : "after the rotation";
}

template <typename T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson scale_json(const std::optional<QueryTemperature>& scale) {
  if (!scale) return {{"type", "none"}};
  if (scale->form == TemperatureForm::head_log)
    return {{"type", "head_log"}, {"shift", scale->shift}};
  const char* const type = scale->form == TemperatureForm::floored_log   ? "temperature"
                           : scale->form == TemperatureForm::clipped_log ? "clipped_log"
                                                                         : "power";
  return {{"type", type},
          {"beta", scale->beta},
          {"length", scale->length},
          {"shift", scale->shift}};
}

// Puts the facts that few layers have.
void put_rare(const LayerAttention& attention, OrderedJson& json) {
  if (attention.value_scale != 1) json["value_scale"] = attention.value_scale;
  if (attention.output_gate != OutputGate::none)
    json["output_gate"] =
        attention.output_gate == OutputGate::per_head ? "per_head" : "per_channel";
  if (attention.frequency_scale == FrequencyScale::learned) json["frequency_scale"] = "learned";
  if (const auto& convolution = attention.convolution)
    json["convolution"] = {
        {"taps", convolution->taps},
        {"weights", convolution->weights == ConvolutionWeights::fixed ? "fixed" : "dynamic"},
        {"scale", convolution->scale}};
  if (attention.head_pairs == HeadPairs::differential) json["head_pairs"] = "differential";
  if (attention.indexed_keys) json["indexed_keys"] = *attention.indexed_keys;
}

// Puts the keys of the attention of a group.
void put_attention(const LayerGroup& group, std::int64_t length, OrderedJson& json) {
  const LayerAttention& attention = group.attention;
  json["query_scale"] = scale_json(attention.query_scale);
  if (group.head_dim == 0) return;
  double scale = attention.softmax_scale;
  for (const Encoding& one : group.position) scale *= softmax_factor(one, length);
  if (scale > 0) json["softmax_scale"] = scale;
  json["visibility"] = attention.visibility == Visibility::causal ? "causal" : "bidirectional";
  // Not a conditional expression: if an allocation fails in one, GCC 12 destroys temporaries of
  // initializer lists that it did not construct.
  json["window"] = nullptr;
  if (attention.left || attention.right)
    json["window"] = {{"left", or_null(attention.left)}, {"right", or_null(attention.right)}};
  json["chunk"] = or_null(attention.chunk);
  if (attention.partition)
    json["partition"] = {{"height", attention.partition->height},
                         {"width", attention.partition->width},
                         {"shift", attention.partition->shift}};
  json["softcap"] = or_null(attention.softcap);
  json["sinks"] = attention.sinks == Sinks::per_head    ? "per_head"
                  : attention.sinks == Sinks::per_query ? "per_query"
                                                        : "none";
  if (attention.values == ValueSource::keys) json["values"] = "keys";
  if (attention.output == OutputRotation::inverse) json["output_rotation"] = "inverse";
  if (attention.compression) {
    const auto& [keys, index_heads, index_dim, selected] = *attention.compression;
    OrderedJson& compression = json["compression"];
    compression = {{"rate", keys.rate}, {"series", keys.series}, {"epsilon", keys.epsilon}};
    compression["index_heads"] = index_heads;
    if (index_heads > 0)
      compression["index_dim"] = index_dim, compression["selected"] = selected;
  }
  put_rare(attention, json);
  json["qk_norm"] = norm_json(attention.query_norm ? attention.query_norm : attention.key_norm);
  if (!json.contains("heads")) json["heads"] = group.heads;
  json["key_heads"] = group.key_heads;
  json["value_dim"] = group.value_dim;
  OrderedJson tensors = OrderedJson::object();
  for (const ParameterTensor& one : group.tensors) tensors[one.parameter] = one.name;
  json["tensors"] = std::move(tensors);
  json["unsupported"] =
      group.unsupported.empty() ? OrderedJson() : OrderedJson(group.unsupported);
}

// Returns the JSON of one encoding of a group, or of a group without encodings, except its
// layers.
OrderedJson entry(const LayerGroup& group, const Encoding& encoding, std::int64_t length) {
  OrderedJson json{{"kind", kind(encoding)}};
  if (!group.part.empty()) json["part"] = group.part;
  if (group.head_dim > 0) json["head_dim"] = group.head_dim;
  put_encoding(encoding, length, json);
  put_attention(group, length, json);
  return json;
}

// Joins the entries of a table of the embeddings, which belongs to all layers. Keys with
// different values are removed.
bool join(OrderedJson& to, const OrderedJson& from) {
  for (const char* name : {"kind", "part", "rows", "width", "widths", "offset", "recipe"})
    if (to.value(name, OrderedJson()) != from.value(name, OrderedJson())) return false;
  std::vector<std::string> differ;
  for (const auto& [name, value] : to.items())
    if (from.value(name, OrderedJson()) != value) differ.push_back(name);
  for (const std::string& name : differ) to.erase(name);
  return true;
}

}  // namespace

ResolvedRotary resolve(const LayerGroup& group, std::int64_t length) {
  std::optional<RotaryFrequencies> frequencies;
  double scale = group.attention.softmax_scale;
  if (length < 1)
    refuse("model",
           "length must be at least 1 (ModelDescription::length is the training length)",
           length);
  for (const Encoding& one : group.position) {
    if (!frequencies) frequencies = rotary_frequencies(one, length);
    scale *= softmax_factor(one, length);
  }
  if (!frequencies)
    refuse("model", "the group must have a rotary encoding", names(group.position));
  return {.frequencies = *std::move(frequencies), .softmax_scale = scale};
}

const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part) {
  std::map<std::string, std::int64_t> parts;  // numbers of layers
  for (const LayerGroup& group : model.groups) {
    if (!group.layers.empty())
      parts[group.part] = std::max(parts[group.part], group.layers.back() + 1);
    if (group.part == part &&
        std::binary_search(group.layers.begin(), group.layers.end(), layer))
      return group;
  }
  if (!parts.contains(std::string(part))) {
    std::string all;
    for (const auto& [name, layers] : parts)
      all += (all.empty() ? "" : ", ") + (name.empty() ? "none" : name);
    refuse("model", "part of " + model.model_type + " must be one of " + all,
           part.empty() ? "none" : part);
  }
  refuse("model", "layer must be one of " + std::to_string(parts[std::string(part)]), layer);
}

std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length) {
  const std::int64_t at = length.value_or(model.length);
  struct Printed {
    OrderedJson json = OrderedJson::object();
    std::vector<std::int64_t> layers;
    bool table;
    double alone;  // softmax scale of layers with only the table; otherwise 0
  };
  std::vector<Printed> all;
  for (const LayerGroup& group : model.groups) {
    const Mixture none{NoPosition{}};
    for (const Encoding& one : group.position.empty() ? none : group.position) {
      Printed printed{entry(group, one, std::max<std::int64_t>(at, 1)), group.layers,
                      info(one).enters == Place::embeddings,
                      group.position.size() == 1 ? group.attention.softmax_scale : 0};
      // The table of a tower has a row for each patch of the training image.
      if (model.image && std::holds_alternative<Sinusoidal>(one))
        printed.json["rows"] = model.length;
      const auto same = std::find_if(all.begin(), all.end(), [&](Printed& other) {
        return printed.table && other.table && printed.alone == other.alone &&
               join(other.json, printed.json);
      });
      if (same == all.end()) {
        all.push_back(std::move(printed));
      } else {
        same->layers.insert(same->layers.end(), group.layers.begin(), group.layers.end());
        std::sort(same->layers.begin(), same->layers.end());
      }
    }
  }
  OrderedJson groups = OrderedJson::array();
  for (Printed& one : all) {
    OrderedJson json{{"layers", one.layers}};
    json.update(one.json);
    groups.push_back(std::move(json));
  }
  const OrderedJson json{{"version", 2},
                         {"source", model.source},
                         {"model_type", model.model_type},
                         {"layers", model.layers},
                         {"length", at},
                         {"width", model.width},
                         {"notes", model.notes},
                         {"groups", std::move(groups)}};
  // ASCII: the text may be printed, and a terminal acts on some code points of a file name.
  return json.dump(1, ' ', true, OrderedJson::error_handler_t::replace);
}

}  // namespace gnomon::model
