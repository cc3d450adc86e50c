#include "apps/lab/tasks/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gnomon/io/file.h"

namespace gnomon::lab::finetune {
namespace {

constexpr const char* operation = "finetune";

// The type of a checkpoint tensor, if it is a trained one.
std::optional<at::ScalarType> type_of(const io::Array& array) {
  const io::Element element = array.element();
  if (element == io::Element::f32) return at::kFloat;
  if (element == io::Element::f64) return at::kDouble;
  if (element == io::Element::f16) return at::kHalf;
  if (element == io::Element::bf16) return at::kBFloat16;
  return std::nullopt;
}

std::string block(const char* list, std::int64_t layer) {
  return fmt::format("{}.{}.", list, layer);
}

}  // namespace

at::Tensor Network::read(const std::string& name, std::vector<std::int64_t> shape) const {
  const std::vector<std::string> names = checkpoint_->names();
  const std::string where = checkpoint_->folder().string();
  if (!std::binary_search(names.begin(), names.end(), name))
    refuse(operation,
           fmt::format("{} must have the tensor {} {}", where, name, io::to_string(shape)),
           "none");
  const io::Array array = checkpoint_->tensor(name);
  const auto type = type_of(array);
  if (array.shape() != shape || !type)
    refuse(operation,
           fmt::format("{} in {} must be floating-point {}", name, where, io::to_string(shape)),
           array.dtype() + " " + io::to_string(array.shape()));
  at::Tensor tensor =
      at::from_blob(const_cast<std::byte*>(array.bytes().data()), array.shape(), *type)
          .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  if (!at::isfinite(tensor).all().item<bool>())
    refuse(operation, name + " in " + where + " must be finite", "NaN or infinity");
  return tensor;
}

void Network::take(const std::string& short_name, std::vector<std::int64_t> shape) {
  const std::string name = full(short_name);
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '.', '_');
  weights_[name] = register_parameter("weights_" + plain, read(name, std::move(shape)));
}

void Network::take_pair(const std::string& name, std::vector<std::int64_t> shape, bool bias) {
  take(name + ".weight", shape);
  if (bias) take(name + ".bias", {config_.layout == Layout::gpt2 ? shape.back() : shape[0]});
}

Network::Network(Config config, std::shared_ptr<const io::Checkpoint> checkpoint)
    : config_(std::move(config)), checkpoint_(std::move(checkpoint)) {
  if (config_.layout == Layout::llama)
    take_llama();
  else if (config_.layout == Layout::gpt2)
    take_gpt2();
  else
    take_bert();
  check_leftovers();
}

void Network::find_prefix(const std::string& prefix, const std::string& probe) {
  const std::vector<std::string> names = checkpoint_->names();
  prefix_ = std::binary_search(names.begin(), names.end(), probe) ? "" : prefix;
}

void Network::take_llama() {
  find_prefix("model.", "embed_tokens.weight");
  const std::int64_t width = config_.width, inner = config_.inner;
  take("embed_tokens.weight", {config_.vocabulary, width});
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const model::LayerGroup& group = model::group_of(config_.description, l);
    const std::string at = block("layers", l);
    const std::int64_t q = group.heads * group.head_dim, k = group.key_heads * group.head_dim;
    take(at + "input_layernorm.weight", {width});
    take_pair(at + "self_attn.q_proj", {q, width}, config_.attention_bias);
    take_pair(at + "self_attn.k_proj", {k, width}, config_.attention_bias);
    take_pair(at + "self_attn.v_proj", {k, width}, config_.attention_bias);
    take_pair(at + "self_attn.o_proj", {width, q}, config_.output_bias);
    take(at + "post_attention_layernorm.weight", {width});
    take_pair(at + "mlp.gate_proj", {inner, width}, config_.feed_bias);
    take_pair(at + "mlp.up_proj", {inner, width}, config_.feed_bias);
    take_pair(at + "mlp.down_proj", {width, inner}, config_.feed_bias);
  }
  take("norm.weight", {width});
  if (!config_.tied) take("lm_head.weight", {config_.vocabulary, width});
  position_ = libtorch::PositionScheme(config_.scheme);
}

void Network::take_gpt2() {
  find_prefix("transformer.", "wte.weight");
  const std::int64_t width = config_.width;
  take("wte.weight", {config_.vocabulary, width});
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const std::string at = block("h", l);
    take_pair(at + "ln_1", {width});
    take_pair(at + "attn.c_attn", {width, 3 * width});  // Conv1D: [in, out]
    take_pair(at + "attn.c_proj", {width, width});
    take_pair(at + "ln_2", {width});
    take_pair(at + "mlp.c_fc", {width, config_.inner});
    take_pair(at + "mlp.c_proj", {config_.inner, width});
  }
  take_pair("ln_f", {width});
  if (!config_.tied) take("lm_head.weight", {config_.vocabulary, width});
  take_table("wpe.weight");
}

void Network::take_bert() {
  find_prefix("bert.", "embeddings.word_embeddings.weight");
  const std::int64_t width = config_.width;
  take("embeddings.word_embeddings.weight", {config_.vocabulary, width});
  take("embeddings.token_type_embeddings.weight", {config_.token_types, width});
  take_pair("embeddings.LayerNorm", {width});
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const std::string at = block("encoder.layer", l);
    for (const char* name : {"query", "key", "value"})
      take_pair(at + "attention.self." + name, {width, width});
    take_pair(at + "attention.output.dense", {width, width});
    take_pair(at + "attention.output.LayerNorm", {width});
    take_pair(at + "intermediate.dense", {config_.inner, width});
    take_pair(at + "output.dense", {width, config_.inner});
    take_pair(at + "output.LayerNorm", {width});
  }
  take_pair("cls.predictions.transform.dense", {width, width});
  take_pair("cls.predictions.transform.LayerNorm", {width});
  take("cls.predictions.bias", {config_.vocabulary});
  take_table("embeddings.position_embeddings.weight");
}

// The learned table belongs to the scheme.
void Network::take_table(const std::string& name) {
  const model::Mixture table = model::before_layers(config_.scheme);
  const auto* learned = table.size() == 1 ? std::get_if<Learned>(&table[0]) : nullptr;
  if (!learned)
    refuse(operation, "the positions must be a learned table", model::names(config_.scheme));
  const at::Tensor values = read(full(name), {learned->rows, learned->width});
  position_ = register_module("position", libtorch::PositionScheme(config_.scheme));
  const auto parameters = position_->table()->named_parameters();
  const at::NoGradGuard no_grad;
  at::Tensor own = parameters.begin()->value();
  own.copy_(values);
  weights_[full(name)] = own;
}

// A tensor of a layer that the network does not use would change the result.
void Network::check_leftovers() const {
  constexpr const char* ignored[] = {"rotary_emb.inv_freq",
                                     "attn.bias",
                                     "masked_bias",
                                     "position_ids",
                                     "token_type_ids",
                                     "lm_head.weight",
                                     "predictions.decoder.",
                                     "cls.seq_relationship",
                                     "pooler."};
  for (const std::string& name : checkpoint_->names()) {
    const bool known =
        weights_.contains(name) ||
        std::any_of(std::begin(ignored), std::end(ignored),
                    [&](const char* part) { return name.find(part) != std::string::npos; });
    if (!known)
      refuse(operation,
             checkpoint_->folder().string() + " must only have tensors of the layout of " +
                 config_.description.model_type,
             name);
  }
}

libtorch::PositionScheme Network::position_for(std::int64_t length) {
  model::Scheme scheme = config_.scheme;
  bool scaled = false;
  for (model::Mixture& layer : scheme.layers)
    for (model::Encoding& one : layer)
      if (auto* rotary = std::get_if<ScaledRotary>(&one)) {
        rotary->length = length;
        scaled = true;
      }
  if (!scaled) return position_;
  const auto found = by_length_.find(length);
  if (found != by_length_.end()) return found->second;
  return by_length_.emplace(length, libtorch::PositionScheme(std::move(scheme))).first->second;
}

libtorch::AttendOptions Network::options_of(std::int64_t layer) const {
  const model::LayerAttention& a = model::group_of(config_.description, layer).attention;
  return {.visibility = a.visibility,
          .left = a.left,
          .softmax_scale = a.softmax_scale,
          .right = a.right,
          .layout = libtorch::Layout::tokens_heads};
}

at::Tensor Network::linear(const at::Tensor& x, const std::string& name) const {
  const auto bias = weights_.find(full(name + ".bias"));
  const at::Tensor matrix = weight(name + ".weight");
  return bias == weights_.end() ? at::linear(x, matrix) : at::linear(x, matrix, bias->second);
}

at::Tensor Network::layer_norm(const at::Tensor& x, const std::string& name) const {
  return at::layer_norm(x, {config_.width}, weight(name + ".weight"), weight(name + ".bias"),
                        config_.norm_epsilon);
}

at::Tensor Network::rms_norm(const at::Tensor& x, const std::string& name) const {
  return x * at::rsqrt(x.square().mean(-1, true) + config_.norm_epsilon) *
         weight(name + ".weight");
}

at::Tensor Network::activated(const at::Tensor& x) const {
  if (config_.activation == Activation::silu) return at::silu(x);
  if (config_.activation == Activation::relu) return at::relu(x);
  return at::gelu(x, config_.activation == Activation::gelu_tanh ? "tanh" : "none");
}

at::Tensor Network::forward(const at::Tensor& tokens) {
  if (const auto most = model::capacity(config_.scheme); most && tokens.size(1) > *most)
    refuse(operation, "a window must fit into the position table of " + std::to_string(*most),
           tokens.size(1));
  libtorch::PositionScheme position = position_for(tokens.size(1));
  return config_.layout == Layout::llama  ? forward_llama(tokens, position)
         : config_.layout == Layout::gpt2 ? forward_gpt2(tokens, position)
                                          : forward_bert(tokens, position);
}

at::Tensor Network::forward_llama(const at::Tensor& tokens,
                                  libtorch::PositionScheme& position) {
  at::Tensor x = position->embed(at::embedding(weight("embed_tokens.weight"), tokens));
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const model::LayerGroup& group = model::group_of(config_.description, l);
    const std::string at = block("layers", l);
    const at::Tensor normed = rms_norm(x, at + "input_layernorm");
    const auto heads = [&](const char* name, std::int64_t count) {
      return linear(normed, at + "self_attn." + name).unflatten(2, {count, group.head_dim});
    };
    const at::Tensor attended =
        position->attend(l, heads("q_proj", group.heads), heads("k_proj", group.key_heads),
                         heads("v_proj", group.key_heads), options_of(l));
    x = x + linear(attended.flatten(2), at + "self_attn.o_proj");
    const at::Tensor feed = rms_norm(x, at + "post_attention_layernorm");
    x = x +
        linear(activated(linear(feed, at + "mlp.gate_proj")) * linear(feed, at + "mlp.up_proj"),
               at + "mlp.down_proj");
  }
  return at::linear(rms_norm(x, "norm"),
                    config_.tied ? weight("embed_tokens.weight") : weight("lm_head.weight"));
}

at::Tensor Network::forward_gpt2(const at::Tensor& tokens, libtorch::PositionScheme& position) {
  const auto conv1d = [&](const at::Tensor& input, const std::string& name) {
    return at::matmul(input, weight(name + ".weight")) + weight(name + ".bias");
  };
  at::Tensor x = position->embed(at::embedding(weight("wte.weight"), tokens));
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const model::LayerGroup& group = model::group_of(config_.description, l);
    const std::string at = block("h", l);
    const at::Tensor qkv = conv1d(layer_norm(x, at + "ln_1"), at + "attn.c_attn")
                               .unflatten(2, {3 * group.heads, group.head_dim});
    const at::Tensor attended = position->attend_packed(l, qkv, group.heads, options_of(l));
    x = x + conv1d(attended.flatten(2), at + "attn.c_proj");
    x = x + conv1d(activated(conv1d(layer_norm(x, at + "ln_2"), at + "mlp.c_fc")),
                   at + "mlp.c_proj");
  }
  return at::linear(layer_norm(x, "ln_f"),
                    config_.tied ? weight("wte.weight") : weight("lm_head.weight"));
}

at::Tensor Network::forward_bert(const at::Tensor& tokens, libtorch::PositionScheme& position) {
  const at::Tensor words = weight("embeddings.word_embeddings.weight");
  at::Tensor x = at::embedding(words, tokens) +
                 weight("embeddings.token_type_embeddings.weight").select(0, 0);
  x = layer_norm(position->embed(x), "embeddings.LayerNorm");
  for (std::int64_t l = 0; l < config_.description.layers; ++l) {
    const model::LayerGroup& group = model::group_of(config_.description, l);
    const std::string at = block("encoder.layer", l);
    const auto heads = [&](const char* name) {
      return linear(x, at + "attention.self." + name)
          .unflatten(2, {group.heads, group.head_dim});
    };
    const at::Tensor attended =
        position->attend(l, heads("query"), heads("key"), heads("value"), options_of(l))
            .flatten(2);
    x = layer_norm(x + linear(attended, at + "attention.output.dense"),
                   at + "attention.output.LayerNorm");
    const at::Tensor feed = activated(linear(x, at + "intermediate.dense"));
    x = layer_norm(x + linear(feed, at + "output.dense"), at + "output.LayerNorm");
  }
  const at::Tensor head = layer_norm(activated(linear(x, "cls.predictions.transform.dense")),
                                     "cls.predictions.transform.LayerNorm");
  return at::linear(head, words, weight("cls.predictions.bias"));
}

void Network::save_folder(const std::filesystem::path& folder) const {
  namespace fs = std::filesystem;
  fs::create_directories(folder);
  // Copies of tied weights.
  const auto trained = [&](const std::string& name) -> const at::Tensor* {
    const bool bert = config_.layout == Layout::bert;
    std::string source = name;
    if (name == "lm_head.weight" && config_.tied)
      source = prefix_ + (config_.layout == Layout::gpt2 ? "wte" : "embed_tokens") + ".weight";
    if (bert && name == "cls.predictions.decoder.weight")
      source = prefix_ + "embeddings.word_embeddings.weight";
    if (bert && name == "cls.predictions.decoder.bias") source = "cls.predictions.bias";
    const auto found = weights_.find(source);
    return found == weights_.end() ? nullptr : &found->second;
  };
  std::vector<at::Tensor> kept;
  std::vector<io::NamedArray> tensors;
  for (const std::string& name : checkpoint_->names()) {
    const io::Array original = checkpoint_->tensor(name);
    const at::Tensor* values = trained(name);
    if (!values) {
      tensors.push_back({name, original});
      continue;
    }
    const at::Tensor& out = kept.emplace_back(
        values->detach().to(at::kCPU, type_of(original).value_or(at::kFloat)).contiguous());
    tensors.push_back(
        {name, io::Array(original.element(), original.shape(),
                         {static_cast<const std::byte*>(out.data_ptr()), out.nbytes()})});
  }
  const auto width_of = [](const io::NamedArray& one) {
    return one.array.size() ? std::ssize(one.array.bytes()) / one.array.size() : 0;
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const auto& a, const auto& b) { return width_of(a) > width_of(b); });
  io::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  io::write_atomically(folder / "config.json", config_.json.dump(2) + "\n");
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
        "merges.txt", "vocab.txt", "added_tokens.json", "generation_config.json"}) {
    const fs::path from = checkpoint_->folder() / name;
    if (fs::is_regular_file(from))
      fs::copy_file(from, folder / name, fs::copy_options::overwrite_existing);
  }
}

}  // namespace gnomon::lab::finetune
