#include "apps/cli/attention_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/model_file.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::int64_t;

// The keys of a config that model::read_config has no use for: how many heads of each kind.
class Config {
 public:
  explicit Config(const fs::path& path) : name_(path.string()) {
    const io::MappedFile file(path);
    constexpr std::size_t most = 16 << 20;
    if (file.text().size() > most) throw FormatError(name_, 0, "a config of more than 16 MB");
    try {
      json_ = Json::parse(file.text());
    } catch (const Json::parse_error& error) {
      throw FormatError(name_, error.byte, "not JSON");
    }
    if (!json_.is_object()) throw FormatError(name_, 0, "a config must be a JSON object");
    types_.push_back(text("model_type"));
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (const char* part : {"text_config", "llm_config", "language_config", "thinker_config",
                               "text_model_config"})
        if (json_.contains(part) && json_[part].is_object()) {
          json_ = Json(json_[part]);
          types_.push_back(text("model_type"));
          deeper = true;
          break;
        }
    }
    std::erase(types_, "");
    if (types_.empty()) types_.emplace_back();
  }

  // Of the language model, else of the whole.
  const std::string& type() const { return types_.back(); }
  const std::vector<std::string>& types() const { return types_; }
  std::optional<bool> flag(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_boolean()) return std::nullopt;
    return found->get<bool>();
  }
  std::optional<int64_t> integer(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (const auto value = integer_at(json_, key)) return value;
    return std::nullopt;
  }
  std::optional<int64_t> integer_in(const char* part, const char* key) const {
    const auto found = json_.find(part);
    if (found == json_.end() || !found->is_object()) return std::nullopt;
    return integer_at(*found, key);
  }
  // quantization_config.weight_block_size: [rows, columns].
  std::optional<int64_t> scale_rows() const {
    const auto found = json_.find("quantization_config");
    if (found == json_.end() || !found->is_object()) return std::nullopt;
    const auto block = found->find("weight_block_size");
    if (block == found->end() || !block->is_array() || block->empty() ||
        !block->front().is_number_integer())
      return std::nullopt;
    return block->front().get<int64_t>();
  }

 private:
  std::string text(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : "";
  }
  std::optional<int64_t> integer_at(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return std::nullopt;
    if (!found->is_number_integer())
      throw FormatError(name_, 0, fmt::format("{} must be one integer", key));
    return found->get<int64_t>();
  }

  std::string name_;
  Json json_;
  std::vector<std::string> types_;
};

int64_t kv_heads_of(const Config& config, const std::string& family, int64_t heads) {
  if (family == "falcon" && !config.flag("new_decoder_architecture").value_or(false))
    return config.flag("multi_query").value_or(true) ? 1 : heads;
  if (family == "chatglm" && !config.flag("multi_query_attention").value_or(false))
    refuse("convert", "chatglm must have multi_query_attention (ChatGLM2 and later)", "false");
  if (const auto inner = config.integer_in("attn_config", "kv_n_heads")) return *inner;
  return config
      .integer({"num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_kv_heads",
                "n_head_kv"})
      .value_or(heads);
}

// The one rotary encoding of all layers that turn.
void take_rotary(const fs::path& path, ModelWeights& weights) {
  const model::ModelDescription model = read_model(path.string(), "as-written");
  bool found = false;
  for (const model::LayerGroup& group : model.groups) {
    if (group.kind != "rotary") continue;
    const Rotary& rotary = std::get<ScaledRotary>(group.encoding).rotary;
    model::AttentionSizes sizes = weights.sizes;
    sizes.head_dim = group.head_dim;
    sizes.rotary_dim = rotary.dim;
    sizes.first = rotary.first;
    if (found && sizes != weights.sizes)
      refuse("convert", "all layers must turn heads of one size", model.model_type);
    found = true;
    weights.sizes = sizes;
    weights.released = rotary.pairing;
  }
  if (!found)
    refuse("convert", "the model must have a rotary encoding",
           model.groups.empty() ? "none" : model.groups.front().kind);
}

// Meta's and Mistral's own: whole heads of adjacent pairs.
void take_params(const Config& config, ModelWeights& weights) {
  const int64_t heads = weights.sizes.heads;
  const auto width = config.integer({"dim"});
  if (heads > 0 && width) weights.sizes.head_dim = *width / heads;
  weights.sizes.head_dim = config.integer({"head_dim"}).value_or(weights.sizes.head_dim);
  weights.sizes.rotary_dim = weights.sizes.head_dim;
  if (const auto turning = config.integer({"qk_rope_head_dim"})) {
    weights.sizes.first = config.integer({"qk_nope_head_dim"}).value_or(0);
    weights.sizes.rotary_dim = *turning;
    weights.sizes.head_dim = weights.sizes.first + *turning;
  }
  weights.released = Pairing::adjacent;
}

void read_config_file(const fs::path& path, const SizeOptions& options, ModelWeights& weights) {
  const Config config(path);
  const bool is_params = path.filename() == "params.json";
  if (!options.family) {
    weights.family = is_params ? "meta" : config.type();
    for (const std::string& type : config.types()) model::weight_layout(type);
  }
  const int64_t heads =
      config.integer({"num_attention_heads", "n_head", "n_heads", "num_heads"}).value_or(0);
  weights.sizes.heads = heads;
  weights.sizes.kv_heads = kv_heads_of(config, weights.family, heads);
  weights.sizes.kv_lora_rank = config.integer({"kv_lora_rank"}).value_or(0);
  weights.sizes.scale_rows = config.scale_rows().value_or(weights.sizes.scale_rows);
  if (is_params)
    take_params(config, weights);
  else if (!(options.head_dim && options.rotary_dim))
    take_rotary(path, weights);
  for (const char* key : {"rope_interleave", "rotary_emb_interleaved"})
    if (const auto value = config.flag(key))
      weights.notes.push_back(fmt::format("{} says {}: {}; change it for the output",
                                          path.filename().string(), key, *value));
  const auto known = model::families();
  const auto is_known = [&](const std::string& type) {
    return model::weight_layout(type) != model::WeightLayout{} ||
           std::any_of(known.begin(), known.end(),
                       [&](const model::FamilyInfo& one) { return one.model_type == type; });
  };
  if (!options.family && !is_params &&
      std::none_of(config.types().begin(), config.types().end(), is_known))
    weights.notes.push_back(
        fmt::format("the family {} is not known: q and k are taken to lie as Llama's",
                    weights.family.empty() ? "(model_type is not given)" : weights.family));
}

}  // namespace

ModelWeights read_model_weights(const SizeOptions& o, const fs::path& folder) {
  ModelWeights weights;
  weights.family = o.family.value_or("");
  if (o.family) model::weight_layout(*o.family);
  const bool all = o.family && o.heads && o.kv_heads && o.head_dim && o.rotary_dim;
  fs::path path = o.config;
  if (fs::is_directory(path)) path /= "config.json";
  if (path.empty())
    for (const char* name : {"params.json", "config.json"})
      if (fs::exists(folder / name)) path = folder / name;
  if (!all && !path.empty()) read_config_file(path, o, weights);

  model::AttentionSizes& sizes = weights.sizes;
  sizes.heads = o.heads.value_or(sizes.heads);
  sizes.kv_heads = o.kv_heads.value_or(sizes.kv_heads ? sizes.kv_heads : sizes.heads);
  sizes.head_dim = o.head_dim.value_or(sizes.head_dim);
  sizes.rotary_dim =
      o.rotary_dim.value_or(sizes.rotary_dim ? sizes.rotary_dim : sizes.head_dim);
  sizes.first = o.first.value_or(sizes.first);
  sizes.kv_lora_rank = o.kv_lora_rank.value_or(sizes.kv_lora_rank);
  if (sizes.heads == 0 || sizes.head_dim == 0)
    refuse("convert", "--heads and --head-dim must be given where no config.json says them",
           path.empty() ? "no config.json in " + folder.string() : path.string());
  if (weights.family.empty()) weights.family = "llama-like";
  weights.layout = model::weight_layout(weights.family);
  return weights;
}

}  // namespace gnomon::cli
