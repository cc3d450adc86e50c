// The layout of a model's attention weights: from its config, overridden by options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gnomon/model/conversion.h"

namespace gnomon::cli {

struct SizeOptions {
  std::string config;  // a config.json that is not beside the weights
  std::optional<std::string> family;
  std::optional<std::int64_t> heads, key_heads, head_dim, rotary_dim, first, kv_lora_rank;
};

// `folder`: the folder with config.json, or Meta's params.json. If the options give all sizes,
// no config is read and `released` is unset. Throws std::invalid_argument if neither the config
// nor the options give a size, and like model::read_weights.
model::ModelWeights weights_of(const SizeOptions& options, const std::filesystem::path& folder);

}  // namespace gnomon::cli
