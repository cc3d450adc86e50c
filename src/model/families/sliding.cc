// Full attention in some layers, a sliding window or chunks in the others. Source: the code of
// each family.
#include <cmath>
#include <cstdlib>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

using changes::per_channel, changes::per_head;

constexpr GgufKey logit_scale[] = {{"logit_scale", "logit_scale"}};

// Layers with full attention do not rotate.
void read_nope_full_layers(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"global_attn_every_n_layers", "sliding_window_pattern",
                                 "_sliding_window_pattern"},
                                r.family.full_every));
  set_nope_layers(r, full);
  read_rotary(r);
}

// Full layers do not rotate, and have a query temperature.
void read_beam(Reading& r) {
  prepare(r);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % 6 == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  set_nope_layers(r, full);
  read_rotary(r);
}

void read_beam_attention(Reading& r) {
  for (Layer& layer : r.layers)
    if (!layer.rotates) layer.attention.query_scale = beam_temperature();
}

// Row and column alternate over the pairs of a patch. Some sliding layers have a wider window.
void read_neomme(Reading& r) {
  prepare(r);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % 6 == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  read_ropes(r);
  for (auto& [type, rope] : r.ropes)
    for (std::int64_t pair = 0; pair < rope.rotary.rotary_dim / 2; ++pair)
      rope.axes.push_back(static_cast<std::int32_t>(pair % 2));
  put_ropes(r);
  r.note(
      "positions of a patch are its row and column, of a text token twice its index; the "
      "caller subtracts tanh(alpha) of the output's part along the query's own value");
}

void read_neomme_attention(Reading& r) {
  const auto all = r.keys.object_in("per_layer_config");
  if (!all) return;
  all->for_each_member([&](const std::string& number, Json value) {
    const auto size = Keys(value).size({"sliding_window"}, max_number);
    for (Layer& layer : r.layers)
      if (size && layer.type == sliding &&
          std::strtoll(number.c_str(), nullptr, 10) == layer.number)
        layer.attention.left = layer.attention.right = *size;
  });
}

void read_ultrabert(Reading& r) {
  prepare(r);
  type_layers(r, [](std::int64_t l) { return l % 3 == 2 ? full : sliding; });
  r.bases = {{full, 2'560'000}, {sliding, 10'000}};
  if (has_ropes_by_type(r)) return read_rotary(r);
  for (const auto& [type, base] : r.bases) r.ropes[type] = read_rope(r, {}, base, type);
  put_ropes(r);
}

void read_exaone4(Reading& r) {
  prepare(r);
  const auto window = r.keys.find({"sliding_window"});
  const auto pattern = r.keys.find({"sliding_window_pattern"});
  if (window && pattern && pattern->is(JsonType::string)) {
    const std::string letters = pattern->string("sliding_window_pattern");  // "LLLG"
    if (letters.empty()) pattern->fail("sliding_window_pattern must not be empty");
    type_layers(r, [&](std::int64_t l) {
      return letters[to_size(l) % letters.size()] == 'L' ? sliding : full;
    });
  } else if (window) {
    slide_all_but_every(r, r.size({"sliding_window_pattern"}, r.family.full_every));
  }
  if (window) set_nope_layers(r, full);
  read_rotary(r);
}

void read_laguna(Reading& r) {
  prepare(r);
  read_heads(r);
  read_rotary(r);
}

// gating: true, false, "per-head" or "per-element".
void read_laguna_attention(Reading& r) {
  const auto gating = r.keys.find({"gating"});
  if (!gating || (gating->is(JsonType::boolean) && !gating->boolean("gating"))) return;
  const bool by_head = gating->is(JsonType::boolean) || gating->string("gating") == "per-head";
  for (Layer& layer : r.layers) layer.attention.output_gate = by_head ? per_head : per_channel;
  r.note("the gate of the output is a softplus");
}

void read_llama4(Reading& r) {
  prepare(r);
  rotate_by_list(r);
  // Some configs have attn_temperature_tuning 4 instead of true.
  const auto tuning = r.keys.find({"attn_temperature_tuning"});
  const bool tempered = !tuning || (tuning->is(JsonType::boolean)
                                        ? tuning->boolean("attn_temperature_tuning")
                                        : tuning->number("attn_temperature_tuning") != 0);
  const QueryTemperature usual = llama4_temperature();
  const double scale = r.keys.number({"attn_scale"}).value_or(usual.beta);
  if (scale < 0)
    r.fail_at({"attn_scale"}, "attn_scale must not be negative, got " + shown(scale));
  const std::int64_t floor = r.size({"floor_scale"}, usual.length);
  if (r.keys.boolean({"use_qk_norm"}).value_or(true))
    r.note(
        "queries and keys of the layers that rotate are normalised (RMS) after the rotation");
  // The layer types of rotating layers (chunked attention) do not determine the base.
  read_rotary(r);
  const bool typed = r.keys.find({"layer_types"}).has_value();
  std::optional<std::int64_t> chunk;
  if (!r.keys.is_null("attention_chunk_size"))
    chunk = r.size({"attention_chunk_size"}, r.family.chunk);
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    attention.query_scale_index = ScaleIndex::row;
    if (tempered && !layer.rotates) attention.query_scale = llama4_temperature(scale, floor);
    if (typed ? layer.type == "chunked_attention" : layer.rotates) attention.chunk = chunk;
  }
}

void read_mimo(Reading& r) {
  prepare(r);
  const auto pattern = r.keys.find({"hybrid_layer_pattern"});
  const auto slides =
      pattern ? pattern->integers("hybrid_layer_pattern") : std::vector<std::int64_t>();
  if (pattern) require_length(r, *pattern, slides.size(), "hybrid_layer_pattern");
  type_layers(r, [&](std::int64_t l) {
    if (pattern) return slides[to_size(l)] != 0 ? sliding : full;
    return l == 0 || (l + 1) % 6 == 0 ? full : sliding;
  });
  if (const auto narrow = r.keys.size({"swa_head_dim"}, max_count))
    r.set(&Layer::head_dim, sliding, *narrow);
  read_heads(r);
  read_local_base(r, "swa_rope_theta");
  read_rotary(r);
}

void read_mllama(Reading& r) {
  prepare(r);
  if (const auto list = r.keys.find({"cross_attention_layers"}))
    for (const std::int64_t l : layer_numbers(r, *list, "cross_attention_layers")) {
      r.layers[to_size(l)].rotates = false;
      r.layers[to_size(l)].unsupported = "cross-attention to an image";
    }
  read_rotary(r);
}

// Sliding layers have twice the key heads, and sinks.
void read_mimo_attention(Reading& r) {
  if (!r.keys.find({"swa_num_key_value_heads"}))
    r.set(&Layer::key_heads, sliding, 2 * r.key_heads);
  const bool in_full = r.is_true("add_full_attention_sink_bias", false);
  const bool in_sliding = r.is_true("add_swa_attention_sink_bias", true);
  const double usual = r.keys.is_null("attention_value_scale") ? 1 : 0.707;
  const double scale = r.keys.number({"attention_value_scale"}).value_or(usual);
  for (Layer& layer : r.layers) {
    if (!(layer.type == sliding ? in_sliding : in_full)) layer.attention.sinks = Sinks::none;
    layer.attention.value_scale = scale;
  }
}

void read_modernbert(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"global_attn_every_n_layers"}, 3);
  type_layers(r, [&](std::int64_t l) { return l % every == 0 ? full : sliding; });
  r.bases = {{full, r.keys.base({"global_rope_theta"}).value_or(160'000)},
             {sliding, r.keys.base({"local_rope_theta"}).value_or(10'000)}};
  r.scaled = {full, sliding};
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  for (const auto& [type, base] : r.bases) r.ropes[type] = read_rope(r, scaling, base, type);
  put_ropes(r);
}

// Every fourth layer, counted from the last, has full attention and no rotation.
void read_muse(Reading& r, double factor) {
  prepare(r);
  r.softmax_scale = r.keys.positive({"qk_scale_factor"}).value_or(factor) *
                    inverse_sqrt(static_cast<double>(r.head_dim));
  const auto is_full = [&](std::int64_t l) { return (r.out.layers - 1 - l) % 4 == 0; };
  type_layers(r, [&](std::int64_t l) { return is_full(l) ? full : sliding; });
  for (std::int64_t l = 0; l < r.out.layers; ++l) r.layers[to_size(l)].rotates = !is_full(l);
  // layer_rope_theta 0 means no rotation. Other values are not used.
  if (const auto list = r.keys.find({"layer_rope_theta"})) {
    const auto bases = list->numbers("layer_rope_theta");
    require_length(r, *list, bases.size(), "layer_rope_theta");
    for (std::size_t l = 0; l < r.layers.size(); ++l) r.layers[l].rotates = bases[l] != 0;
  }
  read_rotary(r);
}

void read_muse_glimmer(Reading& r) { read_muse(r, 3.87); }
void read_muse_spark(Reading& r) { read_muse(r, 5.4730064863875); }

void read_olmo3(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.family.full_every);
  double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  r.bases = {{full, base}, {sliding, r.family.base}};
  r.scaled = {full};
  if (!has_ropes_by_type(r)) {
    const auto parameters = r.keys.find({"rope_parameters"});
    if (parameters) base = Keys(*parameters).base({"rope_theta"}).value_or(base);
    r.ropes[sliding] = read_rope(r, std::nullopt, base, sliding);
  }
  read_rotary(r);
}

void read_smollm3(Reading& r) {
  prepare(r);
  rotate_by_list(r);
  read_rotary(r);
}

void read_step3(Reading& r) {
  prepare(r);
  read_heads(r);
  const auto list = [&](const char* name, double otherwise) {
    const auto value = r.keys.find({name});
    if (!value) return std::vector<double>(r.layers.size(), otherwise);
    if (!value->is(JsonType::array))
      return std::vector<double>(r.layers.size(), value->number(name));
    std::vector<double> numbers = value->numbers(name);
    for (const double one : numbers)
      if (!(one > 0) || !std::isfinite(one))
        value->fail(std::string(name) + " must be finite and positive, got " + shown(one));
    if (numbers.size() < r.layers.size())
      value->fail(std::string(name) + " must have a number for each of " +
                  std::to_string(r.layers.size()) + " layers, got " +
                  std::to_string(numbers.size()));
    return numbers;
  };
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto bases = list("rope_theta", r.family.base);
  const auto shares = list("partial_rotary_factors", 1);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    const bool whole = layer.type == full;
    const std::string type = layer.type + " " + shown(bases[l]) + " " + shown(shares[l]);
    layer.rope = type;
    if (r.ropes.contains(type)) continue;
    if (!(shares[l] > 0 && shares[l] <= 1))
      r.fail_at(
          {"partial_rotary_factors"},
          "partial_rotary_factors must be more than 0 and at most 1, got " + shown(shares[l]));
    r.rotary_dim = of_head(r.head_dim, shares[l]);
    r.ropes[type] = read_rope(r, whole ? scaling : std::nullopt, bases[l], type);
  }
  put_ropes(r);
}

}  // namespace

void add_sliding(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufWeights cohere2_weights{
      .architecture = "cohere2",
      .tensors = {embeddings, always_tied, input_norm, separate_qkv, gated_layer},
      .keys = {layer_norm_key, logit_scale},
      .fixed = {silu},
      .heads_fill_width = true};
  GgufWeights cohere_weights = cohere2_weights;
  cohere_weights.architecture = "command-r";
  const GgufWeights olmo3_weights{
      .architecture = "olmo2",
      .tensors = {embeddings, output, separate_qkv, row_norms, output_norms, gated_layer},
      .keys = {rms_norm_key},
      .fixed = {silu},
      .heads_fill_width = true};
  const GgufWeights smollm3_weights{.architecture = "smollm3",
                                    .tensors = {embeddings, output_or_tied, input_norm,
                                                separate_qkv, feed_forward_norm, gated_layer},
                                    .keys = {rms_norm_key},
                                    .fixed = {silu}};
  add(rotary, {"beam"}, read(read_beam), attention(read_beam_attention), head_dim(128),
      length(8192), sizes(52, 48, 5120), key_heads(8), window(by_type, 512),
      norm(rms, before, head, 1e-6), output_gate(per_channel),
      differences("sliding layers rotate, full layers have a query temperature"));
  add(rotary, {"cohere_compass_text"}, mrope(MRopeOrder::interleaved, {24, 20, 20}),
      length(8192), sizes(40, 64, 8192), window(by_type, 4096));
  add(rotary, {"neomme"}, read(read_neomme), attention(read_neomme_attention), share(1, factor),
      rope(
          R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
"full_attention": {"rope_type": "default", "rope_theta": 1000000.0,
"partial_rotary_factor": 0.25}})"),
      head_dim(64), length(16'384), sizes(17, 16, 1024), key_heads(4),
      visibility(bidirectional), window(by_type, 256), window_sides(WindowSides::whole),
      norm(rms, before, head, 1e-6, 0, {}, true, false, false), output_gate(per_channel),
      differences("base, share and window by layer type; some windows are wider"));
  add(rotary, {"ultrabert"}, read(read_ultrabert), length(32'768), sizes(32, 32, 4096),
      visibility(bidirectional), window(by_type, 128), window_sides(WindowSides::whole),
      differences("one base per layer type"));
  add(rotary, {"cohere"}, pairing(adjacent), base(500'000), length(8192), sizes(40, 64, 8192),
      norm(layer_norm, before, head, 1e-5, 0, "use_qk_norm", false),
      gguf("command-r", RopeType::adjacent), to_gguf(cohere_weights));
  const Family cohere2 = add(
      rotary, {"cohere2"}, read(read_nope_full_layers), pairing(adjacent), length(8192),
      sizes(40, 64, 8192), window(by_type, 4096), full_every(4), nope_layers(NopeLayers::full),
      differences("sliding layers rotate, full layers do not"),
      gguf("cohere2", RopeType::adjacent),
      gguf_window({.window = GgufWindow::causal,
                   .every = 4,
                   .size = by_file,
                   .base = SlidingBase::same}),
      to_gguf(cohere2_weights));
  const Family cohere2_moe =
      add(cohere2, {"cohere2_moe"}, head_dim(128), gguf("cohere2moe", RopeType::adjacent),
          gguf_keys("leading_dense_block_count"),
          gguf_window({.window = GgufWindow::causal,
                       .every = 4,
                       .full_first = true,
                       .size = by_file,
                       .base = SlidingBase::same}));
  const Family afmoe =
      add(cohere2_moe, {"afmoe"}, pairing(halves), length(16'384), sizes(32, 16, 2048),
          window(by_type, 1024), norm(rms, before, head, 1e-5), nope_every(4),
          output_gate(per_channel), gguf("afmoe", RopeType::halves),
          gguf_window({.window = GgufWindow::causal, .every = 4}));
  add(afmoe, {"flint"}, output_gate(OutputGate::none), length(262'144), sizes(49, 32, 2048),
      key_heads(4), window(by_type, 513), norm(rms, before, head, 1e-6), sinks(true));
  add(rotary, {"exaone"}, base(500'000), length(4096), sizes(32, 32, 4096),
      gguf("exaone", RopeType::halves));
  const Family exaone_moe = add(
      rotary, {"exaone_moe"}, read(read_exaone4), sizes(32, 32, 4096), key_heads(32),
      window(by_type, 4096), full_every(4), nope_layers(NopeLayers::full_with_window),
      norm(rms, before, head, 1e-5), differences("with a window, only sliding layers rotate"),
      gguf("exaone-moe", RopeType::halves),
      gguf_window({.window = GgufWindow::causal,
                   .every = 4,
                   .size = by_file,
                   .base = SlidingBase::same}));
  add(exaone_moe, {"exaone4"}, gguf("exaone4", RopeType::halves),
      gguf_window({.window = GgufWindow::causal,
                   .every = 4,
                   .size = 4096,
                   .layers = 64,
                   .base = SlidingBase::same}));
  add(exaone_moe, {"kolibri1"}, head_dim(128), length(262'144), sizes(50, 48, 2560),
      key_heads(4), window(by_type, 513), norm(rms, before, head, 1e-6));
  add(rotary, {"laguna"}, read(read_laguna), attention(read_laguna_attention), base(500'000),
      share(1, factor),
      rope(
          R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0,
"partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default",
"rope_theta": 10000.0, "partial_rotary_factor": 1.0}})"),
      head_dim(128), length(131'072), sizes(40, 48, 2048), key_heads(8), window(by_type, 512),
      norm(rms, before, head, 1e-6),
      differences("base, rotated share and number of heads differ by layer"),
      gguf("laguna", RopeType::halves), gguf_keys("rope.dimension_count_swa"),
      gguf_window({.window = GgufWindow::causal,
                   .every = 4,
                   .full_first = true,
                   .scaled = false,
                   .table_scaled = false}));
  add(rotary, {"llama4_text"}, read(read_llama4), pairing(adjacent), base(500'000),
      head_dim(128), length(131'072), sizes(48, 40, 5120), key_heads(8), nope_every(4),
      nope_layers(NopeLayers::full_with_window), chunk(8192),
      norm(rms, after, head, 1e-5, 0, "use_qk_norm", true, true, false),
      differences("one layer in four does not rotate, and has a query temperature"),
      gguf("llama4", RopeType::adjacent), gguf_experts_unnormed(128),
      gguf_window({.window = GgufWindow::chunked, .every = 4, .size = 8192, .fixed = 8192}));
  add(rotary, {"mimo_v2_flash"}, read(read_mimo), attention(read_mimo_attention),
      base(5'000'000), share(0.334, factor), head_dim(192), length(131'072),
      sizes(48, 64, 4096), key_heads(4), value_dim(128), window(by_type, 129),
      local_base(10'000), sinks(true), differences("another base for sliding layers"),
      gguf("mimo2", RopeType::halves), gguf_keys("attention.value_scale"),
      gguf_window({.window = GgufWindow::causal,
                   .every = by_file,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(rotary, {"mllama_text_model"}, read(read_mllama), base(500'000), head_dim(by_heads),
      length(131'072), sizes(40, 32, 4096), key_heads(8),
      differences("cross-attention layers (image) do not rotate"));
  const Family modernbert_decoder =
      add(rotary, {"modernbert-decoder"}, read(read_modernbert), base(160'000), length(8192),
          sizes(22, 12, 768), key_heads(by_heads), window(by_type, 128, "", "local_attention"),
          window_divisor(2), weights(stacked), differences("another base for sliding layers"));
  add(modernbert_decoder, {"modernbert"}, visibility(bidirectional), window_divisor(1),
      gguf("modern-bert", RopeType::halves),
      gguf_window({.window = GgufWindow::symmetric,
                   .every = 3,
                   .full_first = true,
                   .base = SlidingBase::own,
                   .scaled = false}));
  const Family muse_glimmer_text =
      add(rotary, {"muse_glimmer_text"}, read(read_muse_glimmer), output_gate(per_channel),
          head_dim(128), length(131'072), sizes(52, 32, 6656), key_heads(2),
          window(by_type, 2048), norm(rms, before, head, 1e-5),
          differences("one layer in four is full and does not rotate"),
          nope_layers(NopeLayers::full), gguf("muse-glimmer", RopeType::adjacent),
          gguf_window(
              {.window = GgufWindow::causal, .every = 4, .size = by_file, .scaled = false}));
  add(muse_glimmer_text, {"muse_spark_text"}, read(read_muse_spark), base(500'000),
      rope(R"({"rope_type": "default", "rope_theta": 500000.0})"), head_dim(64),
      length(1'048'576), sizes(62, 128, 8192), key_heads(16));
  add(rotary, {"olmo3"}, read(read_olmo3), base(500'000), sizes(32, 32, 4096),
      window(by_type, 4096), full_every(4), norm(rms, before, all_heads, 1e-5),
      differences("only full layers are scaled"), to_gguf(olmo3_weights));
  add(rotary, {"smollm3"}, read(read_smollm3), base(2'000'000), length(32'768),
      sizes(36, 16, 2048), key_heads(4), window(unrotated), nope_every(4),
      differences("one layer in four does not rotate"), gguf("smollm3", RopeType::adjacent),
      to_gguf(smollm3_weights));
  add(rotary, {"step3p5"}, read(read_step3), output_gate(per_head),
      scalar_key("query_pre_attn_scalar"), share(1, factor), head_dim(128), length(128'000),
      sizes(45, 64, 4096), key_heads(8), window(by_type), norm(rms, before, head, 1e-5, 1),
      differences("base and rotated share per layer"), gguf("step35", RopeType::halves),
      gguf_keys("rope.dimension_count_swa"), gguf_half_rotated(true),
      gguf_window({.window = GgufWindow::causal,
                   .every = by_file,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
}

}  // namespace gnomon::model::internal
