// What the name of a tensor says of its place in attention.
#pragma once

#include <string_view>

namespace gnomon::model::internal {

// The projection or norm that a tensor belongs to.
enum class Role {
  none = 1,  // not of q or k
  query,
  key,
  fused,
  query_norm,
  key_norm,
  shared_key,  // of latent attention: the compressed keys and values, then one rotated key
  unsure,      // named after q or k, and not known
};
// What of it.
enum class Leaf {
  rows = 1,   // weight, bias, lora_B: a row for each output
  magnitude,  // DoRA's, one number for each output
  scale,      // of quantised rows
  single,     // a scale of activations or the cache: one number
  unmoved,    // lora_A
  unsure,
};

struct TensorName {
  Role role = Role::none;
  Leaf leaf = Leaf::rows;
};

TensorName read_name(std::string_view tensor);
bool is_of_tower(std::string_view tensor);

}  // namespace gnomon::model::internal
