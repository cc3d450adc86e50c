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

struct ModelWeights {
  std::string family;  // "llama"
  model::WeightLayout layout;
  model::AttentionSizes sizes;
  std::optional<Pairing> released;  // what this family is published in, where that is known
  std::vector<std::string> notes;
};

// `folder`: where config.json, or Meta's params.json, is looked for. A config is not read where
// options say everything. Throws where something is said nowhere.
ModelWeights read_model_weights(const SizeOptions& options,
                                const std::filesystem::path& folder);

}  // namespace gnomon::cli
