// How a model's weights lie: from its config, and from options where they say otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gnomon/model/conversion.h"

namespace gnomon::cli {

struct SizeOptions {
  std::string config;  // a config.json elsewhere than beside the weights
  std::optional<std::string> family;
  std::optional<std::int64_t> heads, kv_heads, head_dim, rotary_dim, first, kv_lora_rank;
};

// `folder`: where config.json, or Meta's params.json, is looked for. No config is read where
// options say everything; `released` is then unset. Throws std::invalid_argument where a size
// is said nowhere, and as model::read_weights.
model::ModelWeights weights_of(const SizeOptions& options, const std::filesystem::path& folder);

}  // namespace gnomon::cli
