// Attention settings of a config: heads, masks, windows, caps, sinks and norms, from its keys
// and the row of its family.
#include <algorithm>
#include <cmath>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

void read_visibility(Reading& r) {
  if (r.is_true("is_decoder", false)) r.visibility = Visibility::causal;
  const auto both = r.keys.find({"use_bidirectional_attention"});
  if (both &&
      ((both->is(JsonType::boolean) && both->boolean("use_bidirectional_attention")) ||
       (both->is(JsonType::string) && both->string("use_bidirectional_attention") == "all")))
    r.visibility = Visibility::bidirectional;
  if (r.is_true("prefix_lm", false)) r.unsupported = "a prefix with bidirectional attention";
  for (Layer& layer : r.layers)
    layer.attention.visibility = layer.part == "encoder"   ? Visibility::bidirectional
                                 : layer.part == "decoder" ? Visibility::causal
                                                           : r.visibility;
}

void read_key_heads(Reading& r) {
  const Keys::Names names = {
      "num_key_value_heads", "multi_query_group_num",       "num_kv_heads",        "n_kv_heads",
      "n_head_kv",           "decoder_num_key_value_heads", "num_attention_groups"};
  const std::int64_t usual = r.family.key_heads;
  if (r.fixed_key_heads || usual == by_heads) {
    r.key_heads = r.fixed_key_heads.value_or(0);
    r.keys.find(names);
  } else if (const auto given = r.keys.size(names, max_count)) {
    r.key_heads = *given;
  } else if (usual != 0 && !r.keys.is_null("num_key_value_heads") && r.heads % usual == 0) {
    r.key_heads = usual;
  }
  if (const auto inner = r.keys.object_in("attn_config"))
    r.key_heads = Keys(*inner).size({"kv_n_heads"}, max_count).value_or(r.key_heads);
  if (r.heads > 0 && r.key_heads > 0 && r.heads % r.key_heads != 0)
    r.fail_at(names, "the query heads " + std::to_string(r.heads) +
                         " must be a multiple of the key heads, got " +
                         std::to_string(r.key_heads));
  if (r.family.value_dim > 0 || r.keys.find({"v_head_dim"}))
    r.value_dim = r.size({"v_head_dim"}, r.family.value_dim, max_count);
  const auto of_type = [&](std::string_view key, std::int64_t Layer::* size, const char* type) {
    if (const auto given = r.keys.size({key}, max_count)) r.set(size, type, *given);
  };
  of_type("num_global_key_value_heads", &Layer::key_heads, full);
  of_type("swa_num_key_value_heads", &Layer::key_heads, sliding);
  of_type("swa_v_head_dim", &Layer::value_dim, sliding);
}

}  // namespace

void read_heads(Reading& r) {
  if (const auto list = r.keys.find({"num_attention_heads_per_layer"})) {
    const auto heads = list->integers("num_attention_heads_per_layer");
    require_length(r, *list, heads.size(), "num_attention_heads_per_layer");
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      if (heads[l] < 1 || heads[l] > max_count)
        list->fail("num_attention_heads_per_layer must be 1 to 65536, got " +
                   std::to_string(heads[l]));
      r.layers[l].heads = heads[l];
    }
  }
  auto of_sliding =
      r.keys.size({"num_sliding_attention_heads", "swa_num_attention_heads"}, max_count);
  if (const auto other = r.keys.object_in("attention_other_setting"); other && !of_sliding)
    of_sliding = Keys(*other).size({"num_attention_heads"}, max_count);
  for (Layer& layer : r.layers)
    if (of_sliding && layer.type == sliding) layer.heads = *of_sliding;
}

namespace {

// Limits of a window in a layer.
void put_window(const Reading& r, std::int64_t window, LayerAttention& attention) {
  window /= r.family.window_divisor;
  if (attention.visibility == Visibility::causal) {
    attention.left = window - 1;
    return;
  }
  attention.left = attention.right = window / 2;
  switch (r.family.window_sides) {
    case WindowSides::halves:
      break;
    case WindowSides::whole:
      attention.left = attention.right = window;
      break;
    case WindowSides::one_less_before:
      attention.left = (window - 1) / 2;
      break;
    case WindowSides::one_more:
      attention.left = attention.right = window / 2 + 1;
      break;
  }
}

// Letters of the layers, as in SlidingWindow::pattern, from [[["global", "local"], 12]], the
// key of GPT-Neo.
std::string read_attention_types(Reading& r, const Json& list) {
  std::string letters;
  list.for_each_element([&](const Json& group) {
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
      for (const std::string& name : names) letters += name == "local" ? 's' : 'f';
  });
  letters.resize(std::max(letters.size(), r.layers.size()), 'f');
  return letters;
}

void read_window(Reading& r) {
  const SlidingWindow& facts = r.family.window;
  const auto given = r.keys.find({facts.key});
  const bool is_number = given && given->is(JsonType::number);
  if (facts.slides == Slides::none) {
    if (is_number && r.is_true("use_sliding_window", true) && r.keys.was_read("layer_types") &&
        !r.family.model_type.empty())
      r.note("sliding_window is not used by " + r.out.model_type);
    return;
  }
  std::int64_t window = r.keys.is_null(facts.key) ? 0 : facts.size;
  if (is_number) window = given->integer(facts.key);
  const bool switched = (facts.slides != Slides::all && facts.slides != Slides::by_type) ||
                        r.keys.find({"use_sliding_window"}).has_value();
  if (switched && !r.is_true("use_sliding_window", r.family.window_on)) window = 0;
  if (window < 1) return;
  const auto types = r.keys.find({"layer_types"});
  const std::int64_t first_sliding = r.size({"max_window_layers"}, 28);
  std::string pattern(types ? "" : facts.pattern);
  if (const auto list = r.keys.find({"attention_types"}); list && list->is(JsonType::array))
    pattern = read_attention_types(r, *list);
  const auto slides = [&](std::size_t l, const Layer& layer) {
    const auto number = static_cast<std::int64_t>(l);
    if (facts.slides == Slides::all) return true;
    if (!pattern.empty()) return pattern[l % pattern.size()] == 's';
    if (types || facts.slides == Slides::by_type) return layer.type == sliding;
    switch (facts.slides) {
      case Slides::from_layer:
        return number >= first_sliding;
      case Slides::even_below:
        return number % 2 == 0 && number < first_sliding;
      case Slides::unrotated:
        return !layer.rotates;
      default:
        return facts.slides == Slides::switched;
    }
  };
  for (std::size_t l = 0; l < r.layers.size(); ++l)
    if (slides(l, r.layers[l])) put_window(r, window, r.layers[l].attention);
}

void read_norms(Reading& r) {
  const Norm& facts = r.family.norm;
  if (facts.kind == NormKind{}) {
    for (const char* key : {"use_qk_norm", "qk_layernorm", "qk_norm"})
      if (r.is_true(key, false))
        r.unsupported = "norms of queries and keys (" + std::string(key) +
                        "), which are unknown for this family";
    return;
  }
  if (!facts.switched_by.empty() && !r.is_true(facts.switched_by, facts.on)) return;
  LayerNorm norm{.norm = {.kind = facts.kind,
                          .scope = facts.scope,
                          .epsilon = facts.epsilon,
                          .weight_offset = facts.weight_offset},
                 .order = facts.order,
                 .weights = facts.trained ? NormWeights::elements : NormWeights::none};
  const Keys::Names layer_norm = {"layer_norm_eps", "layer_norm_epsilon", "norm_eps",
                                  "norm_epsilon"};
  const Keys::Names rms = {"rms_norm_eps", "norm_eps", "layer_norm_eps"};
  if (const auto given = r.keys.positive(facts.kind == NormKind::layer ? layer_norm : rms))
    norm.norm.epsilon = *given;
  for (Layer& layer : r.layers)
    if (layer.rotates || !facts.rotated_only)
      layer.attention.query_norm = layer.attention.key_norm = norm;
}

void read_softmax(Reading& r) {
  std::optional<double> softcap;
  if (r.family.softcap > 0) {
    softcap = r.keys.positive({"attn_logit_softcapping"});
    if (!softcap && !r.keys.is_null("attn_logit_softcapping")) softcap = r.family.softcap;
  }
  std::optional<HeadNorm> value_norm;
  if (r.family.value_norm)
    value_norm = HeadNorm{.kind = NormKind::rms,
                          .epsilon = r.keys.positive({"rms_norm_eps"}).value_or(1e-6)};
  for (Layer& layer : r.layers) {
    layer.attention.softcap = softcap;
    layer.attention.value_norm = value_norm;
    if (r.family.sinks) layer.attention.sinks = Sinks::per_head;
    layer.attention.output_gate = r.family.output_gate;
    if (r.temperature) layer.attention.query_scale = r.temperature;
  }
}

}  // namespace

void read_attention(Reading& r) {
  all_layers(r);
  if (r.unsupported.empty()) r.unsupported = r.family.unsupported;
  read_visibility(r);
  read_key_heads(r);
  read_window(r);
  read_norms(r);
  read_softmax(r);
  if (r.keys.positive({"clip_qkv"}))
    r.unsupported = "clipped queries, keys and values (clip_qkv)";
  if (r.is_true("rotary_value", false)) r.unsupported = "rotated values (rotary_value)";
  if (r.family.read_attention) r.family.read_attention(r);
  if (r.family.tower) r.out.image = r.image;
  if (r.out.width == 0)
    r.out.width = r.keys
                      .size({"hidden_size", "n_embd", "d_model", "dim", "n_embed", "emb_dim",
                             "embed_dim", "hidden_dim", "model_dim"})
                      .value_or(r.family.hidden);
}

}  // namespace gnomon::model::internal
