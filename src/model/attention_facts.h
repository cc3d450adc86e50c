// Attention settings of each family that its config does not contain.
#pragma once

#include <cstdint>
#include <string_view>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/model/description.h"

namespace gnomon::model::internal {

// Layers with a sliding window.
enum class Slides {
  none = 1,    // the key sliding_window is not used
  all,         // every layer
  by_type,     // layers of type sliding_attention
  from_layer,  // use_sliding_window: layers from max_window_layers on
  even_below,  // use_sliding_window: layers of even number below max_window_layers
  unrotated    // use_sliding_window: layers that do not rotate
};
struct WindowFacts {
  Slides slides = Slides::none;
  std::int64_t window = 0;        // default of sliding_window; 0: none
  std::string_view pattern = {};  // default of layer_types, repeated
  std::string_view key = "sliding_window";
};

struct NormFacts {
  NormKind kind = {};
  NormOrder order = NormOrder::before_rotation;
  NormScope scope = NormScope::head;
  double epsilon = 1e-6;  // default
  double weight_offset = 0;
  std::string_view switched_by = {};  // boolean key that enables the norm; empty: always on
  bool on = true;                     // default of that key
  bool rotated_only = false;          // only in layers that rotate
  bool trained = true;                // false: the norm has no weights
};

// Whether model_type is one of the families, which are separated by one blank.
bool names(std::string_view families, std::string_view model_type);
// Values are from the source code of each family. Unlisted families have the defaults.
Visibility visibility_of(std::string_view model_type);  // causal for language models
WindowFacts window_of(std::string_view model_type);
// Null: no norm of q and k.
const NormFacts* norm_of(std::string_view model_type);
// Default of num_key_value_heads. 0: the number of query heads. -1: always that number.
std::int64_t key_heads_of(std::string_view model_type);
std::int64_t value_dim_of(std::string_view model_type);  // v_head_dim; 0: head_dim
bool has_sinks(std::string_view model_type);
bool normalises_values(std::string_view model_type);  // Gemma 3n and 4: RMS without weights
// Default of attn_logit_softcapping. 0: none. Negative: the key is not used.
double softcap_of(std::string_view model_type);
// The feature of the layers that LayerAttention does not support. Empty: supported.
std::string_view unsupported_of(std::string_view model_type);

}  // namespace gnomon::model::internal
