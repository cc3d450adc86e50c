// Attention settings of a GGUF file, from its keys, its tensors and the graph of its
// architecture.
#include <algorithm>
#include <string_view>

#include "src/model/gguf_draft.h"

namespace gnomon::model::internal {
namespace {

bool is_one_of(std::string_view arch, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), arch) != names.end();
}

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
  r.value_dim = r.size("attention.value_length_mla", 1 << 16);
  if (r.value_dim == 0) r.value_dim = r.size("attention.value_length", 1 << 16);
}

// Reads the sliding window or the chunk size, and sets the layers that use it, according to the
// graph of the architecture.
void read_window(GgufDraft& r) {
  const std::int64_t window = r.size("attention.sliding_window");
  if (r.arch == "llama4") {
    const std::int64_t chunk = r.size("attention.chunk_size");
    r.attention.chunk = chunk > 0 ? chunk : 8192;
    for (Layer& layer : r.layers)
      layer.type = layer.rotates ? "chunked_attention" : "full_attention";
    return;
  }
  if (window == 0) return;
  r.left = window - 1;
  const bool typed = std::any_of(r.layers.begin(), r.layers.end(), [](const Layer& layer) {
    return layer.type == "sliding_attention";
  });
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    if (typed)
      layer.slides = layer.type == "sliding_attention";
    else if (is_one_of(r.arch, {"gemma2", "gpt-oss"}))
      layer.slides = l % 2 == 0;
    else if (is_one_of(r.arch, {"llama", "mistral3", "phi3", "starcoder2", "qwen2vl"}))
      layer.slides = true;
  }
  const bool slides = std::any_of(r.layers.begin(), r.layers.end(),
                                  [](const Layer& layer) { return layer.slides; });
  if (!slides) r.unsupported = "a sliding window in unknown layers of " + r.arch;
}

void read_norms(GgufDraft& r) {
  const GgufTensor* weight = nullptr;
  std::int64_t layer = 0;
  for (; layer < r.out.layers && !weight; ++layer)
    weight = r.file().find_tensor("blk." + std::to_string(layer) + ".attn_q_norm.weight");
  // Norms without weights have no tensor in the file.
  const bool bare = r.arch == "llama4" || r.arch == "nanochat";
  if (!weight && !bare) return;
  LayerNorm norm{.norm = {.kind = NormKind::rms, .epsilon = 1e-6},
                 .order = bare || r.arch == "hunyuan-dense" || r.arch == "hunyuan-moe"
                              ? NormOrder::after_rotation
                              : NormOrder::before_rotation};
  if (weight) {
    const std::string name(weight->name);
    const std::string bias = name.substr(0, name.rfind('.')) + ".bias";
    if (r.file().find_tensor(bias) || is_one_of(r.arch, {"command-r", "stablelm", "chameleon"}))
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
  r.attention.query_norm = r.attention.key_norm = norm;
  r.trained_norms = !bare;
  if (bare)
    for (Layer& one : r.layers) one.normalises = one.rotates;
}

}  // namespace

void read_attention(GgufDraft& r) {
  r.layers.resize(static_cast<std::size_t>(r.out.layers));
  r.out.width = r.size("embedding_length", 1 << 24);
  if (r.heads == 0) return;
  read_heads(r);
  const bool encoder =
      is_one_of(r.arch, {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3",
                         "neo-bert", "modern-bert", "t5encoder"});
  if (!r.file().boolean(r.key("attention.causal")).value_or(!encoder))
    r.attention.visibility = Visibility::bidirectional;
  read_window(r);
  read_norms(r);
  if (const double cap = r.not_negative("attn_logit_softcapping"); cap > 0)
    r.attention.softcap = cap;
  else if (r.arch == "gemma2")
    r.attention.softcap = 50;
  else if (r.arch == "grok")
    r.attention.softcap = 30;
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    if (r.file().find_tensor("blk." + std::to_string(l) + ".attn_sinks.weight"))
      r.attention.sinks = Sinks::per_head;
  if (is_one_of(r.arch, {"gemma3n", "gemma4"}))
    r.attention.value_norm = HeadNorm{
        .kind = NormKind::rms, .epsilon = r.positive("attention.layer_norm_rms_epsilon", 1e-6)};
  if (is_one_of(r.arch, {"deepseek32", "glm-dsa"}))
    r.unsupported = "an indexer that selects the keys of each query";
  if (r.attention.visibility == Visibility::bidirectional && r.left)
    r.unsupported = "a bidirectional window of unknown width for " + r.arch;
}

}  // namespace gnomon::model::internal
