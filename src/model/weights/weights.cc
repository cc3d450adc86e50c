// Weight layout of a model, from its family and the sizes in its config.
#include <algorithm>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/conversion.h"
#include "src/model/config/reading.h"
#include "src/model/config/subject.h"

namespace gnomon::model {
namespace {

using internal::Json;
using internal::JsonDocument;
using internal::JsonType;
using internal::Keys;

bool is_known(const std::string& model_type) {
  const internal::Family* const row = internal::find_row(model_type);
  return row && (row->read || row->weights != WeightLayout{});
}

// Returns the rotary encoding of the group, or null.
const Encoding* rotary_of(const LayerGroup& group, const std::string& model_type) {
  const Encoding* rotary = nullptr;
  for (const Encoding& one : group.position) {
    if (!rotary_frequencies(one, 1)) continue;
    if (rotary)
      refuse("conversion", "layers must have one rotary encoding, not two", model_type);
    rotary = &one;
  }
  if (rotary && group.attention.rotary_input != RotaryInput::queries_and_keys)
    refuse("conversion", "the layers must rotate q and k, not the hidden states", model_type);
  return rotary;
}

// Takes the sizes of the layers that rotate, which must agree.
void take_layers(const ModelDescription& model, ModelWeights& weights) {
  bool found = false;
  for (const LayerGroup& group : model.groups) {
    const Encoding* const rotary = rotary_of(group, model.model_type);
    if (!rotary) continue;
    const RotaryFrequencies frequencies = *rotary_frequencies(*rotary, 1);
    AttentionSizes sizes = weights.sizes;
    sizes.heads = group.heads;
    sizes.key_heads = group.key_heads;
    sizes.head_dim = group.head_dim;
    sizes.rotary_dim = frequencies.rotary_dim();
    sizes.head_offset = frequencies.head_offset;
    if (found && sizes != weights.sizes)
      refuse("conversion", "all layers must have the same rotation and head sizes",
             model.model_type);
    found = true;
    weights.sizes = sizes;
    weights.released = frequencies.pairing;
  }
  if (!found)
    refuse("conversion", "the model must have a rotary encoding",
           model.groups.empty() ? "none" : names(model.groups.front().position));
}

// quantization_config.weight_block_size: [rows, columns].
std::optional<std::int64_t> scale_rows(const Json& object) {
  const auto quantization = object.find("quantization_config");
  if (!quantization || !quantization->is(JsonType::object)) return std::nullopt;
  const auto block = quantization->find("weight_block_size");
  if (!block || !block->is(JsonType::array)) return std::nullopt;
  const auto sizes = block->integers("weight_block_size");
  if (sizes.empty()) return std::nullopt;
  return sizes.front();
}

void put_notes(const internal::Subject& subject, const WeightOptions& options,
               ModelWeights& weights) {
  const std::string file = options.name.substr(options.name.find_last_of('/') + 1);
  for (const char* key : {"rope_interleave", "rotary_emb_interleaved"})
    if (const auto value = subject.object.find(key); value && value->is(JsonType::boolean))
      weights.notes.push_back(file + " has " + key + ": " +
                              (value->boolean(key) ? "true" : "false") +
                              "; change it for the output");
  if (options.model_type.empty() &&
      std::none_of(subject.types.begin(), subject.types.end(), is_known))
    weights.notes.push_back(
        "the family " +
        (weights.model_type.empty() ? "(model_type is not given)" : weights.model_type) +
        " is unknown: q and k are assumed to have the layout of Llama");
}

}  // namespace

WeightLayout projection_layout(std::string_view model_type) {
  const internal::Family* const row = internal::find_row(model_type);
  return row ? row->weights : WeightLayout{};
}

WeightLayout weight_layout(std::string_view model_type) {
  const internal::Family* const row = internal::find_row(model_type);
  if (row && !row->inconvertible.empty()) refuse("conversion", row->inconvertible, model_type);
  const internal::Family* const language =
      row && !row->read ? internal::find_row(row->language) : row;
  if (language && language->read && language->position.find("rotary") == std::string_view::npos)
    refuse("conversion", "the model must have a rotary encoding", model_type);
  return projection_layout(model_type);
}

ModelWeights read_weights(std::string_view json, const WeightOptions& options) {
  const JsonDocument document(json, options.name);
  const internal::Subject subject = internal::find_subject(document.root(), {});
  const Json& object = subject.object;
  ModelWeights weights;
  weights.model_type = options.model_type;
  if (options.model_type.empty()) {
    for (const std::string& type : subject.types) weight_layout(type);
    if (!subject.types.empty()) weights.model_type = subject.types.back();
  }
  weights.layout = weight_layout(weights.model_type);
  if (const internal::Family* const row = internal::find_row(weights.model_type);
      row && !row->convertible_if.empty()) {
    const std::string key(row->convertible_if);
    const auto given = object.find(key);
    if (!given || !given->is(JsonType::boolean) || !given->boolean(key))
      refuse("conversion", weights.model_type + " must have " + key, "false");
  }
  Keys keys(object);
  weights.sizes.kv_lora_rank = keys.integer({"kv_lora_rank"}, 0).value_or(0);
  for (const Json& one : {object, document.root()})
    if (const auto rows = scale_rows(one)) {
      weights.sizes.scale_rows = *rows;
      break;
    }
  // The sizes do not depend on the pairing.
  take_layers(internal::describe(document.root(), subject,
                                 {.name = options.name, .assume_pairing = Pairing::halves}),
              weights);
  put_notes(subject, options, weights);
  return weights;
}

ModelWeights read_params(std::string_view json, const WeightOptions& options) {
  const JsonDocument document(json, options.name);
  const Json root = document.root();
  root.require(JsonType::object, "params.json");
  Keys keys(root);
  ModelWeights weights;
  weights.model_type = options.model_type.empty() ? "meta" : options.model_type;
  weights.layout = weight_layout(weights.model_type);
  AttentionSizes& sizes = weights.sizes;
  const auto heads = keys.size({"n_heads"}, internal::max_count);
  const auto width = keys.size({"dim"});
  const auto own = keys.size({"head_dim"}, internal::max_count);
  const auto rotated = keys.size({"qk_rope_head_dim"}, internal::max_count);
  if (!heads) root.fail("a params.json must have n_heads");
  if (!own && !rotated && !width) root.fail("a params.json must have dim or head_dim");
  sizes.heads = *heads;
  sizes.key_heads = keys.size({"n_kv_heads"}, internal::max_count).value_or(*heads);
  sizes.kv_lora_rank = keys.integer({"kv_lora_rank"}, 0).value_or(0);
  if (rotated) {
    sizes.head_offset = keys.integer({"qk_nope_head_dim"}, 0).value_or(0);
    sizes.rotary_dim = *rotated;
    sizes.head_dim = sizes.head_offset + *rotated;
  } else {
    sizes.head_dim = sizes.rotary_dim = own ? *own : *width / *heads;
  }
  if (const auto rows = scale_rows(root)) sizes.scale_rows = *rows;
  weights.released = Pairing::adjacent;
  return weights;
}

}  // namespace gnomon::model
