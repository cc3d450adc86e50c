// Checkpoint tensors of a group. The names of position parameters are in their entries.
#include <span>
#include <string>
#include <string_view>

#include "src/model/config/reading.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::model::internal {
namespace {

// Names in transformers, in the original releases of the models and in GGUF files.
constexpr CheckpointName attention_names[] = {
    {"sinks", "blk.{}.attn_sinks.weight"},
    {"query_norm.weight", "blk.{}.attn_q_norm.weight"},
    {"key_norm.weight", "blk.{}.attn_k_norm.weight"},
    {"query_norm.bias", "blk.{}.attn_q_norm.bias"},
    {"key_norm.bias", "blk.{}.attn_k_norm.bias"},
    {"rotary.alpha", "rotary_emb.alpha|lerope.alpha"},
    {"query_scale.slope",
     "layers.{}.self_attn.softmax_scaling.scale|layers.{}.attention.ssmax_scaling.s"},
    {"query_scale.offset",
     "layers.{}.self_attn.softmax_scaling.bias|layers.{}.attention.ssmax_scaling.b"},
    {"sinks", "layers.{}.self_attn.sinks|layers.{}.self_attn.attention_sink_bias"},
    {"sinks.weight", "layers.{}.self_attn.sink_proj.weight"},
    {"query_norm.weight",
     "layers.{}.self_attn.q_l2_clip.scale|"
     "layers.{}.self_attn.q_norm.weight|layers.{}.self_attn.q_layernorm.weight|"
     "layers.{}.self_attn.query_layernorm.weight|layers.{}.attn.q_norm.weight|"
     "blocks.{}.attn.q_norm.weight|layer.{}.attention.q_norm.weight|"
     "layers.{}.self_attn.q_layernorm.norms.{head}.weight"},
    {"key_norm.weight",
     "layers.{}.self_attn.k_norm.weight|layers.{}.self_attn.k_layernorm.weight|"
     "layers.{}.self_attn.key_layernorm.weight|layers.{}.attn.k_norm.weight|"
     "blocks.{}.attn.k_norm.weight|layer.{}.attention.k_norm.weight|"
     "layers.{}.self_attn.k_layernorm.norms.{head}.weight"},
    {"query_norm.bias", "layers.{}.self_attn.q_norm.bias|layers.{}.self_attn.q_layernorm.bias"},
    {"key_norm.bias", "layers.{}.self_attn.k_norm.bias|layers.{}.self_attn.k_layernorm.bias"},
};

// Keys that are values have one norm. Names in transformers, and in DeepSeek's releases.
constexpr CheckpointName shared_names[] = {
    {"sinks", "layers.{}.self_attn.sinks|layers.{}.attn.attn_sink"},
    {"key_norm.weight", "layers.{}.self_attn.kv_norm.weight|layers.{}.attn.kv_norm.weight"},
    {"compression.bias",
     "layers.{}.self_attn.compressor.position_bias|layers.{}.attn.compressor.ape"},
    {"compression.weight",
     "layers.{}.self_attn.compressor.kv_norm.weight|layers.{}.attn.compressor.norm.weight"},
    {"index.bias",
     "layers.{}.self_attn.compressor.indexer.position_bias|"
     "layers.{}.attn.indexer.compressor.ape"},
    {"index.weight",
     "layers.{}.self_attn.compressor.indexer.kv_norm.weight|"
     "layers.{}.attn.indexer.compressor.norm.weight"},
};

// Appends the tensors of a parameter, under the name `shown`.
void append(std::span<const CheckpointName> names, std::string_view parameter,
            const std::string& shown, std::vector<ParameterTensor>& tensors) {
  for (const CheckpointName& one : names)
    if (one.parameter == parameter)
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
      append(internal::tensors(one), parameter.name, shown, tensors);
    }
  const LayerAttention& attention = group.attention;
  if (attention.values == ValueSource::keys) {  // the query's norm has no weights
    const bool compressed = attention.compression.has_value();
    const bool indexed = compressed && attention.compression->index_heads > 0;
    for (const CheckpointName& one : shared_names)
      if ((compressed || !one.parameter.starts_with("compression.")) &&
          (indexed || !one.parameter.starts_with("index.")))
        append({&one, 1}, one.parameter, std::string(one.parameter), tensors);
    return tensors;
  }
  const auto add = [&](const char* parameter) {
    append(attention_names, parameter, parameter, tensors);
  };
  if (attention.frequency_scale == FrequencyScale::learned) add("rotary.alpha");
  if (attention.query_scale && attention.query_scale->form == TemperatureForm::head_log) {
    add("query_scale.slope");
    add("query_scale.offset");
  }
  if (attention.sinks == Sinks::per_head) add("sinks");
  if (attention.sinks == Sinks::per_query) add("sinks.weight");
  for (const auto& [norm, name] : {std::pair(&attention.query_norm, "query_norm"),
                                   std::pair(&attention.key_norm, "key_norm")}) {
    if (!*norm || (*norm)->weights == NormWeights::none) continue;
    if ((*norm)->weights == NormWeights::heads) {
      tensors.push_back({std::string(name) + ".weight", "layers.{}.self_attn.qk_norm.temp",
                         TensorLayout::as_is});
      continue;
    }
    for (const char* leaf : {".weight", ".bias"}) {
      const std::string parameter = std::string(name) + leaf;
      append(attention_names, parameter, parameter, tensors);
    }
  }
  return tensors;
}

}  // namespace gnomon::model::internal
