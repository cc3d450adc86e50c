// Reads a GGUF file for engine.cc. The structure is derived from the names of tensors and from
// general.architecture. An unused tensor is an error.
#pragma once

#include <gnomon/model/gguf_files.h>
#include <gnomon/model/gguf_model.h>

#include <filesystem>
#include <memory>

#include "engine_network.h"

namespace engine {

// A GGUF file.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path)
      : files_(std::make_shared<model::GgufFiles>(path)), gguf_(files_->gguf()) {}
  Network read() {
    net_.model = model::read_gguf(gguf_);  // position
    net_.context = 0;
    for (const auto& tensor : gguf_.tensors()) net_.tensors.names.emplace_back(tensor.name);
    std::ranges::sort(net_.tensors.names);
    net_.tensors.reader = [files = files_](const string& name) {
      const model::GgufTensor& tensor = *files->gguf().find_tensor(name);
      const Numbers values = files->gguf().values(tensor);
      model::CheckpointTensor read{{}, {values.begin(), values.end()}};
      for (auto axis = tensor.rank; axis-- > 0;) read.shape.push_back(tensor.extents[axis]);
      return read;
    };
    // Parts of the frequencies, which the description contains.
    for (const char* name : {"rope_freqs", "rope_factors_short", "rope_factors_long"})
      net_.tensors.used.insert(string(name) + ".weight");
    net_.tensors.skip("blk.", net_.model.layers, integer("nextn_predict_layers", 0));
    read_structure();
    read_routing();
    net_.table = net_.tensors.get("token_embd");
    net_.table_norm = net_.tensors.get("token_embd_norm");
    net_.out_norm = net_.tensors.get("output_norm");
    net_.head = net_.tensors.get("output");
    net_.bare = !net_.out_norm;
    for (ptrdiff_t l = 0; l < net_.model.layers; ++l) net_.layers.push_back(layer(l));
    return std::move(net_);
  }

 private:
  // What the file does not contain: the norm and the activation of an architecture. llama.cpp
  // has one GELU, that with tanh.
  struct Structure {
    const char* architectures;
    NormKind norm;
    const char* activation;
  };
  static constexpr Structure structures[] = {
      {"llama|mistral3|qwen2|qwen3|phi3|smollm3|olmo2|granite|exaone|exaone4|internlm2|xverse|"
       "baichuan|seed_oss|ernie4_5|glm4|refact|qwen|chatglm|plamo|hunyuan-dense|qwen3moe|olmoe|"
       "granitemoe|deepseek|deepseek2|minicpm3|qwen2moe|glm4moe|ernie4_5-moe|dots1|hunyuan-moe|"
       "exaone-moe|minimax-m2|bailingmoe2|mistral4|mellum",
       NormKind::rms, "silu"},
      {"gpt-oss", NormKind::rms, "swiglu_oai"},
      {"gemma|gemma2|gemma3", NormKind::rms, "gelu_half"},
      {"stablelm|command-r|cohere2|olmo|orion|jais", NormKind::layer, "silu"},
      {"gpt2|gptneox|bloom|mpt|falcon|starcoder|starcoder2|codeshell|phi2", NormKind::layer,
       "gelu_half"},
      {"arcee", NormKind::rms, "relu2"},
      {"nemotron", NormKind::layer, "relu2"},
  };
  void read_structure() {
    for (const auto& [architectures, norm, activation] : structures)
      if (is(architectures)) net_.norm = norm, net_.activation = activation;
    if (net_.activation.empty()) refuse("no support for " + net_.model.model_type);
    const bool rms = net_.norm == NormKind::rms;
    net_.epsilon =
        number(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               net_.epsilon);
    if (is("gemma.*")) net_.embedding_scale = std::sqrt(double(net_.model.width));
    if (is("gemma2|gemma3"))
      net_.logit_cap = number("final_logit_softcapping", is("gemma2") ? 30 : 0);
    if (is("command-r|cohere2")) net_.logit_scale = number("logit_scale", 1.0);
    const auto width = double(net_.model.width);
    if (is("minicpm3")) {  // constants of llama.cpp
      net_.embedding_scale = 12;
      net_.residual_scale = 1.4 / std::sqrt(double(net_.model.layers));
      net_.logit_scale = 256 / width;
    }
    if (!is("granite(moe)?")) return;
    net_.embedding_scale = number("embedding_scale", 1.0);
    net_.residual_scale = number("residual_scale", 1.0);
    net_.logit_scale = 1 / number("logit_scale", 1.0);
  }
  // How experts are chosen, as in llama.cpp: only some architectures read the keys for it. The
  // score of a group is the sum of its two best.
  void read_routing() {
    Routing& routing = net_.routing;
    routing.experts = integer("expert_used_count", 0);
    const bool reads = is("deepseek2|mistral4|glm4moe|dots1|exaone-moe|bailingmoe2");
    const ptrdiff_t function = integer("expert_gating_func", is("glm4moe|exaone-moe") ? 2 : 1);
    if (function != 1 && function != 2)
      refuse("no support for expert_gating_func " + std::to_string(function));
    routing.sigmoid = function == 2 && (reads || is("minimax-m2"));
    const auto sum_to_1 = gguf_.boolean(net_.model.model_type + ".expert_weights_norm");
    routing.shares_sum_to_1 = reads ? sum_to_1.value_or(false) : !is("olmoe|qwen2moe|deepseek");
    if (reads || is("deepseek")) routing.scale = number("expert_weights_scale", 1.0);
    routing.groups = std::max<ptrdiff_t>(1, integer("expert_group_count", 1));
    routing.best_groups = routing.groups > 1 ? integer("expert_group_used_count", 1) : 1;
    routing.votes = 2;
  }
  double number(const string& key, double otherwise) const {
    return gguf_.number(net_.model.model_type + "." + key).value_or(otherwise);
  }
  ptrdiff_t integer(const string& key, ptrdiff_t otherwise) const {
    return gguf_.integer(net_.model.model_type + "." + key).value_or(otherwise);
  }
  bool is(const char* architectures) const {
    return std::regex_match(net_.model.model_type, std::regex(architectures));
  }
  Layer layer(ptrdiff_t l) {
    const auto get = [&](const char* name) {
      return net_.tensors.get("blk." + std::to_string(l) + "." + name);
    };
    Layer layer{.norm = get("attn_norm"),
                .query = get("attn_q"),
                .key = get("attn_k"),
                .value = get("attn_v"),
                .out = get("attn_output"),
                .out_norm = get("post_attention_norm"),
                .mlp_norm = get("ffn_norm"),
                .mlp_out_norm = get("post_ffw_norm"),
                .mlp = {get("ffn_gate"), get("ffn_up"), get("ffn_down")},
                .mixture = {}};
    const auto parallel = gguf_.boolean("gptneox.use_parallel_residual");
    Mixture& mixture = layer.mixture;
    mixture.router = get("ffn_gate_inp");
    mixture.bias = get("exp_probs_b.bias");
    if (mixture.router) {
      mixture.split(&Mlp::gate, get("ffn_gate_exps"));
      const Weight fused = get("ffn_gate_up_exps");
      mixture.split(&Mlp::up, fused ? fused : get("ffn_up_exps"));
      mixture.split(&Mlp::down, get("ffn_down_exps"));
    }
    for (Mlp& expert : mixture.experts) expert.split_gate();
    mixture.shared = {get("ffn_gate_shexp"), get("ffn_up_shexp"), get("ffn_down_shexp")};
    mixture.shared_gate = get("ffn_gate_inp_shexp").transposed();
    if (const Weight key = get("attn_kv_a_mqa")) {
      layer.key = key;
      if (!layer.query) layer.query = get("attn_q_a");
      layer.query_norm = get("attn_q_a_norm");
      layer.query_up = get("attn_q_b");
      layer.key_norm = get("attn_kv_a_norm");
      layer.key_up = get("attn_kv_b");
      net_.latent_epsilon = net_.epsilon;
      // Newer files: a tensor for keys, with transposed matrices, and a tensor for values.
      const ptrdiff_t H = group_of(net_.model, l).heads;
      const Weight keys = get("attn_k_b").transposed(H), values = get("attn_v_b");
      for (ptrdiff_t h = 0; h < (keys && values ? H : 0); ++h)
        for (const Weight* of : {&keys, &values})
          layer.key_up.append(*of, h * of->rows / H, (h + 1) * of->rows / H);
    }
    // gpt-oss and Seed-OSS: the norm before the MLP.
    if (!layer.mlp_norm && !layer.mlp_out_norm) std::swap(layer.mlp_norm, layer.out_norm);
    Weight attention_norm = get("attn_norm_2");  // Falcon: then attn_norm belongs to the MLP
    const bool split = !!attention_norm;
    if (split) layer.mlp_norm = std::exchange(layer.norm, std::move(attention_norm));
    layer.shared_norm = !layer.mlp_norm && !layer.out_norm && !net_.bare;
    layer.parallel = layer.shared_norm || split || (is("gptneox") && parallel.value_or(true));
    if (!layer.query) layer.split(get("attn_qkv"), 1, group_of(net_.model, l));
    layer.mlp.split_gate();
    return layer;
  }

  std::shared_ptr<model::GgufFiles> files_;
  const model::Gguf& gguf_;
  Network net_;
};

}  // namespace engine
