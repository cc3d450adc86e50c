#include "apps/cli/attention_sizes.h"

#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {

namespace fs = std::filesystem;

model::ModelWeights weights_of(const SizeOptions& o, const fs::path& folder) {
  fs::path path = o.config;
  if (fs::is_directory(path)) path /= "config.json";
  if (path.empty())
    for (const char* name : {"params.json", "config.json"})
      if (fs::exists(folder / name)) path = folder / name;
  const bool all = o.family && o.heads && o.key_heads && o.head_dim && o.rotary_dim;

  if (all && !o.config.empty())
    refuse("convert", "--config must not be given with --family and all sizes", o.config);

  model::ModelWeights weights;
  if (all || path.empty()) {
    weights.model_type = o.family.value_or("llama-like");
    weights.layout = model::weight_layout(weights.model_type);
  } else {
    const io::MappedFile file(path);
    const model::WeightOptions options{.name = path.string(),
                                       .model_type = o.family.value_or("")};
    weights = path.filename() == "params.json" ? model::read_params(file.text(), options)
                                               : model::read_weights(file.text(), options);
  }
  model::AttentionSizes& sizes = weights.sizes;
  sizes.heads = o.heads.value_or(sizes.heads);
  sizes.key_heads = o.key_heads.value_or(sizes.key_heads ? sizes.key_heads : sizes.heads);
  sizes.head_dim = o.head_dim.value_or(sizes.head_dim);
  sizes.rotary_dim =
      o.rotary_dim.value_or(sizes.rotary_dim ? sizes.rotary_dim : sizes.head_dim);
  sizes.head_offset = o.first.value_or(sizes.head_offset);
  sizes.kv_lora_rank = o.kv_lora_rank.value_or(sizes.kv_lora_rank);
  if (sizes.heads == 0 || sizes.head_dim == 0)
    refuse("convert", "--heads and --head-dim must be given if no config.json has them",
           path.empty() ? "no config.json in " + folder.string() : path.string());
  if (weights.model_type.empty()) weights.model_type = "llama-like";
  return weights;
}

}  // namespace gnomon::cli
