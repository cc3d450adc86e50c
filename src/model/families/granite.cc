// Granite and Bamba. Source: the code of each family.
#include <cmath>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr GgufKey granite_scales[] = {
    {"logits_scaling", "logit_scale"},
    {"residual_multiplier", "residual_scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"attention_multiplier", "attention.scale"},
};

void read_granite_by_layer(Reading& r) {
  const auto bases = r.keys.find({"layer_rope_theta"});
  if (!bases) return read_rotary(r);
  prepare(r);
  auto scaling = r.keys.find({"rope_scaling"});  // of the layers that rotate
  if (!scaling) scaling = r.keys.find({"rope_parameters"});
  std::size_t l = 0;
  bases->for_each_element([&](Json value) {
    if (l >= r.layers.size()) return;
    const double base = value.is_null() ? 0 : value.number("layer_rope_theta");
    if (base != 0 && (!(base > 1) || !std::isfinite(base)))
      value.fail(
          "layer_rope_theta must be 0, for layers that do not rotate, or finite and "
          "greater than 1, got " +
          value.shown());
    Layer& layer = r.layers[l++];
    layer.rotates = base != 0;
    layer.rope = "base " + value.shown();
    if (!layer.rotates || r.ropes.contains(layer.rope)) return;
    Rope rope = read_rope(r, scaling, base);
    rope.rotary.base = base;  // not rope_theta
    r.ropes[layer.rope] = rope;
  });
  if (l < r.layers.size())
    bases->fail("layer_rope_theta must have a base for each of " +
                std::to_string(r.layers.size()) + " layers, got " + std::to_string(l));
  put_ropes(r);
}

void read_granite_hybrid(Reading& r) {
  prepare(r);
  if (const auto types = r.keys.find({"layers_block_type"}); types) {
    const auto names = types->strings("layers_block_type");
    require_length(r, *types, names.size(), "layers_block_type");
    type_layers(r, [&](std::int64_t l) { return names[to_size(l)]; });
  }
  if (r.keys.string({"position_embedding_type"}).value_or("") != "rope") {
    for (Layer& layer : r.layers) layer.rotates = false;
    ignore_ropes(r);
    return put_ropes(r);
  }
  read_rotary(r);
}

void read_bamba(Reading& r) {
  prepare(r);
  if (!r.keys.find({"attn_layer_indices"}) && !r.keys.find({"layer_types"}))
    for (Layer& layer : r.layers) layer.attends = false;
  attend_at(r, "attn_layer_indices");
  r.rotary_dim = of_head(r.head_dim, r.family.share);
  r.keys.find({"partial_rotary_factor"});
  read_rotary(r);
}

}  // namespace

void add_granite(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufWeights granite_weights{.architecture = "granite",
                                    .tensors = {embeddings, output_or_tied, input_norm,
                                                separate_qkv, feed_forward_norm, gated_layer},
                                    .keys = {rms_norm_key, granite_scales},
                                    .fixed = {silu}};
  add(rotary, {"bamba"}, read(read_bamba), share(0.5, factor), length(262'144),
      sizes(32, 32, 4096), key_heads(8), differences("attention in some layers"));
  const Family granite4_vision_text =
      add(rotary, {"granite4_vision_text", "granitemoeshared"}, softmax_scale(1),
          scale_key("attention_multiplier"), sizes(32, 32, 4096));
  add(granite4_vision_text, {"granite"}, gguf("granite", RopeType::adjacent),
      gguf_keys("attention.scale", "rope.scaling.finetuned"), to_gguf(granite_weights));
  add(granite4_vision_text, {},
      note("llama.cpp has one more attention, with one head and without rotation, which "
           "selects the adapter of each token; it is not described"),
      gguf("graniteswitch", RopeType::adjacent),
      gguf_keys("attention.scale", "rope.scaling.finetuned"));
  add(granite4_vision_text, {"granite_docling_text"}, length(32'768), sizes(28, 16, 1024),
      key_heads(4));
  add(granite4_vision_text, {"granitemoe"}, gguf("granitemoe", RopeType::adjacent),
      gguf_keys("attention.scale"));
  const Family granitemoe_swa =
      add(granite4_vision_text, {"granitemoe_swa"}, read(read_granite_by_layer),
          window(by_type, 128, "fsss"), sinks(true), differences("one base per layer"));
  add(granitemoe_swa, {"granite_swa"}, length(8192), sizes(24, 20, 2560), key_heads(4),
      gguf("granite_swa", RopeType::adjacent),
      gguf_keys("attention.scale", "attention.rope_pattern"),
      gguf_window({.window = GgufWindow::causal,
                   .every = by_file,
                   .size = by_file,
                   .base = SlidingBase::same}));
  add(granite4_vision_text, {"granitemoehybrid"}, read(read_granite_hybrid),
      differences("attention in some layers"), gguf("granitehybrid", RopeType::adjacent),
      gguf_keys("attention.scale", "rope.scaling.finetuned"));
  add(rotary, {"hyperclovax"}, scale_key("attention_multiplier"), sizes(32, 32, 4096),
      unsupported("attention that was not compared with the model's own code"));
  const Family granite_speech =
      add(multimodal, {"granite_speech", "granite_speech_plus"}, language("granite"));
  add(granite_speech, {"granite4_vision"}, language("*_text"),
      part("vision_config", "clip_vision_model"));
  add(granite_speech, {"granite_docling"}, language("*_text"),
      part("vision_config", "*_vision"));
}

}  // namespace gnomon::model::internal
