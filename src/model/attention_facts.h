// What decides a layer's attention besides position and stands in no config: by family.
#pragma once

#include <cstdint>
#include <string_view>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/model/description.h"

namespace gnomon::model::internal {

// Which layers have the sliding window.
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
  std::int64_t window = 0;        // where sliding_window is not given; 0: none
  std::string_view pattern = {};  // layer types where layer_types is not given, repeated
  std::string_view key = "sliding_window";
};

struct NormFacts {
  NormKind kind = {};
  NormOrder order = NormOrder::before_rotation;
  NormScope scope = NormScope::head;
  double epsilon = 1e-6;  // where the config has no key for it
  double weight_offset = 0;
  std::string_view switched_by = {};  // a boolean key that turns the norm on; empty: always
  bool on = true;                     // where that key is not given
  bool rotated_only = false;          // of layers that rotate alone
  bool trained = true;                // or without weights
};

// Whether model_type is one of the families, one blank between two.
bool names(std::string_view families, std::string_view model_type);
// Each is what the family's own source does; the defaults hold for families not listed.
Visibility visibility_of(std::string_view model_type);  // causal for language models
WindowFacts window_of(std::string_view model_type);
// Null: q and k are not normalised.
const NormFacts* norm_of(std::string_view model_type);
// num_key_value_heads where it is not given; 0: as the query heads. -1: so in any case.
std::int64_t key_heads_of(std::string_view model_type);
std::int64_t value_dim_of(std::string_view model_type);  // v_head_dim; 0: as head_dim
bool has_sinks(std::string_view model_type);
bool normalises_values(std::string_view model_type);  // Gemma 3n and 4: RMS without weights
// attn_logit_softcapping where it is not given; 0: none. Negative: the key is not used.
double softcap_of(std::string_view model_type);
// What layers do that LayerAttention cannot say; empty: nothing.
std::string_view unsupported_of(std::string_view model_type);

}  // namespace gnomon::model::internal
