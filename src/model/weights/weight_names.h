// Role of a tensor in attention, from its name.
#pragma once

#include <string_view>

namespace gnomon::model::internal {

// Projection or norm of a tensor.
enum class Role {
  none = 1,  // not of q or k
  query,
  key,
  fused,
  query_norm,
  key_norm,
  shared_key,  // latent attention: the compressed keys and values, then one rotated key
  unsure,      // named after q or k, but unknown
};
// Kind of the tensor.
enum class Leaf {
  rows = 1,   // weight, bias, lora_B: a row for each output
  magnitude,  // DoRA's, one value for each output
  scale,      // scale of quantised rows
  single,     // scale of activations or the cache: one value
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
