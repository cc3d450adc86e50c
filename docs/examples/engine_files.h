// Reads a folder of Hugging Face, config.json and `.safetensors` files, for engine.cc. The
// structure is derived from the names of tensors and from config.json. An unused tensor is an
// error.
#pragma once

#include <gnomon/io/checkpoint.h>
#include <gnomon/model/config.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine_network.h"

namespace engine {

// A folder of Hugging Face.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& path)
      : files_(std::make_shared<gnomon::io::Checkpoint>(path)),
        json_(nlohmann::json::parse(std::ifstream(path / "config.json"))) {}
  Network read() {
    const string text = json_.dump();
    net_.model = model::read_config(text);  // position
    net_.tensors.names = files_->names();
    net_.tensors.reader = [files = files_](const string& name) -> model::CheckpointTensor {
      const Numbers values = files->tensor(name).to_doubles();
      return {files->tensor(name).shape(), {values.begin(), values.end()}};
    };
    if (is("gpt2")) net_.tensors.columns_first = ".c_";
    if (is("gpt_oss")) net_.tensors.columns_first = ".experts.";
    read_routing();
    refuse_unknown(text);
    const string at = "([^.]+\\.){0,2}";
    net_.table = get(at, "embed_tokens|wte|word_embeddings|embed_in");
    net_.table_norm = get(at, "word_embeddings_layernorm");
    net_.out_norm = get(at, "norm|ln_f|norm_f|final_layer_?norm|layer_norm");
    net_.head = get(at, "lm_head|embed_out");
    net_.bare = !net_.out_norm, net_.normed_embeddings = is("nanochat");
    if (json_.contains("rms_norm_eps")) net_.norm = NormKind::rms;
    net_.epsilon = key("(rms_|layer_)?norm_eps(ilon)?", 1e-5);
    net_.norm_offset = is("(vault)?gemma.*|nemotron") ? 1.0 : 0.0;
    const string usual = is("bloom") ? "gelu_new" : "gelu";
    net_.activation = key("(hidden_)?act(ivation)?(_function)?", usual);
    if (is("gpt_oss")) net_.activation = "swiglu_oai";
    if (key("swiglu_limit", 7.0) != 7) refuse("no support for its swiglu_limit");
    const bool rooted = is("(vault)?gemma.*") || key("scale_embedding", false);
    const double root = std::sqrt(double(net_.model.width));
    net_.embedding_scale = key("embedding_multiplier|scale_emb", rooted ? root : 1.0);
    const double depth = std::sqrt(double(net_.model.layers));
    net_.residual_scale = key("residual_multiplier", key("scale_depth", depth) / depth);
    const double base =
        key("dim_model_base", double(net_.model.width)) / double(net_.model.width);
    net_.logit_scale = key("logit_scale", base) / key("logits_scaling", 1.0);
    net_.logit_cap = key("final_logit_softcapping", 0.0);
    for (ptrdiff_t l = 0; l < net_.model.layers; ++l) net_.layers.push_back(layer(l));
    return std::move(net_);
  }

 private:
  // Returns the value of the first key that matches and is not null.
  template <typename T>
  T key(const char* pattern, T otherwise) const {
    const std::regex wanted(pattern);
    for (const auto& [name, value] : json_.items())
      if (std::regex_match(name, wanted) && !value.is_null()) return value.template get<T>();
    return otherwise;
  }
  bool is(const char* type) const {
    return std::regex_match(net_.model.model_type, std::regex(type));
  }
  Weight get(const string& place, const string& what) {
    return net_.tensors.match(place + "(" + what + ")");
  }
  void refuse_unknown(const string& text) {
    const std::regex keys("\\w*(post_layernorm|qk_ln)\":true|\\w*norm_before\":false");
    if (std::smatch at; regex_search(text, at, keys)) refuse("no support for " + at.str());
    const std::regex other(string(".*(mamba|linear_attn|\\.conv|\\.attn\\.qkv_") +
                           (net_.routing.experts > 0 ? ").*" : "|experts).*"));
    for (const string& name : net_.tensors.names)
      if (std::regex_match(name, other))
        refuse("no support for " + name);
      else if (name.ends_with("attn.bias"))
        net_.tensors.used.insert(name);  // a causal mask
    net_.tensors.skip("model.layers.", net_.model.layers,
                      key("num_nextn_predict_layers", ptrdiff_t{0}));
  }
  // How experts are chosen, by families of models. Other families with experts are refused.
  struct Family {
    const char* types;
    bool sigmoid;          // scores, instead of softmax
    ptrdiff_t votes;       // of a group
    const char* sum_to_1;  // the key of the config, or empty text: always
    bool usual;            // value of that key if the config lacks it
  };
  static constexpr Family families[] = {
      {"mixtral|gpt_oss|granitemoe(shared)?|ernie4_5_moe|hunyuan_v1_moe", false, 1, "", true},
      {"minimax_m2|hy_v3", true, 1, "", true},
      {"qwen2_moe|qwen3_moe|olmoe|flex_olmo", false, 1, "norm_topk_prob", false},
      {"mellum", false, 1, "norm_topk_prob", true},
      {"deepseek_v2", false, 1, "", false},
      {"deepseek_v3|kimi_k2|glm4_moe(_lite)?|axk1|dots1|exaone_moe|solar_open", true, 2,
       "norm_topk_prob", true},
      {"mistral4", false, 2, "norm_topk_prob", true},
      {"longcat_flash", false, 1, "", false},
  };
  void read_routing() {
    Routing& routing = net_.routing;
    const auto* family = std::ranges::find_if(families, [&](auto& f) { return is(f.types); });
    if (family == std::end(families)) return;
    // A number, or a list with a number for each layer (Hunyuan).
    const auto experts = key("num_experts_per_tok(en)?|moe_topk|moe_k", nlohmann::json(0));
    routing.experts = experts.is_array() ? experts.at(0).get<ptrdiff_t>() : ptrdiff_t(experts);
    for (const auto& one : experts.is_array() ? experts : nlohmann::json::array())
      if (one != routing.experts) refuse("no support for its number of experts");
    routing.sigmoid = family->sigmoid;
    const string usual = routing.sigmoid ? "sigmoid" : "softmax";
    if (const string function = key("scoring_func", usual); function != usual)
      refuse("no support for scoring_func " + function);
    routing.votes = family->votes;
    routing.shares_sum_to_1 = key(family->sum_to_1, family->usual);
    routing.scale = key("route(d|r)_scaling_factor", 1.0);
    routing.groups = key("n_group", ptrdiff_t{1});
    routing.best_groups = key("topk_group", ptrdiff_t{1});
    if (is("deepseek_v2")) {  // its code does not read norm_topk_prob
      const string method = key("topk_method", string("greedy"));
      if (method == "greedy") routing.groups = routing.best_groups = 1;
      if (method != "greedy" && method != "group_limited_greedy")
        refuse("no support for topk_method " + method);
    }
  }
  Mixture mixture(const string& at) {
    Tensors& tensors = net_.tensors;
    const string inside = at + "(mlp|block_sparse_moe)\\.";
    const string router =
        tensors.find(inside + "(gate|router)(\\.(wg|layer|classifier|gate))?");
    if (router.empty() || net_.routing.experts < 1) return {};
    Mixture mixture{.router = tensors.get(router)};
    mixture.bias = get(inside, ".*e_score_correction_bias|expert_bias");
    const GateRows rows = is("gpt_oss") ? GateRows::even : GateRows::first;
    if (const Weight up = get(inside, "experts\\.gate_up_proj|input_linear")) {
      mixture.split(&Mlp::up, up);
      mixture.split(&Mlp::down, get(inside, "experts\\.down_proj|output_linear"));
    }
    // Names of the matrices of an expert: Mixtral's, or those of an MLP.
    std::smatch place;
    std::regex_search(router, place, std::regex(".*(mlp|block_sparse_moe)\\."));
    for (ptrdiff_t e = std::ssize(mixture.experts); e < mixture.router.rows; ++e) {
      const string expert = place.str() + "experts." + std::to_string(e) + ".";
      const bool mixtral = tensors.has(expert + "w1.weight");
      mixture.experts.push_back({tensors.get(expert + (mixtral ? "w1" : "gate_proj")),
                                 tensors.get(expert + (mixtral ? "w3" : "up_proj")),
                                 tensors.get(expert + (mixtral ? "w2" : "down_proj"))});
    }
    // LongCat's last experts are the identity.
    ptrdiff_t identities = 0;
    for (Mlp& expert : mixture.experts)
      if (expert.down)
        expert.split_gate(rows);
      else
        expert = {}, ++identities;
    if (identities != key("zero_expert_num", ptrdiff_t{0}))
      refuse("no support for its number of experts");
    const string shared = at + "(mlp\\.)?shared_(experts?|mlp)\\.";
    mixture.shared.gate = get(shared, "gate_proj");
    mixture.shared.up = get(shared, "up_proj|input_linear");
    mixture.shared.down = get(shared, "down_proj|output_linear");
    mixture.shared.split_gate();
    mixture.shared_gate = get(at, "mlp\\.shared_expert_gate");
    return mixture;
  }
  Layer layer(ptrdiff_t l) {
    // LongCat: two layers have one number.
    const bool halves = is("longcat_flash");
    const string half = halves ? "\\." + std::to_string(l % 2) : "";
    const string at =
        "(.*\\.)?(layers|h|blocks)\\." + std::to_string(halves ? l / 2 : l) + "\\.";
    Layer layer;
    layer.norm =
        get(at, "((input|attention|self_attn)_layer_?norm|ln_1|norm_1|ln_attn)" + half);
    const bool split = !!get(at, "ln_mlp");
    layer.mlp_norm = get(at, "((pre_)?feedforward|final)_layer_?norm|ln_2|norm_2|ln_mlp");
    // post_attention_layernorm is either the last step of attention, or before the MLP.
    const bool last = !layer.norm || layer.mlp_norm;
    layer.out_norm = get(at, last ? "post_attention_layernorm" : "post_self_attn_layernorm");
    if (!last) layer.mlp_norm = get(at, "post_attention_layernorm" + half);
    layer.mlp_out_norm = get(at, "(mlp\\.)?post_(feedforward|mlp)_layernorm");
    layer.shared_norm = !layer.mlp_norm && !layer.out_norm && !net_.bare;
    layer.parallel = layer.shared_norm || split || key("use_parallel_residual", is("gpt_neox"));

    const string inside = at + "[^.]*att.*" + half + "\\.";
    layer.query = get(inside, "q_proj|q_a_proj");
    layer.key = get(inside, "k_proj|kv_a_proj_with_mqa");
    layer.value = get(inside, "v_proj");
    layer.query_norm = get(inside, "q_a_layernorm");
    layer.query_up = get(inside, "q_b_proj");
    layer.key_norm = get(inside, "kv_a_layernorm");
    layer.key_up = get(inside, "kv_b_proj");
    if (halves) {
      const double factor = std::sqrt(double(net_.model.width) / double(layer.key_norm.rows));
      for (float& weight : layer.key_norm.values) weight *= float(factor);
    }
    if (!layer.query) {  // fused: all heads of q, k and v, or those of each key head
      const auto& group = group_of(net_.model, l);
      const Weight groups = get(inside, "query_key_value");
      const bool grouped = groups || !key("multi_query", true);
      layer.split(groups ? groups : get(inside, "qkv_proj|Wqkv|c_attn"),
                  grouped ? group.key_heads : 1, group);
    }
    layer.out = get(inside, "o_proj|out_proj|dense|c_proj");
    const string mlp = at + "((mlps?|ffn|feed_forward)" + half + "\\.)?";
    layer.mlp.gate = get(mlp, "gate_proj");
    layer.mlp.up = get(mlp, "up_proj|fc1|c_fc|fc_in|dense_h_to_4h|gate_up_proj");
    layer.mlp.down = get(mlp, "down_proj|fc2|c_proj|fc_out|dense_4h_to_h");
    layer.mlp.split_gate();
    if (!halves || l % 2 == 0) layer.mixture = mixture(at);
    return layer;
  }

  std::shared_ptr<gnomon::io::Checkpoint> files_;
  nlohmann::json json_;
  Network net_;
};

}  // namespace engine
