#include "gnomon/model/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gnomon/error.h"

namespace gnomon::model {
namespace {

using Json = nlohmann::ordered_json;

void put_rotary(const LayerGroup& group, std::int64_t length, Json& json) {
  const auto& scaled = std::get<ScaledRotary>(group.encoding);
  const ResolvedRotary resolved = resolve(group, length);
  json["pairing"] = scaled.rotary.pairing == Pairing::halves ? "halves" : "adjacent";
  json["head_dim"] = group.head_dim;
  json["rotary_dim"] = scaled.rotary.dim;
  json["first"] = scaled.rotary.first;
  json["base"] = scaled.rotary.base;
  json["scaling"] = Json::parse(to_json(scaled.scaling));
  json["inv_freq"] = resolved.schedule.inv_freq;
  json["table_scale"] = resolved.schedule.table_scale;
  json["axes"] = resolved.schedule.axes.empty() ? Json() : Json(resolved.schedule.axes);
}

void put_slopes(const Alibi& alibi, Json& json) {
  json["heads"] = alibi.heads;
  json["max_bias"] = alibi.max_bias;
  json["slopes"] = slopes(alibi);
}

// The fields of an encoding without a contract of its own, under their own names.
void put_fields(const Encoding& encoding, Json& json) {
  const Json fields = Json::parse(to_json(encoding));
  for (const auto& [name, value] : fields.items())
    if (name != "kind") json[name] = value;
}

Json group_json(const LayerGroup& group, std::int64_t length) {
  Json json{{"layers", group.layers}, {"kind", group.kind}};
  if (!group.part.empty()) json["part"] = group.part;
  double softmax_scale = group.softmax_scale;
  if (std::holds_alternative<ScaledRotary>(group.encoding)) {
    put_rotary(group, length, json);
    softmax_scale = resolve(group, length).softmax_scale;
  } else {
    if (group.head_dim > 0) json["head_dim"] = group.head_dim;
    if (const auto* alibi = std::get_if<Alibi>(&group.encoding)) {
      put_slopes(*alibi, json);
    } else if (const auto* t5 = std::get_if<T5Bias>(&group.encoding)) {
      json["heads"] = t5->heads;
      json["buckets"] = t5->buckets;
      json["max_distance"] = t5->max_distance;
      json["bidirectional"] = t5->direction == T5Direction::bidirectional;
    } else {
      put_fields(group.encoding, json);
      if (const auto most = capacity(group.encoding)) json["capacity"] = *most;
    }
    for (const auto& [name, value] : group.facts)
      if (value == static_cast<double>(static_cast<std::int64_t>(value)))
        json[name] = static_cast<std::int64_t>(value);
      else
        json[name] = value;
  }
  if (group.temperature)
    json["query_scale"] = {{"type", "temperature"},
                           {"beta", group.temperature->beta},
                           {"length", group.temperature->length},
                           {"shift", group.temperature->shift}};
  else
    json["query_scale"] = {{"type", "none"}};
  if (softmax_scale > 0) json["softmax_scale"] = softmax_scale;
  return json;
}

}  // namespace

ResolvedRotary resolve(const LayerGroup& group, std::int64_t length) {
  const auto* rotary = std::get_if<ScaledRotary>(&group.encoding);
  if (!rotary) refuse("model", "the group must have a rotary encoding", group.kind);
  if (group.fixed) return {.schedule = *group.fixed, .softmax_scale = group.softmax_scale};
  const ScaledFrequencies scaled = scaled_frequencies(rotary->rotary, rotary->scaling, length);
  return {.schedule = {.pairing = rotary->rotary.pairing,
                       .first = rotary->rotary.first,
                       .inv_freq = scaled.inv_freq,
                       .axes = rotary->axes,
                       .table_scale = scaled.table_scale},
          .softmax_scale = group.softmax_scale * scaled.softmax_scale};
}

const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part) {
  for (const LayerGroup& group : model.groups)
    if (group.part == part &&
        std::binary_search(group.layers.begin(), group.layers.end(), layer))
      return group;
  refuse("model", "layer must be one of " + std::to_string(model.layers), layer);
}

std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length) {
  const std::int64_t at = length.value_or(model.length);
  Json json{{"source", model.source}, {"model_type", model.model_type},
            {"layers", model.layers}, {"length", at},
            {"notes", model.notes},   {"groups", Json::array()}};
  for (const LayerGroup& group : model.groups)
    json["groups"].push_back(group_json(group, std::max<std::int64_t>(at, 1)));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gnomon::model
