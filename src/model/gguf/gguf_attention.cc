// Attention settings of a GGUF file, from its keys, its tensors and the graph of its
// architecture.
#include <algorithm>
#include <string_view>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model::internal {
namespace {

void read_heads(GgufDraft& r) {
  if (const auto counts = r.file().integers(r.key("attention.head_count_kv"));
      counts && !counts->empty()) {
    r.key_heads = *std::max_element(counts->begin(), counts->end());
    if (counts->size() > 1 &&
        std::any_of(counts->begin(), counts->end(),
                    [&](std::int64_t one) { return one != 0 && one != r.key_heads; }))
      r.unsupported = "different numbers of key heads in the layers";
  }
  if (r.key_heads < 0 || (r.key_heads > 0 && r.heads % r.key_heads != 0))
    r.fail(r.key("attention.head_count_kv"), "attention.head_count_kv must divide the heads " +
                                                 std::to_string(r.heads) + ", got " +
                                                 std::to_string(r.key_heads));
  r.value_dim = r.size("attention.value_length_mla", max_count);
  if (r.value_dim == 0) r.value_dim = r.size("attention.value_length", max_count);
}

// Reads the sliding window or the chunk size, and sets the layers that use it, according to the
// graph of the architecture.
// Reads the sliding window or the chunk size, and sets the layers that use it, according to the
// graph of the architecture.
void read_window(GgufDraft& r, bool causal) {
  if (r.row->chunk != 0) {
    const std::int64_t chunk = r.size("attention.chunk_size");
    for (Layer& layer : r.layers)
      if (layer.rotates) layer.attention.chunk = chunk > 0 ? chunk : r.row->chunk;
    return;
  }
  const std::int64_t window = r.size("attention.sliding_window");
  if (window == 0) return;
  const auto is_sliding = [](const Layer& layer) { return layer.type == "sliding_attention"; };
  const bool typed = std::any_of(r.layers.begin(), r.layers.end(), is_sliding);
  const std::string_view pattern = r.row->window.pattern;
  bool any = false;
  for (Layer& layer : r.layers) {
    const auto l = static_cast<std::size_t>(layer.number);
    const bool slides = typed ? is_sliding(layer)
                        : r.row->gguf.slides == Slides::by_type
                            ? pattern[l % pattern.size()] == 's'
                            : r.row->gguf.slides == Slides::all;
    if (slides) layer.attention.left = window - 1;
    any = any || slides;
  }
  if (!any) r.unsupported = "a sliding window in unknown layers of " + r.arch;
  if (!causal) r.unsupported = "a bidirectional window of unknown width for " + r.arch;
}

void read_norms(GgufDraft& r) {
  const GgufTensor* weight = nullptr;
  for (std::int64_t layer = 0; layer < r.out.layers && !weight; ++layer)
    weight = r.file().find_tensor("blk." + std::to_string(layer) + ".attn_q_norm.weight");
  // Norms without weights have no tensor in the file.
  const Norm& facts = r.row->norm;
  r.trained_norms = facts.trained;
  if (!weight && facts.trained) return;
  LayerNorm norm{.norm = {.kind = NormKind::rms, .epsilon = 1e-6}, .order = facts.order};
  if (weight) {
    const std::string name(weight->name);
    const std::string bias = name.substr(0, name.rfind('.')) + ".bias";
    if (r.file().find_tensor(bias) || facts.kind == NormKind::layer)
      norm.norm.kind = NormKind::layer;
    if (weight->rank == 1 && weight->size() != r.head_dim)
      norm.norm.scope = NormScope::all_heads;
    if (weight->size() != r.head_dim && weight->size() != r.head_dim * r.heads)
      r.unsupported = "a norm of queries of an unknown shape";
  }
  const char* const key = norm.norm.kind == NormKind::layer
                              ? "attention.layer_norm_epsilon"
                              : "attention.layer_norm_rms_epsilon";
  norm.norm.epsilon = r.positive(key, norm.norm.epsilon);
  for (Layer& layer : r.layers)
    if (layer.rotates || !facts.rotated_only)
      layer.attention.query_norm = layer.attention.key_norm = norm;
}

}  // namespace

void read_attention(GgufDraft& r) {
  r.out.width = r.size("embedding_length", 1 << 24);
  if (r.heads == 0) return;
  read_heads(r);
  const bool encoder = r.row->visibility == Visibility::bidirectional;
  const bool causal = r.file().boolean(r.key("attention.causal")).value_or(!encoder);
  for (Layer& layer : all_layers(r))
    layer.attention.visibility = layer.part == "encoder" || (layer.part.empty() && !causal)
                                     ? Visibility::bidirectional
                                     : Visibility::causal;
  read_window(r, causal);
  read_norms(r);
  const double cap = r.not_negative("attn_logit_softcapping");
  const double softcap = cap > 0 ? cap : r.row->softcap;
  const bool sinks = std::any_of(r.layers.begin(), r.layers.end(), [&](const Layer& layer) {
    return r.file().find_tensor("blk." + std::to_string(layer.number) + ".attn_sinks.weight");
  });
  for (Layer& layer : r.layers) {
    LayerAttention& attention = layer.attention;
    if (softcap > 0) attention.softcap = softcap;
    if (sinks) attention.sinks = Sinks::per_head;
    if (r.row->value_norm)
      attention.value_norm =
          HeadNorm{.kind = NormKind::rms,
                   .epsilon = r.positive("attention.layer_norm_rms_epsilon", 1e-6)};
  }
  if (!r.row->unsupported.empty()) r.unsupported = r.row->unsupported;
}

}  // namespace gnomon::model::internal
