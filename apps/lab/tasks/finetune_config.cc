#include "apps/lab/tasks/finetune_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "apps/lab/data/run_json.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/tasks.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "src/core/json.h"

namespace gnomon::lab::finetune {
namespace {

constexpr const char* what = "finetune";
constexpr std::string_view tuned_suffix = "@tuned";
constexpr const char* released = "released";

// The value at a key, or `usual` if there is none or null.
template <typename T>
T value_of(const Json& json, const char* key, T usual) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null() && !Reader::read(*found, usual))
    refuse(what,
           fmt::format("{} in config.json must be {}", key,
                       std::is_same_v<T, bool>           ? "true or false"
                       : std::is_same_v<T, std::int64_t> ? "an integer"
                       : std::is_same_v<T, double>       ? "a number"
                                                         : "a string"),
           found->dump().substr(0, 80));
  return usual;
}

Layout layout_of(const std::string& type) {
  if (type == "llama" || type == "mistral" || type == "qwen2") return Layout::llama;
  if (type == "gpt2") return Layout::gpt2;
  if (type == "bert") return Layout::bert;
  refuse(what, "model_type must be llama, mistral, qwen2, gpt2 or bert", type);
}

Activation activation_of(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  refuse(what, "the activation must be silu, gelu, gelu_new, gelu_pytorch_tanh or relu", name);
}

void read_llama(Config& c, const std::string& type) {
  c.activation = activation_of(value_of<std::string>(c.json, "hidden_act", "silu"));
  c.norm_epsilon = value_of(c.json, "rms_norm_eps", 1e-6);
  c.inner = value_of<std::int64_t>(c.json, "intermediate_size", 0);
  c.tied = value_of(c.json, "tie_word_embeddings", false);
  const bool llama = type == "llama";
  c.attention_bias = type == "qwen2" || (llama && value_of(c.json, "attention_bias", false));
  c.output_bias = llama && c.attention_bias;
  c.feed_bias = llama && value_of(c.json, "mlp_bias", false);
}

void read_gpt2(Config& c) {
  c.activation =
      activation_of(value_of<std::string>(c.json, "activation_function", "gelu_new"));
  c.norm_epsilon = value_of(c.json, "layer_norm_epsilon", 1e-5);
  c.inner = value_of<std::int64_t>(c.json, "n_inner", 4 * c.width);
  c.tied = value_of(c.json, "tie_word_embeddings", true);
  if (value_of(c.json, "add_cross_attention", false))
    refuse(what, "add_cross_attention must be false", "true");
}

void read_bert(Config& c) {
  c.activation = activation_of(value_of<std::string>(c.json, "hidden_act", "gelu"));
  c.norm_epsilon = value_of(c.json, "layer_norm_eps", 1e-12);
  c.inner = value_of<std::int64_t>(c.json, "intermediate_size", 3072);
  c.token_types = value_of<std::int64_t>(c.json, "type_vocab_size", 2);
  c.tied = value_of(c.json, "tie_word_embeddings", true);
  if (!c.tied) refuse(what, "tie_word_embeddings of BERT must be true", "false");
  if (value_of(c.json, "is_decoder", false)) refuse(what, "is_decoder must be false", "true");
}

// Throws if a layer has an attention rule that the network does not compute.
void check_layer(const model::LayerGroup& group, std::int64_t width, Layout layout) {
  const model::LayerAttention& a = group.attention;
  const auto need = [](bool holds, const char* rule, const std::string& got) {
    if (!holds) refuse(what, rule, got);
  };
  need(group.unsupported.empty(), "the layers must be supported", group.unsupported);
  need(!a.partition && !a.chunk && !a.softcap && a.sinks == model::Sinks::none &&
           !a.query_norm && !a.key_norm && !a.value_norm && a.value_scale == 1 &&
           !a.query_scale && a.rotary_input == model::RotaryInput::queries_and_keys,
       "attention must have no chunks, softcap, sinks, norms or query scales", "one of them");
  need(group.heads >= 1 && group.key_heads >= 1 && group.heads % group.key_heads == 0,
       "the number of heads must be a multiple of the key heads",
       fmt::format("{} and {}", group.heads, group.key_heads));
  need(group.head_dim == group.value_dim, "keys and values must have the same head dimension",
       fmt::format("{} and {}", group.head_dim, group.value_dim));
  if (layout != Layout::llama)
    need(group.heads * group.head_dim == width && group.key_heads == group.heads,
         "the heads of GPT-2 and BERT must divide the width",
         fmt::format("{} heads of {}", group.heads, group.head_dim));
}

// The plain rotary encoding of all layers, or null.
const Rotary* plain_rotary(const model::Scheme& scheme) {
  const Rotary* one = nullptr;
  for (const model::Mixture& layer : scheme.layers) {
    if (layer.size() != 1) return nullptr;
    const Rotary* here = std::get_if<Rotary>(&layer[0]);
    if (const auto* scaled = std::get_if<ScaledRotary>(&layer[0]);
        scaled && std::holds_alternative<NoScaling>(scaled->scaling))
      here = &scaled->rotary;
    if (!here || (one && !(*one == *here))) return nullptr;
    one = here;
  }
  return one;
}

// `text`: the same config, for the reader of the library.
Config config_of(const Json& json, std::string_view text, const std::string& name) {
  if (!json.is_object()) refuse(what, name + " must be an object", json.dump().substr(0, 80));
  Config c;
  c.json = json;
  const auto type = value_of<std::string>(json, "model_type", "none");
  c.layout = layout_of(type);
  try {
    c.description = model::read_config(text, {.name = name});
  } catch (const FormatError& error) {
    throw std::invalid_argument(error.what());
  }
  if (c.description.layers < 1 || c.description.layers > 1024)
    refuse(what, "the number of layers must be 1 to 1024", c.description.layers);
  c.width = c.description.width;
  c.vocabulary = value_of<std::int64_t>(json, "vocab_size", 0);
  if (c.width < 1)
    c.width =
        value_of<std::int64_t>(json, c.layout == Layout::gpt2 ? "n_embd" : "hidden_size", 0);
  constexpr std::int64_t most = std::int64_t{1} << 24;
  for (const auto& [key, size] :
       {std::pair{"vocab_size", c.vocabulary}, {"hidden_size", c.width}})
    if (size < 1 || size > most)
      refuse(what, name + ": " + key + " must be 1 to 16777216", size);
  if (c.layout == Layout::llama) read_llama(c, type);
  if (c.layout == Layout::gpt2) read_gpt2(c);
  if (c.layout == Layout::bert) read_bert(c);
  if (c.inner < 1 || c.inner > most)
    refuse(what, name + ": the size of the feed-forward layers must be 1 to 16777216", c.inner);
  if (!(c.norm_epsilon >= 0 && c.norm_epsilon < 1))
    refuse(what, name + ": the epsilon of the norms must be 0 to 1", c.norm_epsilon);
  if (c.length() < 2) refuse(what, name + " must have a trained context", c.length());
  for (std::int64_t layer = 0; layer < c.description.layers; ++layer) {
    const model::LayerGroup& group = model::group_of(c.description, layer);
    check_layer(group, c.width, c.layout);
    c.scheme.layers.push_back(group.position);
  }
  model::check(c.scheme);
  return c;
}

}  // namespace

Config parse_config(const Json& json, const std::string& name) {
  return config_of(json, json.dump(), name);
}

Config read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const io::MappedFile file(path);
  return config_of(internal::parse_json<Json>(file.text(), what, path.string()), file.text(),
                   path.string());
}

Config extended(const Config& config, const std::string& method, std::int64_t factor) {
  const Rotary* rotary = plain_rotary(config.scheme);
  if (!rotary)
    refuse(what, "--extend requires plain rotary in every layer",
           model::names(config.scheme) + " (" + config.description.model_type + ")");
  Json json = config.json;
  const bool parameters =
      json.contains("rope_parameters") && !json["rope_parameters"].is_null();
  Json rope = parameters ? json["rope_parameters"] : Json::object();
  rope.erase("type");
  const auto times = static_cast<double>(factor);
  const std::int64_t trained = config.length();
  std::int64_t length = factor * trained;
  if (method == "ntk") {
    // transformers has no type for it: only the base changes.
    const auto dim = static_cast<double>(rotary->rotary_dim);
    const double base = rotary->base * (dim > 2 ? std::pow(times, dim / (dim - 2))
                                                : std::numeric_limits<double>::infinity());
    if (!std::isfinite(base))
      refuse(what, "--extend ntk requires more than 2 rotated elements", rotary->rotary_dim);
    (parameters ? rope : json)["rope_theta"] = base;
  } else if (method == "linear") {
    rope.update({{"rope_type", "linear"}, {"factor", times}});
  } else if (method == "dynamic-ntk") {
    // transformers computes the factor from max_position_embeddings, so this stays the same.
    rope.update({{"rope_type", "dynamic"}, {"factor", 2.0}});
    length = trained;
  } else if (method == "yarn") {
    rope.update({{"rope_type", "yarn"},
                 {"factor", times},
                 {"original_max_position_embeddings", trained}});
  } else {
    refuse(what, "--extend must be linear, ntk, dynamic-ntk or yarn", method);
  }
  if (parameters)
    json["rope_parameters"] = rope;
  else if (!rope.empty())
    json["rope_scaling"] = rope;
  json["max_position_embeddings"] = length;
  return parse_config(json, "config.json for " + method);
}

Entry parse_entry(const std::string& name) {
  if (name.ends_with(tuned_suffix))
    return {name.substr(0, name.size() - tuned_suffix.size()), true};
  return {name, false};
}

std::vector<std::string> entries(const std::vector<std::string>& methods) {
  std::vector<std::string> all{released, released + std::string(tuned_suffix)};
  for (const std::string& method : methods)
    all.insert(all.end(), {method, method + std::string(tuned_suffix)});
  return all;
}

Candidate describe_entry(const std::string& name, const Settings& settings,
                         const Json& specification) {
  const Entry entry = parse_entry(name);
  Candidate one{name, name};
  const bool as_is = entry.method == released;
  one.title = as_is ? "Released model" : extension_title(entry.method);
  one.summary = as_is ? "the released model with its own encoding"
                      : "the released model with its frequencies changed for a context of " +
                            std::to_string(settings.longest()) + " tokens";
  if (entry.tuned) {
    one.title += " + fine-tune";
    one.summary += ", fine-tuned on the text";
  }
  const model::Scheme scheme =
      specification.contains("layers")
          ? model::scheme_from_json(specification.dump())
          : model::every_layer({model::encoding_from_json(specification.dump())}, 1);
  model::Place enters = model::Place::nowhere;
  for (const model::Mixture& layer : scheme.layers) {
    const model::Place here = model::enters(layer);
    if (here != model::Place::nowhere)
      enters = enters == model::Place::nowhere ? here : enters | here;
  }
  one.enters = model::name(enters);
  one.source = as_is ? settings.finetune : std::string(find_extension(entry.method).source);
  return one;
}

TaskDefaults take_sizes(Settings& settings, const Config& config) {
  settings.task = config.masked() ? &masked_task : &text_task;
  settings.layers = config.description.layers;
  settings.width = config.width;
  settings.heads = model::group_of(config.description, 0).heads;
  if (settings.train_length == 0) settings.train_length = config.length();
  TaskDefaults usual{.batch = 16, .steps = 100, .times = {2, 4}, .learning_rate = 3e-4};
  if (const auto most = model::capacity(config.scheme))
    std::erase_if(usual.times,
                  [&](std::int64_t times) { return times * settings.train_length > *most; });
  return usual;
}

void check(const Settings& settings, const Config& config) {
  if (settings.train_length > config.length())
    refuse(what,
           fmt::format("--train-length must be at most the trained context of {} tokens",
                       config.length()),
           settings.train_length);
  if (settings.extend.empty()) return;
  if (settings.longest() % config.length() != 0 || settings.longest() <= config.length())
    refuse(
        what,
        fmt::format("--extend requires the longest of --eval-lengths to be a multiple of the "
                    "trained context of {} tokens",
                    config.length()),
        settings.longest());
  for (const std::string& method : settings.extend)
    extended(config, method, settings.longest() / config.length());
}

}  // namespace gnomon::lab::finetune
