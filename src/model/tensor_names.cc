// Names of the checkpoint tensors of position and attention parameters.
#include <string>
#include <string_view>

#include "src/model/config/reading.h"

namespace gnomon::model::internal {
namespace {

struct Name {
  std::string_view kind;       // kind of the encoding, or "attention"
  std::string_view parameter;  // name in model::parameters
  std::string_view name;       // alternatives, most specific first
  TensorLayout layout = TensorLayout::as_is;
};

// Names in transformers and in the original releases of the models.
constexpr Name known[] = {
    {"learned", "table",
     "embeddings.position_embeddings.weight|embeddings.position_embedding.weight|wpe.weight|"
     "embed_positions.weight|positions_embed.weight|position_embeddings.weight|"
     "embeddings.position_embeddings|embeddings.position_embedding|pos_embed.weight|pos_embed|"
     "positional_embedding_vlm|position_embedding.weight|positional_embedding|"
     "position_embeds.weight|query_position_embeddings.weight"},
    {"t5", "buckets",
     "block.{}.layer.0.SelfAttention.relative_attention_bias.weight|"
     "block.0.layer.0.SelfAttention.relative_attention_bias.weight|"
     "relative_attention_bias.weight|rel_pos_bias.weight"},
    {"wavlm", "buckets", "layers.0.attention.rel_attn_embed.weight"},
    {"wavlm", "gate_weight", "layers.{}.attention.gru_rel_pos_linear.weight"},
    {"wavlm", "gate_bias", "layers.{}.attention.gru_rel_pos_linear.bias"},
    {"wavlm", "gate_constant", "layers.{}.attention.gru_rel_pos_const"},
    {"layout", "text", "rel_pos_bias.weight", TensorLayout::transposed},
    {"layout", "x", "rel_pos_x_bias.weight", TensorLayout::transposed},
    {"layout", "y", "rel_pos_y_bias.weight", TensorLayout::transposed},
    {"swin", "table",
     "layers.{stage}.blocks.{block}.attention.self.relative_position_bias_table|"
     "layer.{}.attention.attention.relative_position_bias.relative_position_bias_table|"
     "encoder.relative_position_bias.relative_position_bias_table"},
    {"swin_v2", "w1",
     "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.0.weight"},
    {"swin_v2", "b1",
     "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.0.bias"},
    {"swin_v2", "w2",
     "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.2.weight"},
    {"swin_v2", "logit_scale", "layers.{stage}.blocks.{block}.attention.self.logit_scale"},
    {"shaw", "keys",
     "layer.{}.attention.self.distance_embedding.weight|"
     "layers.{}.self_attn.distance_embedding.weight|wrapped_encoder.embed_positions.pe_k."
     "weight"},
    {"deberta", "embeddings", "encoder.rel_embeddings.weight"},
    {"deberta", "key",
     "layer.{}.attention.self.pos_key_proj.weight|layer.{}.attention.self.pos_proj.weight|"
     "layer.{}.attention.self.key_proj.weight"},
    {"deberta", "query",
     "layer.{}.attention.self.pos_query_proj.weight|"
     "layer.{}.attention.self.pos_q_proj.weight|layer.{}.attention.self.query_proj.weight"},
    {"deberta", "query_bias",
     "layer.{}.attention.self.pos_query_proj.bias|layer.{}.attention.self.pos_q_proj.bias|"
     "layer.{}.attention.self.query_proj.bias"},
    {"deberta", "norm_weight", "encoder.LayerNorm.weight"},
    {"deberta", "norm_bias", "encoder.LayerNorm.bias"},
    {"transformer_xl", "w",
     "layers.{}.self_attn.linear_pos.weight|layers.{}.dec_attn.r_net.weight"},
    {"transformer_xl", "w", "layer.{}.rel_attn.r", TensorLayout::flattened},
    {"transformer_xl", "u",
     "layers.{}.self_attn.pos_bias_u|layer.{}.rel_attn.r_w_bias|layers.{}.dec_attn.r_w_bias"},
    {"transformer_xl", "v",
     "layers.{}.self_attn.pos_bias_v|layer.{}.rel_attn.r_r_bias|layers.{}.dec_attn.r_r_bias"},
    {"decomposed", "height", "layers.{}.attn.rel_pos_h"},
    {"decomposed", "width", "layers.{}.attn.rel_pos_w"},
    {"rows_and_columns", "axis0", "row_embedder.weight|row_embeddings.weight"},
    {"rows_and_columns", "axis1", "column_embedder.weight|column_embeddings.weight"},
    {"rows_and_columns", "axis0", "position_embedding_table", TensorLayout::second_half},
    {"rows_and_columns", "axis1", "position_embedding_table", TensorLayout::first_half},
    {"learned", "axis0", "position_embeddings.weights.0"},
    // GGUF
    {"learned", "table", "position_embd.weight"},
    {"t5", "buckets", "blk.{}.attn_rel_b.weight|blk.0.attn_rel_b.weight"},
    {"attention", "sinks", "blk.{}.attn_sinks.weight"},
    {"attention", "query_norm.weight", "blk.{}.attn_q_norm.weight"},
    {"attention", "key_norm.weight", "blk.{}.attn_k_norm.weight"},
    {"attention", "query_norm.bias", "blk.{}.attn_q_norm.bias"},
    {"attention", "key_norm.bias", "blk.{}.attn_k_norm.bias"},
    {"learned", "axis1", "position_embeddings.weights.1"},
    {"attention", "sinks", "layers.{}.self_attn.sinks|layers.{}.self_attn.attention_sink_bias"},
    {"attention", "query_norm.weight",
     "layers.{}.self_attn.q_norm.weight|layers.{}.self_attn.q_layernorm.weight|"
     "layers.{}.self_attn.query_layernorm.weight|layers.{}.attn.q_norm.weight|"
     "blocks.{}.attn.q_norm.weight|layer.{}.attention.q_norm.weight|"
     "layers.{}.self_attn.q_layernorm.norms.{head}.weight"},
    {"attention", "key_norm.weight",
     "layers.{}.self_attn.k_norm.weight|layers.{}.self_attn.k_layernorm.weight|"
     "layers.{}.self_attn.key_layernorm.weight|layers.{}.attn.k_norm.weight|"
     "blocks.{}.attn.k_norm.weight|layer.{}.attention.k_norm.weight|"
     "layers.{}.self_attn.k_layernorm.norms.{head}.weight"},
    {"attention", "query_norm.bias",
     "layers.{}.self_attn.q_norm.bias|layers.{}.self_attn.q_layernorm.bias"},
    {"attention", "key_norm.bias",
     "layers.{}.self_attn.k_norm.bias|layers.{}.self_attn.k_layernorm.bias"},
};

void append(std::string_view kind, std::string_view parameter, const std::string& shown,
            std::vector<ParameterTensor>& tensors) {
  for (const Name& one : known)
    if (one.kind == kind && one.parameter == parameter)
      tensors.push_back({shown, std::string(one.name), one.layout});
}

}  // namespace

std::vector<ParameterTensor> tensors_of(const LayerGroup& group) {
  std::vector<ParameterTensor> tensors;
  for (const Encoding& one : group.position)
    for (const Parameter& parameter : parameters(one)) {
      std::string shown = parameter.name;
      if (group.position.size() > 1)
        shown = std::string(info(one).name).append(".").append(parameter.name);
      append(kind(one), parameter.name, shown, tensors);
    }
  const LayerAttention& attention = group.attention;
  if (attention.sinks == Sinks::per_head) append("attention", "sinks", "sinks", tensors);
  for (const auto& [norm, name] : {std::pair(&attention.query_norm, "query_norm"),
                                   std::pair(&attention.key_norm, "key_norm")}) {
    if (!*norm) continue;
    for (const char* leaf : {".weight", ".bias"}) {
      const std::string parameter = std::string(name) + leaf;
      append("attention", parameter, parameter, tensors);
    }
  }
  return tensors;
}

}  // namespace gnomon::model::internal
