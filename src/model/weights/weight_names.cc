#include "src/model/weights/weight_names.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace gnomon::model::internal {
namespace {

using Parts = std::vector<std::string_view>;

Parts split(std::string_view text, char separator) {
  Parts parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <std::size_t N>
bool is_one_of(std::string_view text, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Names of self-attention in released models: GPT-NeoX and Meta use attention, BERT's
// descendants attention.self, Falcon and ChatGLM self_attention, Phi's first release mixer,
// RecurrentGemma temporal_block.
constexpr std::string_view self_attention[] = {
    "self_attn", "attn", "attention", "self_attention", "self", "mixer", "temporal_block",
};
// Other attention modules: cross-attention to an encoder, linear attention, and DeepSeek's
// indexer, which rotates its queries with a different pairing.
constexpr std::string_view other_attention[] = {
    "cross_attn",      "crossattention", "cross_attention", "encoder_attn",
    "EncDecAttention", "linear_attn",    "indexer",
};

constexpr std::pair<std::string_view, Role> modules[] = {
    {"q_proj", Role::query},
    {"wq", Role::query},
    {"query", Role::query},
    {"q_b_proj", Role::query},
    {"wq_b", Role::query},
    {"k_proj", Role::key},
    {"wk", Role::key},
    {"key", Role::key},
    {"query_key_value", Role::fused},
    {"qkv_proj", Role::fused},
    {"qkv", Role::fused},
    {"Wqkv", Role::fused},
    {"wqkv", Role::fused},
    {"c_attn", Role::fused},
    {"W_pack", Role::fused},
    {"kv_a_proj_with_mqa", Role::shared_key},
    {"wkv_a_with_mqa", Role::shared_key},
    {"wkv_a", Role::shared_key},
    {"q_norm", Role::query_norm},
    {"q_layernorm", Role::query_norm},
    {"query_layernorm", Role::query_norm},
    {"k_norm", Role::key_norm},
    {"k_layernorm", Role::key_norm},
    {"key_layernorm", Role::key_norm},
};
// Modules of latent attention before the split into heads, or without positions.
constexpr std::string_view unmoved_modules[] = {
    "q_a_proj", "wq_a",      "q_a_layernorm", "q_a_norm", "kv_a_layernorm",
    "kv_norm",  "kv_a_norm", "kv_b_proj",     "wkv_b",
};
constexpr std::string_view of_queries_or_keys[] = {
    "q", "k", "qk", "qkv", "kv", "query", "key", "queries", "keys", "Wqkv", "wqkv", "wq", "wk",
};

bool names_queries_or_keys(std::string_view module) {
  const Parts words = split(module, '_');
  return std::any_of(words.begin(), words.end(),
                     [](std::string_view word) { return is_one_of(word, of_queries_or_keys); });
}

bool ends_with_scale(std::string_view name) {
  return name == "scale" || name.ends_with("_scale");
}

Leaf leaf_of(Role role, Parts::const_iterator at, Parts::const_iterator end) {
  if (at != end && *at == "base_layer") ++at;  // inserted by PEFT
  const bool is_norm = role == Role::query_norm || role == Role::key_norm;
  // StableLM has a norm for each head: norms.7.weight.
  if (is_norm && end - at == 3 && at[0] == "norms" && is_number(at[1])) at += 2;
  if (at == end) return Leaf::unsure;
  // Names of adapters may contain the adapter's name: lora_B.default.weight.
  if (*at == "lora_A") return Leaf::unmoved;
  if (*at == "lora_B")
    return end[-1] == "weight" || end[-1] == "lora_B" ? Leaf::rows : Leaf::unsure;
  if (*at == "lora_magnitude_vector") return Leaf::magnitude;
  if (end - at != 1) return Leaf::unsure;
  if (*at == "weight" || *at == "bias") return Leaf::rows;
  if (*at == "weight_scale" || *at == "weight_scale_inv" || *at == "scale") return Leaf::scale;
  if (ends_with_scale(*at)) return Leaf::single;
  return Leaf::unsure;
}

}  // namespace

TensorName read_name(std::string_view tensor) {
  if (is_of_tower(tensor)) return {};
  const Parts parts = split(tensor, '.');
  bool inside = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    if (is_one_of(part, other_attention)) return {};
    if (inside) {
      if (is_one_of(part, unmoved_modules)) return {};
      for (const auto& [module, role] : modules)
        if (part == module)
          return {role, leaf_of(role, parts.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                parts.end())};
      if (names_queries_or_keys(part))
        return {Role::unsure, ends_with_scale(part) ? Leaf::single : Leaf::unsure};
    }
    inside = inside || is_one_of(part, self_attention);
  }
  return {};
}

bool is_of_tower(std::string_view tensor) {
  static constexpr std::string_view towers[] = {
      "vision", "visual", "image",     "img_",      "audio", "speech",
      "vpm",    "apm",    "resampler", "perceiver", "sam_",
  };
  for (const std::string_view part : split(tensor, '.')) {
    // Inside attention it is the name of an adapter: Phi-4's lora_B.vision.
    if (is_one_of(part, self_attention)) return false;
    for (const std::string_view tower : towers)
      if (part.starts_with(tower)) return true;
  }
  return false;
}

}  // namespace gnomon::model::internal
