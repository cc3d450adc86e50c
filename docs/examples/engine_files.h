// Files of language models for engine.cc: a folder of config.json and `.safetensors` files, or
// a GGUF file. Both become a `Network`. The structure is derived from the names of tensors, and
// from config.json or general.architecture. An unused tensor is an error.
#pragma once

#include <gnomon/attention/qk_norm.h>
#include <gnomon/io/checkpoint.h>
#include <gnomon/model/config.h>
#include <gnomon/model/gguf_files.h>
#include <gnomon/model/gguf_model.h>
#include <gnomon/model/layer.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>

namespace engine {

using Numbers = std::vector<double>;
using std::ptrdiff_t, std::string, gnomon::NormKind;
namespace model = gnomon::model;
[[noreturn]] inline void refuse(const string& what) { throw std::invalid_argument(what); }

// A matrix [rows, columns] or a vector [rows], with an optional bias [rows]. No rows: no
// tensor.
struct Weight {
  ptrdiff_t rows = 0, columns = 0;
  std::vector<float> values = {}, bias = {};
  explicit operator bool() const { return rows > 0; }
  Numbers operator*(const Numbers& x) const {  // [T, columns] to [T, rows]
    if (!rows || std::ssize(x) % columns != 0) refuse("no support for its projections");
    Numbers y(std::ssize(x) / columns * rows);
    for (ptrdiff_t i = 0; i < std::ssize(y); ++i) {
      const float* row = &values[i % rows * columns];
      const double start = bias.empty() ? 0.0 : double{bias[i % rows]};
      y[i] = std::inner_product(row, row + columns, &x[i / rows * columns], start);
    }
    return y;
  }
  // Appends rows of another matrix.
  void append(const Weight& from, ptrdiff_t begin, ptrdiff_t end) {
    columns = from.columns, rows += end - begin;
    const auto copy = [&](auto& to, auto& of, ptrdiff_t width) {
      to.insert(to.end(), of.begin() + begin * width, of.begin() + end * width);
    };
    copy(values, from.values, columns);
    if (!from.bias.empty()) copy(bias, from.bias, 1);
  }
};

// The tensors of a checkpoint. `used`: names of those that were read.
struct Tensors {
  std::vector<string> names;  // sorted
  std::function<model::CheckpointTensor(const string&)> reader;
  string columns_first = {};  // part of the names of matrices stored as [columns, rows]
  std::set<string> used = {};

  model::CheckpointTensor read(const string& name) {
    used.insert(name);
    return reader(name);
  }
  bool has(const string& name) const { return std::ranges::binary_search(names, name); }
  // Returns the first tensor whose name matches `pattern` and ".weight", with its bias.
  Weight match(const string& pattern) {
    const std::regex re("(" + pattern + ")\\.weight");
    const auto name = std::ranges::find_if(names, [&](auto& n) { return regex_match(n, re); });
    return name == names.end() ? Weight() : get(name->substr(0, name->size() - 7));
  }
  // Returns the tensors `module`.weight and `module`.bias.
  Weight get(const string& module) {
    if (!has(module + ".weight")) return {};
    const auto [shape, values] = read(module + ".weight");
    if (values.empty() || shape.empty()) refuse("no support for the empty tensor " + module);
    const ptrdiff_t columns = shape.size() > 1 ? shape.back() : 1;
    Weight weight{std::ssize(values) / columns, columns, values};
    if (!columns_first.empty() && module.find(columns_first) != string::npos) {
      std::swap(weight.rows, weight.columns);
      for (ptrdiff_t i = 0; i < std::ssize(values); ++i)
        weight.values[i % weight.rows * weight.columns + i / weight.rows] = values[i];
    }
    if (!has(module + ".bias")) return weight;
    weight.bias = read(module + ".bias").values;
    if (std::ssize(weight.bias) != weight.rows) refuse("no support for the bias of " + module);
    return weight;
  }
};

struct Mlp {
  Weight gate, up, down;
  // Splits a fused projection: the rows of the gate, followed by those of up.
  void split_gate() {
    if (gate || up.rows != 2 * down.columns) return;
    const Weight fused = std::exchange(up, {});
    gate.append(fused, 0, fused.rows / 2);
    up.append(fused, fused.rows / 2, fused.rows);
  }
};

struct Layer {
  Weight norm, query, key, value, out, out_norm;  // out_norm: after attention
  Weight mlp_norm, mlp_out_norm;
  Mlp mlp;
  Weight router;  // scores of the experts, if the MLP is a mixture
  std::vector<Mlp> experts;
  bool parallel = false;     // attention and MLP have the same input
  bool shared_norm = false;  // and the same norm

  // Splits a fused projection of `parts`, each with its query, key and value heads.
  void split(const Weight& fused, ptrdiff_t parts, const model::LayerGroup& group) {
    const ptrdiff_t D = group.head_dim, heads = group.heads;
    if (parts < 1 || D < 1 || heads < parts) refuse("no support for its heads");
    const ptrdiff_t q = heads / parts, k = group.key_heads / parts;
    for (ptrdiff_t i = 0; i < fused.rows / D; ++i) {
      const ptrdiff_t head = i % (q + 2 * k);
      Weight& to = head < q ? query : head < q + k ? key : value;
      to.append(fused, i * D, (i + 1) * D);
    }
  }
};

// A decoder-only language model.
struct Network {
  Tensors tensors;
  model::ModelDescription model = {};
  Weight table, table_norm, out_norm, head;  // no head: the table
  std::vector<Layer> layers = {};
  NormKind norm = NormKind::layer;
  double epsilon = 1e-5, norm_offset = 0;        // of norms; the offset is added to weights
  bool bare = false, normed_embeddings = false;  // bare: norms have no weights
  string activation = {};
  ptrdiff_t experts = 0;        // of a mixture, used for each token
  bool shares_sum_to_1 = true;  // of these experts; otherwise those of all experts
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1, logit_cap = 0;
  // Context for which the frequencies are resolved, as in llama.cpp (0: the training length).
  // Nothing: all tokens so far, as in transformers.
  std::optional<ptrdiff_t> context = {};
};

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
    const bool rooted = is("(vault)?gemma.*") || key("scale_embedding", false);
    const double root = std::sqrt(double(net_.model.width));
    net_.embedding_scale = key("embedding_multiplier", rooted ? root : 1.0);
    net_.residual_scale = key("residual_multiplier", 1.0);
    net_.logit_scale = key("logit_scale", 1.0) / key("logits_scaling", 1.0);
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
    const std::regex other(".*(experts|kv_a_proj|mamba|linear_attn|\\.conv|\\.attn\\.qkv_).*");
    for (const string& name : net_.tensors.names)
      if (std::regex_match(name, other))
        refuse("no support for " + name);
      else if (name.ends_with("attn.bias"))
        net_.tensors.used.insert(name);  // a causal mask
  }
  Layer layer(ptrdiff_t l) {
    const string at = "(.*\\.)?(layers|h|blocks)\\." + std::to_string(l) + "\\.";
    Layer layer;
    layer.norm = get(at, "(input|attention|self_attn)_layer_?norm|ln_1|norm_1|ln_attn");
    const bool split = !!get(at, "ln_mlp");
    layer.mlp_norm = get(at, "((pre_)?feedforward|final)_layer_?norm|ln_2|norm_2|ln_mlp");
    // post_attention_layernorm is either the last step of attention, or before the MLP.
    const bool last = !layer.norm || layer.mlp_norm;
    layer.out_norm = get(at, last ? "post_attention_layernorm" : "post_self_attn_layernorm");
    if (!last) layer.mlp_norm = get(at, "post_attention_layernorm");
    layer.mlp_out_norm = get(at, "post_(feedforward|mlp)_layernorm");
    layer.shared_norm = !layer.mlp_norm && !layer.out_norm && !net_.bare;
    layer.parallel = layer.shared_norm || split || key("use_parallel_residual", is("gpt_neox"));

    const string inside = at + "[^.]*att.*\\.";
    layer.query = get(inside, "q_proj");
    layer.key = get(inside, "k_proj");
    layer.value = get(inside, "v_proj");
    if (!layer.query) {  // fused: all heads of q, k and v, or those of each key head
      const auto& group = group_of(net_.model, l);
      const Weight groups = get(inside, "query_key_value");
      const bool grouped = groups || !key("multi_query", true);
      layer.split(groups ? groups : get(inside, "qkv_proj|Wqkv|c_attn"),
                  grouped ? group.key_heads : 1, group);
    }
    layer.out = get(inside, "o_proj|out_proj|dense|c_proj");
    const string mlp = at + "((mlp|ffn|feed_forward)\\.)?";
    layer.mlp.gate = get(mlp, "gate_proj");
    layer.mlp.up = get(mlp, "up_proj|fc1|c_fc|fc_in|dense_h_to_4h|gate_up_proj");
    layer.mlp.down = get(mlp, "down_proj|fc2|c_proj|fc_out|dense_4h_to_h");
    layer.mlp.split_gate();
    return layer;
  }

  std::shared_ptr<gnomon::io::Checkpoint> files_;
  nlohmann::json json_;
  Network net_;
};

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
    read_structure();
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
       "granitemoe",
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
    net_.experts = gguf_.integer(net_.model.model_type + ".expert_used_count").value_or(0);
    net_.shares_sum_to_1 = !is("olmoe");
    if (!is("granite(moe)?")) return;
    net_.embedding_scale = number("embedding_scale", 1.0);
    net_.residual_scale = number("residual_scale", 1.0);
    net_.logit_scale = 1 / number("logit_scale", 1.0);
  }
  double number(const string& key, double otherwise) const {
    return gguf_.number(net_.model.model_type + "." + key).value_or(otherwise);
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
                .router = get("ffn_gate_inp"),
                .experts = {}};
    const auto parallel = gguf_.boolean("gptneox.use_parallel_residual");
    for (ptrdiff_t e = 0; e < layer.router.rows; ++e) layer.experts.push_back({});
    for (const auto& [name, part] : {std::pair("ffn_gate_exps", &Mlp::gate),
                                     {"ffn_up_exps", &Mlp::up},
                                     {"ffn_down_exps", &Mlp::down}}) {
      const Weight all = layer.router ? get(name) : Weight();
      const ptrdiff_t E = layer.router.rows, rows = E > 0 ? all.rows / E : 0;
      for (ptrdiff_t e = 0; e < E; ++e)
        (layer.experts[e].*part).append(all, e * rows, (e + 1) * rows);
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
