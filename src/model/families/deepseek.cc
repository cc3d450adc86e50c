// Multi-head latent attention: a head is [nope | rope], and only the last part rotates.
// Source: the code of each family.
#include <algorithm>
#include <cmath>
#include <utility>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// Reads the sizes of the two parts. Defaults: head_dim of the family is their sum, and `share`
// is the rotated share.
void prepare_latent(Reading& r) {
  read_sizes(r);
  std::erase_if(r.out.notes,  // head_dim is the sum of the two parts
                [](const std::string& note) { return note.starts_with("head_dim is not"); });
  const std::int64_t both = r.family.head_dim;
  const auto own = static_cast<std::int64_t>(static_cast<double>(both) * r.family.share + 0.5);
  const std::int64_t nope_dim = r.size({"qk_nope_head_dim"}, both - own, max_count);
  const std::int64_t rotary_dim = r.size({"qk_rope_head_dim"}, own, max_count);
  r.keys.find({"partial_rotary_factor"});  // redundant
  r.head_dim = nope_dim + rotary_dim;
  r.head_offset = nope_dim;
  r.rotary_dim = rotary_dim;
  read_layer_types(r);
}

// The pairing of the family, or of rope_interleave if its code reads that key.
Pairing pairing(Reading& r) {
  if (!r.family.reads_pairing) return r.family.pairing;
  return r.keys.boolean({"rope_interleave"}).value_or(r.family.pairing == Pairing::adjacent)
             ? Pairing::adjacent
             : Pairing::halves;
}

void read_latent_ropes(Reading& r) {
  read_ropes(r);
  for (auto& [type, rope] : r.ropes) rope.rotary.pairing = pairing(r);
}

// Multiplies the softmax scale by the square of YaRN's magnitude for mscale_all_dim.
void scale_softmax(Reading& r) {
  for (auto& [type, rope] : r.ropes)
    if (auto* yarn = std::get_if<YarnScaling>(&rope.scaling))
      yarn->softmax_mscale = yarn->mscale_all_dim;
}

void read_latent(Reading& r) {
  if (r.layers.empty()) prepare_latent(r);
  read_latent_ropes(r);
  scale_softmax(r);
  put_ropes(r);
}

// num_layers counts pairs of attention layers. Queries are scaled by their rank.
void read_longcat(Reading& r) {
  const bool single = !r.keys.find({"num_hidden_layers"});
  prepare_latent(r);
  if (single && r.keys.find({"num_layers"})) {
    if (r.out.layers > max_count / 2)
      r.fail_at({"num_layers"}, "num_layers must be at most 32768");
    r.out.layers *= 2;
  }
  r.layers.clear();
  read_layer_types(r);
  const auto width = static_cast<double>(hidden_size(r));
  const auto rank = static_cast<double>(r.size({"q_lora_rank"}, 1536));
  r.softmax_scale = inverse_sqrt(static_cast<double>(r.head_dim)) * std::sqrt(width / rank);
  r.note("softmax_scale includes sqrt(hidden_size / q_lora_rank), the factor of the queries");
  read_latent(r);
}

// An indexer selects index_topk keys, so fewer keys are all selected. Some layers use keys and
// values of an earlier layer.
void read_mistral_large4(Reading& r) {
  prepare_latent(r);
  rotate_by_list(r);
  read_latent_ropes(r);
  scale_softmax(r);
  put_ropes(r);
  const auto list = r.keys.find({"kv_source_layers"});
  const auto sources = list ? list->integers("kv_source_layers") : std::vector<std::int64_t>();
  if (list) require_length(r, *list, sources.size(), "kv_source_layers");
  for (Layer& layer : r.layers)
    if (list && sources[to_size(layer.number)] != layer.number)
      layer.unsupported = "keys and values of an earlier layer";
}

void read_mistral_large4_attention(Reading& r) {
  const std::int64_t selected = r.size({"index_topk"}, 2048);
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    attention.indexed_keys = selected;
    attention.query_scale = QueryTemperature{.shift = 1, .form = TemperatureForm::head_log};
    if (layer.rotates) attention.frequency_scale = FrequencyScale::learned;
  }
}

void read_deepseek_v2(Reading& r) {
  r.note(
      "softmax_scale includes the factor of mscale_all_dim, as in DeepSeek's code; "
      "transformers before 2026-07 omits it");
  read_latent(r);
}

constexpr const char* sparse = "compressed_sparse_attention";
constexpr const char* heavy = "heavily_compressed_attention";

// Types of layers: layer_types, or compress_ratios, or the default of DeepSeek-V4.
void type_by_ratios(Reading& r) {
  const auto list =
      r.keys.find({"layer_types"}) ? std::nullopt : r.keys.find({"compress_ratios"});
  const auto ratios = list ? list->integers("compress_ratios") : std::vector<std::int64_t>();
  if (list) require_length(r, *list, ratios.size(), "compress_ratios");
  type_layers(r, [&](std::int64_t l) {
    if (!list) return l < 2 || l % 2 == 0 ? heavy : sparse;
    const std::int64_t ratio = ratios[to_size(l)];
    if (ratio != 0 && ratio != 4 && ratio != 128)
      list->fail("compress_ratios must be 0, 4 or 128, got " + std::to_string(ratio));
    return ratio == 0 ? sliding : ratio == 4 ? sparse : heavy;
  });
}

// Sliding layers have one base, layers with a compressor another and the scaling. The head is
// not divided, and its last part rotates.
void read_deepseek_v4(Reading& r) {
  prepare(r);
  type_by_ratios(r);
  auto given = r.keys.find({"rope_scaling", "rope_parameters"});
  const auto label = [&](const char* name) {
    auto one = given ? given->find(name) : std::nullopt;
    return one && one->is(JsonType::object) ? one : std::nullopt;
  };
  const auto main = label("main"), compress = label("compress");
  const bool by_label = main && compress;
  auto share = r.keys.share({"partial_rotary_factor"});
  if (by_label) {  // their shares take precedence
    const auto own = Keys(*compress).share({"partial_rotary_factor"});
    const auto of_main = Keys(*main).share({"partial_rotary_factor"});
    if (own && of_main && *own != *of_main)
      compress->fail("partial_rotary_factor of compress must be that of main, " +
                     shown(*of_main) + ", got " + shown(*own));
    if (own || of_main) share = own ? own : of_main;
  }
  const std::int64_t rotary_dim = r.size({"qk_rope_head_dim"}, 0);
  r.rotary_dim = share || rotary_dim == 0 ? of_head(r.head_dim, share.value_or(r.family.share))
                                          : rotary_dim;
  if (*r.rotary_dim >= r.head_dim)
    r.fail_at({"qk_rope_head_dim"}, "qk_rope_head_dim must be less than head_dim " +
                                        std::to_string(r.head_dim) + ", got " +
                                        std::to_string(*r.rotary_dim));
  r.head_offset = r.head_dim - *r.rotary_dim;
  const double base = r.keys.base({"rope_theta"}).value_or(10'000);
  const double compress_base = r.keys.base({"compress_rope_theta"}).value_or(160'000);
  Rope compressed = read_rope(r, by_label ? compress : given, compress_base);
  if (!by_label) {
    // The keys are those of the compressed layers, with their own base. DeepSeek's code does
    // not scale cos and sin.
    compressed.rotary.base = compress_base;
    auto* const yarn = std::get_if<YarnScaling>(&compressed.scaling);
    if (yarn && !given->find("attention_factor")) yarn->attention_factor = 1;
  }
  r.ropes[sliding] = read_rope(r, by_label ? main : std::nullopt, base);
  r.ropes[""] = std::move(compressed);
  put_ropes(r);
}

// Tokens of a window in the layers of a type. transformers takes no default for a type that
// compress_rates does not have.
std::int64_t compress_rate(Reading& r, const char* type, Keys::Names old_names,
                           std::int64_t otherwise) {
  auto rates = r.keys.object_in("compress_rates");
  const auto old = r.keys.size(old_names, max_count);
  if (old) return *old;
  if (!rates) return otherwise;
  const auto given = Keys(*rates).size({type}, max_count);
  if (!given)
    r.fail_at({"compress_rates"}, std::string("compress_rates must have a rate of ") + type);
  return *given;
}

// Keys are values, and layers with a compressor attend to entries for windows of tokens too.
void read_deepseek_v4_attention(Reading& r) {
  const double epsilon = r.keys.positive({"rms_norm_eps"}).value_or(r.family.norm.epsilon);
  const auto has = [&](const char* type) {
    return std::any_of(r.layers.begin(), r.layers.end(),
                       [&](const Layer& layer) { return layer.type == type; });
  };
  CompressionRule of_sparse{.keys = {.rate = 4, .series = 2, .epsilon = epsilon},
                            .index_heads = r.size({"index_n_heads"}, 64, max_count),
                            .index_dim = r.size({"index_head_dim"}, 128, max_count),
                            .selected = r.size({"index_topk"}, 512)};
  CompressionRule of_heavy{.keys = {.rate = 128, .series = 1, .epsilon = epsilon}};
  if (has(sparse)) {
    of_sparse.keys.rate = compress_rate(r, sparse, {"compress_rate_csa"}, 4);
    if (of_sparse.index_dim < *r.rotary_dim)
      r.fail_at({"index_head_dim"}, "index_head_dim must be at least the rotated " +
                                        std::to_string(*r.rotary_dim) + " elements, got " +
                                        std::to_string(of_sparse.index_dim));
  }
  if (has(heavy)) of_heavy.keys.rate = compress_rate(r, heavy, {"compress_rate_hca"}, 128);
  if (r.key_heads != 1)
    r.fail_at({"num_key_value_heads"},
              "deepseek_v4 has 1 key head, got " + std::to_string(r.key_heads));
  for (Layer& layer : r.layers) {
    layer.attention.values = ValueSource::keys;
    layer.attention.output = OutputRotation::inverse;
    if (layer.type == sparse) layer.attention.compression = of_sparse;
    if (layer.type == heavy) layer.attention.compression = of_heavy;
  }
}

// Sliding layers have other heads than layers with an indexer.
void read_dots3(Reading& r) {
  prepare_latent(r);
  const bool windows = r.keys.boolean({"use_sliding_window"}).value_or(true);
  type_layers(r, [&](std::int64_t l) {
    return !windows || l < 2 || l % 4 == 1 ? "indexed_attention" : sliding;
  });
  std::int64_t nope_dim = r.size({"swa_qk_nope_head_dim"}, 192, max_count);
  const std::int64_t rest = r.size({"swa_head_dim"}, 256, max_count) - nope_dim;
  std::int64_t rotary_dim =
      r.size({"swa_qk_rope_head_dim"}, std::max<std::int64_t>(rest, 1), max_count);
  if (const auto all = r.keys.object_in("per_layer_config"))
    all->for_each_member([&](const std::string&, Json value) {
      if (!value.is(JsonType::object)) return;
      Keys keys(value);
      nope_dim = keys.size({"qk_nope_head_dim"}, max_count).value_or(nope_dim);
      rotary_dim = keys.size({"qk_rope_head_dim"}, max_count).value_or(rotary_dim);
    });
  else
    for (Layer& layer : r.layers)
      if (layer.type == sliding)
        layer.heads = r.size({"swa_num_attention_heads"}, 64, max_count);
  r.set(&Layer::head_dim, sliding, nope_dim + rotary_dim);
  const std::int64_t key_heads = r.size({"swa_num_key_value_heads"}, 64, max_count);
  for (Layer& layer : r.layers)
    if (layer.type == sliding && layer.key_heads == 0) layer.key_heads = key_heads;
  const auto parameters = r.keys.find({"rope_parameters", "rope_scaling"});
  const bool by_type = has_ropes_by_type(r);
  const auto entry = [&](const char* type) {
    return parameters && by_type ? parameters->find(type) : parameters;
  };
  // Without a dictionary, sliding layers have a base of their own.
  const double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  const double window_base = r.keys.base({"swa_rope_theta"}).value_or(50'000);
  const Rope indexed = read_rope(r, entry("indexed_attention"), base);
  r.head_offset = nope_dim, r.rotary_dim = rotary_dim;
  if (std::any_of(r.layers.begin(), r.layers.end(),
                  [](const Layer& layer) { return layer.type == sliding; }))
    r.ropes[sliding] = read_rope(r, entry(sliding), parameters ? base : window_base, sliding);
  r.ropes[""] = indexed;
  put_ropes(r);
}

void read_mistral4(Reading& r) {
  prepare_latent(r);
  if (const auto parameters = r.keys.find({"rope_parameters", "rope_scaling"}))
    read_temperature(r, *parameters);
  read_latent(r);
}

// The last layer of each group has latent attention, the others have linear attention.
void read_bailing_hybrid(Reading& r) {
  prepare_latent(r);
  const std::int64_t group = r.size({"layer_group_size"}, 8);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % group == 0 ? "full_attention" : "linear_attention";
  });
  read_latent(r);
}

void read_kimi_linear(Reading& r) {
  const std::int64_t head = r.size({"qk_nope_head_dim"}, 128, max_count) +
                            r.size({"qk_rope_head_dim"}, 64, max_count);
  if (!r.keys.boolean({"mla_use_nope"}).value_or(true))
    r.fail_at({"mla_use_nope"}, "kimi_linear with mla_use_nope false is not understood");
  ignore_ropes(r);
  prepare(r);
  r.head_dim = head;
  for (Layer& layer : r.layers) layer.attends = layer.rotates = false;
  if (const auto inner = r.keys.object_in("linear_attn_config"))
    if (const auto list = inner->find("full_attn_layers"))
      for (const std::int64_t l : layer_numbers(r, *list, "full_attn_layers", 1))
        r.layers[to_size(l)].attends = true;
  put_ropes(r);
}

}  // namespace

void add_deepseek(Families& add) {
  using namespace changes;
  const auto latent_keys =
      gguf_keys("rope.scaling.yarn_log_multiplier", "attention.temperature_scale",
                "attention.temperature_length");
  add(rotary, {"bailing_hybrid"}, read(read_bailing_hybrid), output_gate(per_head),
      pairing(adjacent), base(6'000'000), share(64.0 / 192), head_dim(192), length(262'144),
      sizes(42, 32, 2560), key_heads(32), value_dim(128),
      differences("the last layer of each group has attention"),
      gguf("bailingmoe3", RopeType::adjacent), gguf_keys("rope.dimension_sections"));
  add(rotary, {"deepseek"}, share(1, any), gguf("deepseek", RopeType::adjacent));
  const Family deepseek_ocr2_text = add(rotary, {"deepseek_ocr2_text"}, sizes(32, 32, 4096),
                                        gguf("deepseek2-ocr", RopeType::halves),
                                        gguf_fixed_rope(true), gguf_yarn(GgufYarn::latent));
  add(deepseek_ocr2_text, {"deepseek_ocr2_encoder"}, length(32'768), sizes(32, 32, 4096),
      window(from_layer, 4096),
      unsupported("tokens of an image that attend to each other in both directions"));
  const Family deepseek_v2 =
      add(deepseek_ocr2_text, {"deepseek_v2"}, read(read_deepseek_v2), pairing(adjacent),
          share(64.0 / 192), head_dim(192), value_dim(128),
          gguf("deepseek2", RopeType::adjacent), gguf_yarn(GgufYarn::latent), latent_keys);
  const Family deepseek_v3 =
      add(deepseek_v2, {"deepseek_v3"}, read(read_latent), reads_pairing(true), length(4096),
          sizes(61, 128, 7168), key_heads(128));
  add(deepseek_v3, {"axk1"}, length(32'768), sizes(61, 64, 7168), key_heads(64));
  const Family deepseek_v32 =
      add(deepseek_v3, {"deepseek_v32"}, reads_pairing(false), length(163'840),
          unsupported("an indexer that selects the keys of each query"),
          gguf("deepseek32", RopeType::adjacent), gguf_yarn(GgufYarn::latent),
          gguf_keys("rope.scaling.yarn_log_multiplier"));
  const Family axk2 =
      add(deepseek_v32, {"axk2"}, output_gate(per_channel), share(32.0 / 96), head_dim(96),
          length(131'072), sizes(48, 32, 2048), key_heads(32), value_dim(64));
  add(axk2, {"minicpm3"}, output_gate(OutputGate::none), pairing(halves), length(32'768),
      sizes(62, 40, 2560), key_heads(40), unsupported(""), gguf("minicpm3", RopeType::halves));
  const Family glm4_moe_lite =
      add(deepseek_v3, {"glm4_moe_lite"}, share(64.0 / 256), head_dim(256), length(202'752),
          sizes(47, 20, 2048), key_heads(20));
  const Family glm_moe_dsa = add(
      glm4_moe_lite, {"glm_moe_dsa"}, reads_pairing(false), sizes(78, 64, 6144), key_heads(64),
      value_dim(0), unsupported("an indexer that selects the keys of each query"),
      gguf("glm-dsa", RopeType::adjacent), gguf_yarn(GgufYarn::latent_with_unit_scale));
  const Family hy_v4 =
      add(glm_moe_dsa, {"hy_v4"}, output_gate(per_channel), pairing(halves), length(262'144),
          sizes(34, 32, 2816), key_heads(0), value_dim(256), sinks(true));
  add(hy_v4, {}, pairing(adjacent),
      note("pairs are adjacent in llama.cpp and halves in transformers; the GGUF converter "
           "does not permute q and k"),
      gguf("hy_v4", RopeType::adjacent), gguf_unsupported_by("attention.indexer.top_k"));
  const Family youtu =
      add(deepseek_v3, {"youtu"}, length(131'072), sizes(32, 16, 2048), key_heads(16));
  add(youtu, {"kimi_k2"}, base(50'000), sizes(0, 0, 0), key_heads(0));
  add(deepseek_ocr2_text, {"deepseek_v4"}, read(read_deepseek_v4), pairing(adjacent),
      share(64.0 / 512), head_dim(512), length(1'048'576), sizes(43, 64, 4096), key_heads(1),
      window(all, 128), sinks(true), norm(rms, before, head, 1e-6),
      attention(read_deepseek_v4_attention),
      differences("compressed keys beside those of the window, with another base"),
      gguf("deepseek4", RopeType::adjacent),
      gguf_refused("compressed keys, and an output rotated by the inverse angles"));
  add(rotary, {"dots3_note_text"}, read(read_dots3), output_gate(per_head), pairing(adjacent),
      base(80'000'000), share(64.0 / 192), head_dim(192), length(524'288), sizes(46, 128, 5120),
      value_dim(128), window(by_type, 512),
      unsupported("partly normalised latent keys, and an indexer"),
      differences("sliding layers have other heads and another base"),
      gguf("dots3note", RopeType::adjacent),
      gguf_window({.window = GgufWindow::causal,
                   .every = by_file,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  const Family kimi_linear =
      add(rotary, {"kimi_linear"}, read(read_kimi_linear), position("none"), length(1'048'576),
          sizes(27, 32, 2304), key_heads(32), value_dim(128),
          differences("attention in some layers"), gguf("kimi-linear", RopeType::none));
  add(kimi_linear, {}, gguf("kimi-k3", RopeType::none));
  add(rotary, {"longcat_flash"}, read(read_longcat), pairing(adjacent), base(10'000'000),
      share(64.0 / 192), head_dim(192), length(131'072), sizes(28, 64, 6144), value_dim(128));
  const Family mistral4 = add(
      rotary, {"mistral4"}, read(read_mistral4), pairing(adjacent), share(64.0 / 128),
      rope(
          R"({"rope_theta": 10000.0, "factor": 128.0, "original_max_position_embeddings": 8192,
"max_position_embeddings": 1048576, "beta_fast": 32.0, "beta_slow": 1.0,
"mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
"partial_rotary_factor": 0.5, "rope_type": "yarn"})"),
      reads_pairing(true), head_dim(128), length(1'048'576), sizes(36, 32, 4096), key_heads(32),
      value_dim(128), gguf("mistral4", RopeType::adjacent),
      gguf_yarn(GgufYarn::latent_with_unit_scale), latent_keys);
  add(mistral4, {"mistral_large4_text"}, read(read_mistral_large4),
      attention(read_mistral_large4_attention),
      rope(
          R"({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2048.0,
"original_max_position_embeddings": 512, "beta_fast": 32.0, "beta_slow": 1.0,
"attention_factor": 1.0})"),
      reads_pairing(false), sizes(72, 64, 6144), key_heads(64), value_dim(128), nope_every(4),
      differences("one layer in four does not rotate"));
}

}  // namespace gnomon::model::internal
