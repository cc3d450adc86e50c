// Attention settings of a GGUF file, from its keys, its tensors and the graph of its
// architecture.
#include <algorithm>
#include <string_view>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model::internal {
namespace {

void put_windows(GgufDraft& r) {
  if (r.window == 0) return;
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    if (layer.type != "sliding_attention") continue;
    switch (r.row->gguf.sliding.window) {
      case GgufWindow::none:
        break;
      case GgufWindow::causal:
        attention.left = r.window - 1;
        break;
      case GgufWindow::symmetric:
        attention.left = attention.right = r.window / 2;
        if (attention.visibility == Visibility::causal) attention.right.reset();
        break;
      case GgufWindow::chunked:
        attention.chunk = r.window;
        break;
    }
  }
}

void read_norms(GgufDraft& r) {
  const std::int64_t unnormed = r.row->gguf.experts_unnormed;
  if (unnormed != 0 && r.integer("expert_count") == unnormed) return;
  const GgufTensor* weight = nullptr;
  std::int64_t head_dim = 0, heads = 0;  // of the first layer with a norm
  for (const Layer& layer : r.layers) {
    if (weight) break;
    weight =
        r.file().find_tensor("blk." + std::to_string(layer.number) + ".attn_q_norm.weight");
    head_dim = layer.head_dim ? layer.head_dim : r.head_dim;
    heads = layer.heads ? layer.heads : r.heads;
  }
  // Norms without weights have no tensor in the file.
  const Norm& facts = r.row->norm;
  if (!weight && facts.trained) return;
  LayerNorm norm{.norm = {.kind = NormKind::rms, .epsilon = 1e-6},
                 .order = facts.order,
                 .weights = facts.trained ? NormWeights::elements : NormWeights::none};
  if (weight) {
    const std::string name(weight->name);
    const std::string bias = name.substr(0, name.rfind('.')) + ".bias";
    if (r.file().find_tensor(bias) || facts.kind == NormKind::layer)
      norm.norm.kind = NormKind::layer;
    if (weight->rank == 1 && weight->size() != head_dim) norm.norm.scope = NormScope::all_heads;
    if (weight->size() != head_dim && weight->size() != head_dim * heads)
      r.unsupported = "a norm of queries of an unknown shape";
    norm.by_head = weight->rank > 1 && weight->extents[1] > 1;
  }
  const char* const key = norm.norm.kind == NormKind::layer
                              ? "attention.layer_norm_epsilon"
                              : "attention.layer_norm_rms_epsilon";
  norm.norm.epsilon = r.positive(key, norm.norm.epsilon);
  if (const double fixed = r.row->gguf.norm_epsilon; fixed > 0) norm.norm.epsilon = fixed;
  for (Layer& layer : r.layers)
    if (layer.rotates || !facts.rotated_only)
      layer.attention.query_norm = layer.attention.key_norm = norm;
}

// Returns a number that only some architectures use, or 0. A note says if it is not used.
double read_optional(GgufDraft& r, const std::string& name) {
  r.note_unread(name, 0);
  return r.reads(name) ? r.not_negative(name) : 0;
}

void read_scale(GgufDraft& r) {
  const Family& row = *r.row;
  if (row.softmax_scale > 0 && row.scale_key.empty() && row.scalar_key.empty())
    r.softmax_scale = row.softmax_scale;
  for (const char* name : {"attention.scale", "attention.output_scale"})
    if (const double scale = read_optional(r, name); scale > 0) r.softmax_scale = scale;
  if (row.gguf.scaled_by_value_dim && r.value_dim != 0)
    r.softmax_scale = inverse_sqrt(static_cast<double>(r.value_dim));
  if (row.gguf.scaled_by_head_dim) r.softmax_scale = 1 / static_cast<double>(r.head_dim);
  if (row.gguf.layers_scaled_by_width == r.out.layers) {
    const std::int64_t width = r.required("embedding_length", 1 << 24);
    r.softmax_scale = inverse_sqrt(static_cast<double>(width) / static_cast<double>(r.heads));
    r.note("27B: the softmax scale is 1 / sqrt(embedding_length / heads)");
  }
}

// Reads the query scale of Llama 4, in layers that do not rotate, or of Ministral 3, in all
// layers.
void read_temperature(GgufDraft& r) {
  const double scale = read_optional(r, "attention.temperature_scale");
  if (r.row->chunk != 0) {
    for (Layer& layer : r.layers)
      if (r.window != 0 && !layer.rotates) layer.attention.query_scale = llama4_temperature();
  } else if (scale > 0) {
    const char* const key = r.reads("attention.temperature_length")
                                ? "attention.temperature_length"
                                : "rope.scaling.original_context_length";
    std::int64_t steps = r.size(key);
    if (steps == 0 && !r.reads(key)) steps = r.out.length;
    if (steps == 0) r.fail(r.key(key) + " is missing");
    for (Layer& layer : r.layers)
      layer.attention.query_scale = ministral3_temperature(scale, steps);
  }
}

}  // namespace

void read_attention(GgufDraft& r) {
  r.out.width = r.size("embedding_length", 1 << 24);
  if (r.heads == 0) return;
  const bool encoder = r.row->visibility == Visibility::bidirectional;
  const auto given = r.file().boolean(r.key("attention.causal"));
  const bool causal = !encoder && given.value_or(true);
  if (encoder && given.value_or(false))
    r.note("attention.causal is not used: llama.cpp runs " + r.arch + " in both directions");
  // Without a cache of keys, the graphs read the numbers of the first layer only.
  const auto attends = [](const Layer& layer) { return layer.attends; };
  if (!causal && !std::all_of(r.layers.begin(), r.layers.end(), attends))
    r.note(
        "some layers have no heads and are described without attention: llama.cpp runs all "
        "layers of " +
        r.arch + " with the heads of the first");
  for (Layer& layer : all_layers(r))
    layer.attention.visibility =
        layer.part == "encoder" ||
                (!causal && (!r.row->gguf.full_is_causal || layer.type == "sliding_attention"))
            ? Visibility::bidirectional
            : Visibility::causal;
  put_windows(r);
  read_norms(r);
  read_scale(r);
  read_temperature(r);
  const double cap = read_optional(r, "attn_logit_softcapping");
  const double softcap = cap > 0 ? cap : r.row->softcap;
  const double value_scale = read_optional(r, "attention.value_scale");
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    if (softcap > 0) attention.softcap = softcap;
    if (value_scale > 0) attention.value_scale = value_scale;
    if (r.file().find_tensor("blk." + std::to_string(layer.number) + ".attn_sinks.weight"))
      attention.sinks = Sinks::per_head;
    if (r.row->value_norm)
      attention.value_norm =
          HeadNorm{.kind = NormKind::rms,
                   .epsilon = r.positive("attention.layer_norm_rms_epsilon", 1e-6)};
  }
  if (const double limit = read_optional(r, "attention.clamp_kqv"); limit > 0)
    r.note("attention.clamp_kqv: the projections are clipped, q, k and v to -" + shown(limit) +
           " to " + shown(limit));
  if (!r.row->unsupported.empty() && r.row->gguf.unsupported_by.empty())
    r.unsupported = r.row->unsupported;
}

}  // namespace gnomon::model::internal
