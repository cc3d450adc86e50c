// Families with attention in some layers and a state (linear attention, convolution, state
// spaces) in the others. Source: the code of each family.
#include "src/core/size.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {

using gnomon::internal::to_size;
namespace {

// Reads the numbers of the layers with attention.
void attend_at(Reading& r, std::string_view name) {
  const auto list = r.keys.find({name});
  if (!list) return;
  for (Layer& layer : r.layers) layer.attends = false;
  for (const std::int64_t l : layer_numbers(r, *list, name))
    r.layers[to_size(l)].attends = true;
}

}  // namespace

void bamba(Reading& r) {
  prepare(r);
  attend_at(r, "attn_layer_indices");
  r.rotary_dim = of_head(r.head_dim, r.family.share);
  r.keys.find({"partial_rotary_factor"});
  read_rotary(r);
}

void granite_hybrid(Reading& r) {
  prepare(r);
  if (const auto types = r.keys.find({"layers_block_type"}); types) {
    const auto names = types->strings("layers_block_type");
    require_length(r, *types, names.size(), "layers_block_type");
    type_layers(r, [&](std::int64_t l) { return names[to_size(l)]; });
  }
  if (r.keys.string({"position_embedding_type"}).value_or("") != "rope") {
    for (Layer& layer : r.layers) layer.rotates = false;
    for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
      r.keys.find({unused});
    r.softmax_scale = r.keys.positive({"attention_multiplier"}).value_or(1.0);
    return put_rotary_groups(r);
  }
  granite(r);
}

void jamba(Reading& r) {
  prepare(r);
  const std::int64_t period = r.size({"attn_layer_period"}, 8);
  const std::int64_t offset = r.keys.integer({"attn_layer_offset"}, 0, period - 1).value_or(4);
  if (offset >= period)
    r.fail(
        "attn_layer_offset is not given: 4, the default of jamba, must be less than "
        "attn_layer_period, got " +
        std::to_string(period));
  for (std::int64_t l = 0; l < r.out.layers; ++l) {
    r.layers[to_size(l)].attends = l % period == offset;
    r.layers[to_size(l)].rotates = false;
  }
  put_rotary_groups(r);
}

void kimi_linear(Reading& r) {
  const std::int64_t head = r.size({"qk_nope_head_dim"}, 128, most_of_few) +
                            r.size({"qk_rope_head_dim"}, 64, most_of_few);
  if (!r.keys.boolean({"mla_use_nope"}).value_or(true))
    r.fail_at({"mla_use_nope"}, "kimi_linear with mla_use_nope false is not understood");
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  prepare(r);
  r.head_dim = head;
  for (Layer& layer : r.layers) layer.attends = layer.rotates = false;
  if (const auto inner = r.keys.object_in("linear_attn_config"))
    if (const auto list = inner->find("full_attn_layers"))
      for (const std::int64_t l : layer_numbers(r, *list, "full_attn_layers", 1))
        r.layers[to_size(l)].attends = true;
  put_rotary_groups(r);
}

void lfm2(Reading& r) {
  prepare(r);
  attend_at(r, "full_attn_idxs");
  read_rotary(r);
}

void minimax(Reading& r) {
  prepare(r);
  if (const auto kinds = r.keys.find({"attn_type_list"})) {
    const auto numbers = kinds->integers("attn_type_list");
    require_length(r, *kinds, numbers.size(), "attn_type_list");
    type_layers(r, [&](std::int64_t l) {
      return numbers[to_size(l)] == 0 ? "linear_attention" : full;
    });
  } else {
    type_layers(r, [](std::int64_t l) { return l % 2 == 0 ? full : "linear_attention"; });
  }
  if (r.keys.find({"rotary_dim"})) {
    r.rotary_dim = r.size({"rotary_dim"});
    r.note(
        "rotary_dim is used, as in the released code; transformers 4.57 rotates the whole "
        "head");
  }
  read_rotary(r);
}

void nemotron_h(Reading& r) {
  prepare(r);
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  for (Layer& layer : r.layers) layer.rotates = false;
  if (const auto given = r.keys.find({"hybrid_override_pattern"})) {
    const std::string pattern = given->string("hybrid_override_pattern");
    require_length(r, *given, pattern.size(), "hybrid_override_pattern");
    for (std::size_t l = 0; l < r.layers.size(); ++l) r.layers[l].attends = pattern[l] == '*';
  } else if (const auto types = r.keys.find({"layers_block_type"})) {
    const auto names = types->strings("layers_block_type");
    require_length(r, *types, names.size(), "layers_block_type");
    for (std::size_t l = 0; l < r.layers.size(); ++l)
      r.layers[l].attends = names[l] == "attention" || names[l] == "full_attention";
  }
  put_rotary_groups(r);
}

void qwen3_next(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"full_attention_interval"}, 4);
  type_layers(r,
              [&](std::int64_t l) { return (l + 1) % every == 0 ? full : "linear_attention"; });
  read_rotary(r);
}

void recurrent_gemma(Reading& r) {
  prepare(r);
  std::vector<std::string> types{"recurrent", "recurrent", "attention"};
  if (const auto list = r.keys.find({"block_types", "_block_types"}))
    types = list->strings("block_types");
  if (types.empty())
    r.fail_at({"block_types", "_block_types"}, "block_types must not be empty");
  for (std::size_t l = 0; l < r.layers.size(); ++l)
    r.layers[l].attends = types[l % types.size()] == "attention";
  read_rotary(r);
}

void zamba2(Reading& r) {
  prepare(r);
  r.head_dim = r.size({"attention_head_dim"}, 2 * hidden_size(r) / r.heads, most_of_few);
  r.softmax_scale = inverse_sqrt(static_cast<double>(r.head_dim) / 2);
  const bool rotates = r.keys.boolean({"use_mem_rope"}).value_or(false);
  const auto types = r.keys.find({"layers_block_type"});
  const auto names = types ? types->strings("layers_block_type") : std::vector<std::string>();
  if (types) require_length(r, *types, names.size(), "layers_block_type");
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].attends = l < names.size() && names[l] == "hybrid";
    r.layers[l].rotates = rotates;
  }
  if (rotates) return read_rotary(r);
  r.keys.find({"rope_theta"});
  put_rotary_groups(r);
}

}  // namespace gnomon::model::internal
