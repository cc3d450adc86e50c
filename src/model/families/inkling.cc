// Inkling: no rotation, but relative logits in every layer, and short convolutions of keys and
// values. Source: the code of each family.
#include <cmath>

#include "src/core/text.h"
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// What differs between the generations.
struct Generation {
  std::int64_t sliding_heads, sliding_key_heads;
  std::int64_t floor;  // log_scaling_n_floor; 0: none
  bool second;         // limits of lengths, sinks of queries, dynamic convolutions
};
constexpr Generation first{64, 16, 0, false}, second{48, 8, 128'000, true};

// Types are called hybrid and hybrid_sliding. The others of six layers slide.
void read_inkling_types(Reading& r) {
  const auto given = r.keys.find({"layer_types"});
  const auto names = given ? given->strings("layer_types") : std::vector<std::string>();
  if (given) require_length(r, *given, names.size(), "layer_types");
  const auto local = r.keys.find({"local_layer_ids"});
  std::set<std::int64_t> slides;
  if (local)
    for (const std::int64_t l : layer_numbers(r, *local, "local_layer_ids")) slides.insert(l);
  for (Layer& layer : all_layers(r)) {
    const auto l = layer.number;
    layer.rotates = false;
    layer.type = full;
    if (given) {
      const std::string& name = names[to_size(l)];
      if (name != "hybrid" && name != "hybrid_sliding")
        given->fail("layer_types must be hybrid or hybrid_sliding, got " +
                    gnomon::internal::shown(name));
      if (name == "hybrid_sliding") layer.type = sliding;
    } else if (local ? slides.contains(l) : (l + 1) % 6 != 0) {
      layer.type = sliding;
    }
  }
}

void read_inkling(Reading& r, const Generation& of) {
  read_sizes(r);
  if (const auto length = r.keys.size({"model_max_length"});
      length && !r.keys.find({"max_position_embeddings"})) {
    r.out.length = *length;
    std::erase_if(r.out.notes, [](const std::string& note) {
      return note.starts_with("max_position_embeddings is not given");
    });
  }
  read_inkling_types(r);
  r.set(&Layer::head_dim, sliding, r.size({"swa_head_dim"}, r.family.head_dim, max_count));
  r.set(&Layer::heads, sliding,
        r.size({"swa_num_attention_heads"}, of.sliding_heads, max_count));
  const std::int64_t width = hidden_size(r), rank = r.size({"d_rel"}, 16, max_count);
  const std::int64_t window = r.size({r.family.window.key}, r.family.window.size);
  const std::int64_t extent = r.size({"rel_extent"}, 1024);
  double clip = 0;
  if (of.second) clip = r.keys.positive({"rel_l2_clip_threshold"}).value_or(8);
  for (const char* type : {full, sliding}) {
    const auto layers =
        layers_with(r, [&](std::int64_t l) { return r.layers[to_size(l)].type == type; });
    if (layers.empty()) continue;
    put(r,
        RelativeLogits{.heads = layers[0]->heads > 0 ? layers[0]->heads : r.heads,
                       .width = width,
                       .rank = rank,
                       .extent = type == full ? extent : window,
                       .clip = clip},
        layers);
  }
}

void read_inkling_attention(Reading& r, const Generation& of) {
  if (!r.keys.find({"swa_num_key_value_heads"}))
    r.set(&Layer::key_heads, sliding, of.sliding_key_heads);
  const std::int64_t taps = r.size({"conv_kernel_size", "sconv_kernel_size"}, 4, 64);
  std::optional<std::int64_t> floor = r.keys.size({"log_scaling_n_floor"});
  if (!floor && of.floor > 0) floor = of.floor;
  const double alpha = r.keys.number({"log_scaling_alpha"}).value_or(0.1);
  if (alpha < 0)
    r.fail_at({"log_scaling_alpha"},
              "log_scaling_alpha must not be negative, got " + shown(alpha));
  const double limit = r.keys.positive({"qk_l2_clip_threshold"}).value_or(22.627416997969522);
  const auto width_of_convolution = static_cast<double>(taps);
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    const bool slides = layer.type == sliding;
    if (!slides && floor) attention.query_scale = inkling_temperature(*floor, alpha);
    attention.convolution = {.taps = taps, .weights = ConvolutionWeights::fixed};
    if (!of.second) {  // q and k are normalised, so the scale is 1 / D
      attention.softmax_scale = 1 / static_cast<double>(r.head_dim_of(layer.type));
      continue;
    }
    const HeadNorm norm{.kind = NormKind::clip, .epsilon = 1e-6, .limit = limit};
    attention.query_norm = {.norm = norm, .order = NormOrder::before_rotation, .by_head = true};
    attention.key_norm = {
        .norm = norm, .order = NormOrder::before_rotation, .weights = NormWeights::none};
    attention.sinks = Sinks::per_query;
    attention.sink_inputs = std::get<RelativeLogits>(r.encodings.front()).width;
    attention.convolution->scale = 1 / std::sqrt(width_of_convolution + 1);
    if (!slides)
      attention.convolution = {.taps = taps,
                               .weights = ConvolutionWeights::dynamic,
                               .scale = 1 / std::sqrt(2 * width_of_convolution + 1)};
  }
  r.note("keys and values pass a short convolution before attention, which the caller applies");
  if (of.second)
    r.note(
        "in layers with full attention, keys and values are projected from other inputs than "
        "queries");
}

void read_inkling1(Reading& r) { read_inkling(r, first); }
void read_inkling2(Reading& r) { read_inkling(r, second); }
void read_attention1(Reading& r) { read_inkling_attention(r, first); }
void read_attention2(Reading& r) { read_inkling_attention(r, second); }

}  // namespace

void add_inkling(Families& add) {
  using namespace changes;
  const Family inkling =
      add(rotary, {"inkling_text"}, position("relative logits"), read(read_inkling1),
          attention(read_attention1), head_dim(128), length(131'072), sizes(66, 64, 6144),
          key_heads(8), window(by_type, 512, {}, "sliding_window_size"),
          norm(rms, before, head, 1e-6),
          differences("extent of the logits, heads and query scale by layer type"));
  add(inkling, {"inkling2_text"}, read(read_inkling2), attention(read_attention2),
      length(1'048'576), sizes(48, 48, 4608), window(by_type, 1024, {}, "sliding_window_size"),
      norm(NormKind{}, before, head, 0), value_norm(true), output_gate(per_channel));
}

}  // namespace gnomon::model::internal
