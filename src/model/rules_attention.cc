// Attention settings of a config: heads, masks, windows, caps, sinks and norms, from its keys
// and the facts of its family (attention_facts.h).
#include <algorithm>
#include <cmath>

#include "src/model/attention_facts.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr const char* chunked_layer = "chunked_attention";

bool is_tower(const Family& family) {
  const auto towers = vision_families();
  return std::any_of(towers.begin(), towers.end(),
                     [&](const Family& one) { return one.model_type == family.model_type; });
}

// Returns a boolean, or `otherwise` if the value has another type, as in some configs.
bool is_true(Reading& r, std::string_view name, bool otherwise) {
  const auto value = r.keys.find({name});
  return value && value->is(JsonType::boolean) ? value->boolean(name) : otherwise;
}

void read_visibility(Reading& r) {
  LayerAttention& attention = r.attention;
  attention.visibility =
      is_tower(r.family) ? Visibility::bidirectional : visibility_of(r.family.model_type);
  if (is_true(r, "is_decoder", false)) attention.visibility = Visibility::causal;
  if (r.family.model_type == "xlnet" && r.keys.string({"attn_type"}).value_or("bi") == "uni")
    attention.visibility = Visibility::causal;
  const auto both = r.keys.find({"use_bidirectional_attention"});
  if (both &&
      ((both->is(JsonType::boolean) && both->boolean("use_bidirectional_attention")) ||
       (both->is(JsonType::string) && both->string("use_bidirectional_attention") == "all")))
    attention.visibility = Visibility::bidirectional;
  if (is_true(r, "prefix_lm", false)) r.unsupported = "a prefix with bidirectional attention";
}

void read_key_heads(Reading& r) {
  const std::string_view type = r.family.model_type;
  const Keys::Names names = {
      "num_key_value_heads", "multi_query_group_num",       "num_kv_heads",        "n_kv_heads",
      "n_head_kv",           "decoder_num_key_value_heads", "num_attention_groups"};
  std::int64_t heads = 0;
  if (type == "falcon" && !is_true(r, "new_decoder_architecture", false)) {
    if (is_true(r, "multi_query", true)) heads = 1;
    r.keys.find(names);
  } else if (type == "gpt_bigcode") {
    if (is_true(r, "multi_query", true)) heads = 1;
  } else if (type == "chatglm" && !is_true(r, "multi_query_attention", false)) {
    r.keys.find(names);
  } else if (key_heads_of(type) < 0) {
    r.keys.find(names);
  } else if (const auto given = r.keys.size(names, most_of_few)) {
    heads = *given;
  } else if (const std::int64_t known = key_heads_of(type)) {
    const bool null = r.keys.object().find("num_key_value_heads").has_value();
    if (!null && r.heads % known == 0) heads = known;
  }
  if (const auto inner = r.keys.object_in("attn_config"))
    heads = Keys(*inner).size({"kv_n_heads"}, most_of_few).value_or(heads);
  r.key_heads = heads;
  if (const auto global = r.keys.size({"num_global_key_value_heads"}, most_of_few))
    r.key_heads_of["full_attention"] = *global;
  if (const auto swa = r.keys.size({"swa_num_key_value_heads"}, most_of_few))
    r.key_heads_of[sliding] = *swa;
  else if (type == "mimo_v2_flash")
    r.key_heads_of[sliding] = 2 * r.key_heads;
  if (r.heads > 0 && r.key_heads > 0 && r.heads % r.key_heads != 0)
    r.fail_at(names, "the query heads " + std::to_string(r.heads) +
                         " must be a multiple of the key heads, got " +
                         std::to_string(r.key_heads));
  const std::int64_t value_dim = value_dim_of(type);
  if (value_dim > 0 || r.keys.find({"v_head_dim"}))
    r.value_dim = r.size({"v_head_dim"}, value_dim, most_of_few);
  if (const auto swa = r.keys.size({"swa_v_head_dim"}, most_of_few))
    r.value_dims[sliding] = *swa;
}

}  // namespace

void read_heads(Reading& r) {
  if (const auto list = r.keys.find({"num_attention_heads_per_layer"})) {
    const auto heads = list->integers("num_attention_heads_per_layer");
    require_length(r, *list, heads.size(), "num_attention_heads_per_layer");
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      if (heads[l] < 1 || heads[l] > most_of_few)
        list->fail("num_attention_heads_per_layer must be 1 to 65536, got " +
                   std::to_string(heads[l]));
      r.layers[l].heads = heads[l];
    }
  }
  auto of_sliding =
      r.keys.size({"num_sliding_attention_heads", "swa_num_attention_heads"}, most_of_few);
  if (const auto other = r.keys.object_in("attention_other_setting"); other && !of_sliding)
    of_sliding = Keys(*other).size({"num_attention_heads"}, most_of_few);
  for (Layer& layer : r.layers)
    if (of_sliding && layer.type == sliding) layer.heads = *of_sliding;
}

namespace {

void put_window(Reading& r, std::int64_t window) {
  const bool causal = r.attention.visibility == Visibility::causal;
  const std::string_view type = r.family.model_type;
  if (type == "modernbert-decoder") window /= 2;
  r.left = causal ? window - 1 : window / 2;
  if (causal) return;
  if (type == "openai_privacy_filter" || type == "embedding_gemma2_text") r.left = window;
  r.right = r.left;
  if (type == "t5gemma2_text") r.left = (window - 1) / 2;
  if (type.starts_with("gemma4")) r.left = r.right = window / 2 + 1;
}

void read_window(Reading& r) {
  const WindowFacts facts = window_of(r.family.model_type);
  const auto given = r.keys.find({facts.key});
  const bool null = !given && r.keys.object().find(facts.key).has_value();
  std::int64_t window = null ? 0 : facts.window;
  if (facts.slides == Slides::none) {
    if (given && given->is(JsonType::number) && is_true(r, "use_sliding_window", true) &&
        r.keys.was_asked("layer_types") && !r.family.model_type.empty())
      r.note("sliding_window is not used by " + r.out.model_type);
    return;
  }
  if (given && given->is(JsonType::number)) window = given->integer(facts.key);
  const bool switched = (facts.slides != Slides::all && facts.slides != Slides::by_type) ||
                        r.keys.find({"use_sliding_window"}).has_value();
  if (switched && !is_true(r, "use_sliding_window", r.family.model_type == "dots1")) window = 0;
  if (window < 1) return;
  put_window(r, window);
  const auto types = r.keys.find({"layer_types"});
  const std::int64_t full =
      r.family.model_type == "qwen3_moe" ? 0 : r.size({"max_window_layers"}, 28);
  if (const auto list = r.keys.find({"attention_types"}); list && list->is(JsonType::array)) {
    // GPT-Neo: [[["global", "local"], 12]]
    std::vector<std::string> kinds;
    list->for_each_element([&](const Json& group) {
      std::vector<std::string> names;
      std::int64_t times = 1;
      bool first = true;
      group.for_each_element([&](const Json& one) {
        if (first)
          names = one.strings("attention_types");
        else
          times = one.integer("attention_types");
        first = false;
      });
      for (std::int64_t n = 0; n < std::min(times, r.out.layers); ++n)
        kinds.insert(kinds.end(), names.begin(), names.end());
    });
    for (std::size_t l = 0; l < std::min(kinds.size(), r.layers.size()); ++l)
      r.layers[l].type = kinds[l] == "local" ? sliding : "full_attention";
  } else if (!types && !facts.pattern.empty()) {
    for (std::size_t l = 0; l < r.layers.size(); ++l)
      r.layers[l].type =
          facts.pattern[l % facts.pattern.size()] == 's' ? sliding : "full_attention";
  }
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    switch (facts.slides) {
      case Slides::none:
        break;
      case Slides::all:
        layer.slides = true;
        break;
      case Slides::from_layer:
        layer.slides = types ? layer.type == sliding : static_cast<std::int64_t>(l) >= full;
        break;
      case Slides::even_below:
        layer.slides =
            types ? layer.type == sliding : l % 2 == 0 && static_cast<std::int64_t>(l) < full;
        break;
      case Slides::unrotated:
        layer.slides = types ? layer.type == sliding : !layer.rotates;
        break;
      case Slides::by_type:
        layer.slides = layer.type == sliding;
        break;
    }
  }
}

void read_norms(Reading& r) {
  const NormFacts* const facts = norm_of(r.family.model_type);
  if (!facts) {
    for (const char* key : {"use_qk_norm", "qk_layernorm", "qk_norm"})
      if (is_true(r, key, false))
        r.unsupported = "norms of queries and keys (" + std::string(key) +
                        "), which are unknown for this family";
    return;
  }
  if (!facts->switched_by.empty() && !is_true(r, facts->switched_by, facts->on)) return;
  LayerNorm norm{.norm = {.kind = facts->kind,
                          .scope = facts->scope,
                          .epsilon = facts->epsilon,
                          .weight_offset = facts->weight_offset},
                 .order = facts->order};
  const Keys::Names layer = {"layer_norm_eps", "layer_norm_epsilon", "norm_eps",
                             "norm_epsilon"};
  const Keys::Names rms = {"rms_norm_eps", "norm_eps", "layer_norm_eps"};
  if (const auto given = r.keys.positive(facts->kind == NormKind::layer ? layer : rms))
    norm.norm.epsilon = *given;
  r.attention.query_norm = r.attention.key_norm = norm;
  r.trained_norms = facts->trained;
  if (facts->rotated_only)
    for (Layer& layer : r.layers) layer.normalises = layer.rotates;
}

void read_softmax(Reading& r) {
  if (const double cap = softcap_of(r.family.model_type); cap >= 0) {
    const bool null = r.keys.object().find("attn_logit_softcapping").has_value();
    const auto given = r.keys.positive({"attn_logit_softcapping"});
    if (given || (cap > 0 && !null)) r.attention.softcap = given.value_or(cap);
  }
  if (has_sinks(r.family.model_type)) r.attention.sinks = Sinks::per_head;
  if (r.family.model_type == "mimo_v2_flash") {
    const bool full = is_true(r, "add_full_attention_sink_bias", false);
    const bool windowed = is_true(r, "add_swa_attention_sink_bias", true);
    for (Layer& layer : r.layers) layer.sinks = layer.type == sliding ? windowed : full;
    const bool null = r.keys.object().find("attention_value_scale").has_value();
    r.attention.value_scale =
        r.keys.number({"attention_value_scale"}).value_or(null ? 1 : 0.707);
  }
  if (normalises_values(r.family.model_type))
    r.attention.value_norm = HeadNorm{
        .kind = NormKind::rms, .epsilon = r.keys.positive({"rms_norm_eps"}).value_or(1e-6)};
}

// Reads the tokens of an image, for towers.
void read_image(Reading& r) {
  const auto reads_by = [&](auto... rules) { return ((r.family.read == rules) || ...); };
  const std::string_view type = r.family.model_type;
  ImageTokens image;
  const bool in_rows = type == "paddleocr_vl_vision" || type.starts_with("mlcd");
  if (reads_by(tower, tower_on_grid, tower_on_table) && !in_rows) {
    image.order = PatchOrder::merge_blocks;
    image.merge = r.size({"spatial_merge_size"}, 2, most_of_few);
  }
  if (type.starts_with("mlcd")) image.first_tokens = 1;
  if (reads_by(dinov3)) {
    image.origin = PatchOrigin::centres;
    image.first_tokens = 1 + r.keys.integer({"num_register_tokens"}, 0).value_or(0);
  }
  if (reads_by(llama4_tower, muse_vision, inkling_vision, pix2struct_vision))
    image.origin = PatchOrigin::from_one;
  if (reads_by(llama4_tower)) image.last_tokens = 1;
  if (reads_by(vjepa2, minimax_vision, videomae)) image.frames = true;
  if (reads_by(image_grid, mae, beit)) {
    image.first_tokens = reads_by(beit) ? 1 : r.family.rows;
    if (reads_by(image_grid)) {
      const Cells cells = image_cells(r);
      image.table = GridSize{cells.height, cells.width};
      image.resize = type == "dinov2_with_registers"
                         ? resize_dinov2_registers(image.first_tokens)
                         : resize_vit(image.first_tokens);
    }
  }
  if (reads_by(tower_on_grid)) {
    const Cells cells = image_cells(r);
    image.table = GridSize{cells.height, cells.width};
    image.resize = resize_vit(0);
  }
  if (reads_by(tower_on_table)) {
    image.table = GridSize{r.out.length, r.out.length};
    image.resize = resize_qwen3_vl();
  }
  if (image.first_tokens < 0 || image.first_tokens > most_of_few)
    r.fail_at({"num_register_tokens"}, "num_register_tokens must be 0 to 65535, got " +
                                           std::to_string(image.first_tokens - 1));
  r.out.image = image;
}

}  // namespace

void read_attention(Reading& r) {
  r.layers.resize(static_cast<std::size_t>(std::min(r.out.layers, most_of_few)));
  const std::string unsupported = r.unsupported;
  if (unsupported.empty()) r.unsupported = unsupported_of(r.family.model_type);
  read_visibility(r);
  read_key_heads(r);
  if (r.family.model_type == "llama4_text") {
    r.attention.query_scale_index = ScaleIndex::row;
    if (!r.keys.find({"layer_types"}))
      for (Layer& layer : r.layers)
        layer.type = layer.rotates ? chunked_layer : "full_attention";
    const bool null = r.keys.object().find("attention_chunk_size").has_value() &&
                      !r.keys.find({"attention_chunk_size"});
    if (!null) r.attention.chunk = r.size({"attention_chunk_size"}, 8192);
  }
  read_window(r);
  read_norms(r);
  read_softmax(r);
  for (const char* key : {"clip_qkv"})
    if (r.keys.positive({key}))
      r.unsupported = "clipped queries, keys and values (" + std::string(key) + ")";
  if (is_true(r, "rotary_value", false)) r.unsupported = "rotated values (rotary_value)";
  if (is_tower(r.family)) read_image(r);
  if (r.out.width == 0)
    r.out.width = r.keys
                      .size({"hidden_size", "n_embd", "d_model", "dim", "n_embed", "emb_dim",
                             "embed_dim", "hidden_dim", "model_dim"})
                      .value_or(r.family.hidden);
}

}  // namespace gnomon::model::internal
