// How the weights and the config of a family are written into a GGUF file: names of tensors and
// keys. Source: the graphs of llama.cpp, src/models/*.cpp, and the code of each family.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gnomon::model::internal {

// How the elements of a tensor are arranged in the checkpoint.
enum class GgufOrder {
  as_is = 1,
  transposed,  // last two axes swapped: GPT-2's Conv1D, [in, out]
  by_head,     // rows: for each head q, k, v. In the file: all of q, of k, of v
  // GPT-OSS. MXFP4 matrices are not transposed: every second of twice as many rows.
  even_columns,   // transposed, and every second of twice as many columns: the gate
  odd_columns,    // the same from the second column on
  even_elements,  // every second of twice as many elements of a row: bias of that gate
  odd_elements,
};
enum class GgufPresence {
  required = 1,
  optional,
  // Of the output matrix "output". With tie_word_embeddings, or if it is absent, it is the
  // matrix of the embeddings. The graph
  head,  // has an output matrix: the embeddings are written a second time
  tied,  // has none: another matrix is refused
};
enum class GgufBias { optional = 1, required, none };

// A tensor. Letters of a shape, outermost axis first:
//   C width, V vocabulary, P rows of a learned table, F and G feed-forward width and twice it,
//   Q and K rows of q and k, A rows of q, k and v together, D head dimension, H heads, N key
//   heads, E experts, M width of an expert. V, P, F, E and M are the extents of the first
//   tensor that has them.
struct GgufTensorName {
  // Name in the checkpoint without .weight or .bias. {}: the layer. {e}: one tensor for each
  // index of the outermost axis.
  std::string_view checkpoint;
  // Name in the file. If it has a suffix, `checkpoint` is a whole name.
  std::string_view file;
  std::string_view shape;
  GgufOrder order = GgufOrder::as_is;
  GgufBias bias = GgufBias::optional;
  GgufPresence presence = GgufPresence::required;
};

enum class GgufKeyType { number = 1, integer, boolean };
enum class GgufKeyPresence { required = 1, optional };
// A key of the config that is copied. Names that are separated by | are alternatives.
struct GgufKey {
  std::string_view config, file;
  GgufKeyType type = GgufKeyType::number;
  GgufKeyPresence presence = GgufKeyPresence::required;
};

// A key whose value llama.cpp's graph contains. `values`: as JSON, separated by |. Values after
// the first are computed as the first, and a note says so.
struct GgufFixed {
  std::string_view key, values;
  std::string_view otherwise;  // default of the configuration class, as JSON
};

struct GgufWeights {
  std::string_view architecture = {};  // empty: the family cannot be written
  std::string_view prefix = "model.";  // of most names of tensors in the checkpoint
  std::vector<std::span<const GgufTensorName>> tensors = {};
  std::vector<std::span<const GgufKey>> keys = {};
  std::vector<GgufFixed> fixed = {};
  double norm_offset = 0;         // added to the weights of norms
  bool heads_fill_width = false;  // the graph requires heads x head_dim = width
};

// Groups of tensors and keys that families share.
namespace gguf_groups {

inline constexpr auto as_is = GgufOrder::as_is;
inline constexpr auto biased = GgufBias::required, unbiased = GgufBias::none;

inline constexpr GgufTensorName embeddings[] = {
    {"embed_tokens", "token_embd", "VC", as_is, unbiased},
    {"norm", "output_norm", "C"},
};
// Graphs that use the embeddings if there is no output matrix.
inline constexpr GgufTensorName output_or_tied[] = {
    {"lm_head", "output", "VC", as_is, unbiased, GgufPresence::optional}};
inline constexpr GgufTensorName output[] = {
    {"lm_head", "output", "VC", as_is, unbiased, GgufPresence::head}};
inline constexpr GgufTensorName always_tied[] = {
    {"lm_head", "output", "VC", as_is, unbiased, GgufPresence::tied}};
inline constexpr GgufTensorName separate_qkv[] = {
    {"layers.{}.self_attn.q_proj", "blk.{}.attn_q", "QC"},
    {"layers.{}.self_attn.k_proj", "blk.{}.attn_k", "KC"},
    {"layers.{}.self_attn.v_proj", "blk.{}.attn_v", "KC"},
    {"layers.{}.self_attn.o_proj", "blk.{}.attn_output", "CQ"},
};
inline constexpr GgufTensorName biased_qkv[] = {
    {"layers.{}.self_attn.q_proj", "blk.{}.attn_q", "QC", as_is, biased},
    {"layers.{}.self_attn.k_proj", "blk.{}.attn_k", "KC", as_is, biased},
    {"layers.{}.self_attn.v_proj", "blk.{}.attn_v", "KC", as_is, biased},
    {"layers.{}.self_attn.o_proj", "blk.{}.attn_output", "CQ", as_is, unbiased},
};
inline constexpr GgufTensorName head_norms[] = {
    {"layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", "D", as_is, unbiased},
    {"layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", "D", as_is, unbiased},
};
inline constexpr GgufTensorName row_norms[] = {
    {"layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", "Q", as_is, unbiased},
    {"layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", "K", as_is, unbiased},
};
inline constexpr GgufTensorName input_norm[] = {
    {"layers.{}.input_layernorm", "blk.{}.attn_norm", "C"}};
inline constexpr GgufTensorName feed_forward_norm[] = {
    {"layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", "C"}};
// Norms after attention and feed-forward layer.
inline constexpr GgufTensorName output_norms[] = {
    {"layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", "C"},
    {"layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", "C"},
};
inline constexpr GgufTensorName output_norm[] = {
    {"layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", "C"}};
inline constexpr GgufTensorName inner_feed_forward_norm[] = {
    {"layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", "C"}};
inline constexpr GgufTensorName gated_layer[] = {
    {"layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", "FC"},
    {"layers.{}.mlp.up_proj", "blk.{}.ffn_up", "FC"},
    {"layers.{}.mlp.down_proj", "blk.{}.ffn_down", "CF"},
};

inline constexpr GgufTensorName experts[] = {
    {"layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", "EC"},
    {"layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", "EMC", as_is, unbiased},
    {"layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", "EMC", as_is, unbiased},
    {"layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", "ECM", as_is, unbiased},
};

inline constexpr GgufTensorName biased_embeddings[] = {
    {"embed_tokens", "token_embd", "VC", as_is, unbiased},
    {"norm", "output_norm", "C", as_is, biased},
};
inline constexpr GgufTensorName biased_input_norm[] = {
    {"layers.{}.input_layernorm", "blk.{}.attn_norm", "C", as_is, biased}};
inline constexpr GgufTensorName biased_feed_forward_norm[] = {
    {"layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", "C", as_is, biased}};

// GgufFixed of gated feed-forward layers.
inline constexpr GgufFixed silu = {"hidden_act", "silu", "silu"};
inline constexpr GgufFixed gelu = {"hidden_act", "gelu_pytorch_tanh|gelu", "gelu_pytorch_tanh"};
inline constexpr GgufKey used_experts[] = {
    {"num_experts_per_tok", "expert_used_count", GgufKeyType::integer}};
// Of models whose layers are all experts.
inline constexpr GgufKey feed_forward_length[] = {
    {"intermediate_size", "feed_forward_length", GgufKeyType::integer}};
inline constexpr GgufKey rms_norm_key[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"}};
inline constexpr GgufKey layer_norm_key[] = {
    {"layer_norm_eps|layer_norm_epsilon|norm_epsilon", "attention.layer_norm_epsilon"}};

}  // namespace gguf_groups

}  // namespace gnomon::model::internal
