// Runs a decoder-only language model from a folder of Hugging Face files: the prompt in one
// forward pass, then greedy decoding with a cache of keys and values.
//
//   engine FOLDER [--steps N] [--logits FILE.npy] ID ID ID ...
//
// Prints the new token ids. --logits writes one row for each token of the prompt and one for
// each new token. The structure follows from the names of the tensors and from config.json. A
// tensor that is not used is an error: no model runs in part. Lines about position are marked.
#include <gnomon/io/checkpoint.h>
#include <gnomon/io/npy.h>
#include <gnomon/model/config.h>
#include <gnomon/model/layer.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>

using Json = nlohmann::json;
using Numbers = std::vector<double>;
using View = gnomon::View<double, 4>;
using std::ptrdiff_t, std::string;
namespace model = gnomon::model;

[[noreturn]] void refuse(const string& what) { throw std::invalid_argument(what); }

// A matrix [rows, columns] or a vector [rows], with a bias [rows] or none. No rows: no tensor.
struct Weight {
  ptrdiff_t rows = 0, columns = 0;
  std::vector<float> values = {}, bias = {};

  explicit operator bool() const { return rows > 0; }
  Numbers operator*(const Numbers& x) const {  // [T, columns] to [T, rows]
    if (!rows || std::ssize(x) % columns != 0)
      refuse("no support for projections of this model");
    Numbers y(std::ssize(x) / columns * rows);
    for (ptrdiff_t i = 0; i < std::ssize(y); ++i) {
      const float* row = &values[i % rows * columns];
      const double start = bias.empty() ? 0.0 : double{bias[i % rows]};
      y[i] = std::inner_product(row, row + columns, &x[i / rows * columns], start);
    }
    return y;
  }
};

class Engine {
 public:
  explicit Engine(const std::filesystem::path& folder)
      : files_(folder),
        names_(files_.names()),
        unused_(names_.begin(), names_.end()),
        json_(Json::parse(std::ifstream(folder / "config.json"))),
        model_(model::read_config(json_.dump())),                                 // position
        plan_(model_, {names_, [&](const string& name) { return read(name); }}),  // position
        caches_(model_.layers) {
    json_ = Json(json_.value("text_config", json_));
    if (key("apply_residual_connection_post_layernorm", false) || key("clip_qkv", 0.0) > 0)
      refuse("no support for apply_residual_connection_post_layernorm and clip_qkv");
    const std::regex first("(.*?)(layers|h|blocks)\\.0\\..*");
    const std::regex other(".*(experts|kv_a_proj|mamba|linear_attn|\\.conv|\\.attn\\.qkv_).*");
    for (const string& name : names_) {
      if (std::regex_match(name, other)) refuse("no support for the tensor " + name);
      if (std::smatch at; std::regex_match(name, at, first))
        root_ = at[1], stack_ = at[1].str() + at[2].str() + ".";
    }
  }

  // The logits [T, V] of the next T tokens.
  Numbers forward(const std::vector<ptrdiff_t>& ids) {
    const Weight& embedding = get(root_, "embed_tokens|wte|word_embeddings|embed_in");
    const Weight& norm_in = get(root_, "word_embeddings_layernorm");
    const Weight& norm_out = get(root_, "norm|ln_f|norm_f|final_layer_?norm|layer_norm");
    const Weight& head = get("", "lm_head|embed_out");
    const ptrdiff_t T = std::ssize(ids), C = embedding.columns;
    const bool rooted = is("(vault)?gemma[23]?(_text)?") || key("scale_embedding", false);
    const double scale = key("embedding_multiplier", rooted ? std::sqrt(double(C)) : 1.0);
    if (C != model_.width || *std::max_element(ids.begin(), ids.end()) >= embedding.rows)
      refuse("no support for embeddings of this width or a token of this id");
    Numbers x(T * C);
    for (ptrdiff_t i = 0; i < T * C; ++i)
      x[i] = scale * embedding.values[ids[i / C] * C + i % C];
    const auto now = gnomon::consecutive(T, past_);                                  // position
    plan_.set_tokens({.queries = {&now, 1}, .cached = past_, .length = past_ + T});  // position
    add_position(plan_.layer(0), gnomon::View<double, 3>(x.data(), {1, T, C}));      // position
    bare_ = !norm_out;
    if (norm_in || is("nanochat")) x = norm(x, norm_in);
    for (ptrdiff_t l = 0; l < model_.layers; ++l) run_layer(l, x);
    past_ += T;
    x = (head ? head : embedding) * norm(x, norm_out);
    const double factor = key("logit_scale", 1.0) / key("logits_scaling", 1.0);
    const double cap = key("final_logit_softcapping", 0.0);
    for (double& one : x) one = cap > 0 ? cap * std::tanh(factor * one / cap) : factor * one;
    for (const string& name : unused_)
      if (!name.ends_with("attn.bias")) refuse("no support for the tensor " + name);
    return x;
  }

 private:
  // The value of the first key that matches and is not null.
  template <typename T>
  T key(const char* pattern, T otherwise) const {
    const std::regex wanted(pattern);
    for (const auto& [name, value] : json_.items())
      if (std::regex_match(name, wanted) && !value.is_null()) return value.template get<T>();
    return otherwise;
  }
  bool is(const char* type) const {
    return std::regex_match(json_.value("model_type", ""), std::regex(type));
  }
  model::CheckpointTensor read(const string& name) {
    unused_.erase(name);
    const auto array = files_.tensor(name);
    const Numbers values = array.to_doubles();
    return {array.shape(), {values.begin(), values.end()}};
  }
  // The tensor whose name is the prefix, then matches the pattern, then ".weight".
  const Weight& get(const string& prefix, const string& pattern) {
    const auto [at, is_new] = weights_.try_emplace(prefix + " " + pattern);
    Weight& weight = at->second;
    const std::regex wanted("(" + pattern + ")\\.weight");
    for (auto name = names_.begin(); is_new && name != names_.end() && !weight; ++name) {
      if (!name->starts_with(prefix)) continue;
      if (!std::regex_match(name->substr(prefix.size()), wanted)) continue;
      const auto [shape, values] = read(*name);
      weight = {shape.at(0), std::ssize(values) / shape.at(0), values};
      const string bias = name->substr(0, name->size() - 6) + "bias";
      if (unused_.contains(bias)) weight.bias = read(bias).values;
      if (!is("gpt2") || name->find(".c_") == string::npos) continue;
      std::swap(weight.rows, weight.columns);  // stored as [columns, rows]
      for (ptrdiff_t i = 0; i < std::ssize(values); ++i)
        weight.values[i % weight.rows * weight.columns + i / weight.rows] = values[i];
    }
    return weight;
  }

  void run_layer(ptrdiff_t l, Numbers& x) {
    const string at = stack_ + std::to_string(l) + ".";
    const auto& first =
        get(at, "(input_|attention_|self_attn_)layer_?norm|ln_1|norm_1|ln_attn");
    const auto& own = get(
        at, "(pre_feedforward_|pre_mlp_|feedforward_|final_)layer_?norm|ln_2|norm_2|ln_mlp");
    // post_attention_layernorm is behind attention, or in front of the MLP.
    const bool behind = !first || own;
    const auto& second = behind ? own : get(at, "post_attention_layernorm");
    const auto& after =
        get(at, behind ? "post_attention_layernorm" : "post_self_attn_layernorm");
    const bool shared = !second && !after && !bare_, split = !!get(at, "ln_mlp");
    const bool parallel = shared || split || key("use_parallel_residual", is("gpt_neox"));
    const double scale = key("residual_multiplier", 1.0);
    const auto add = [&](const Numbers& y, const Weight& w) {
      const Numbers normed = w ? norm(y, w) : y;
      for (ptrdiff_t i = 0; i < std::ssize(x); ++i) x[i] += scale * normed[i];
    };
    const Numbers old = x, input = norm(x, first);
    add(attend(at, l, input), after);
    const Numbers h = shared ? input : norm(parallel ? old : x, second);
    add(mlp(at, h), get(at, "post_(feedforward|mlp)_layernorm"));
  }
  Numbers norm(Numbers x, const Weight& w) const {
    if (!w && !bare_) return x;
    const bool rms = json_.contains("rms_norm_eps") && w.bias.empty();
    const double one = is("(vault)?gemma[23]?(_text)?|nemotron") ? 1 : 0;  // added to weights
    const double epsilon = key("(rms_|layer_)?norm_eps(ilon)?", 1e-5), C = double(model_.width);
    for (auto row = x.begin(); row != x.end(); row += model_.width) {
      const double mean = rms ? 0 : std::accumulate(row, row + model_.width, 0.0) / C;
      double squares = 0;
      for (ptrdiff_t c = 0; c < model_.width; ++c) squares += std::pow(row[c] - mean, 2);
      for (ptrdiff_t c = 0; c < model_.width; ++c) {
        row[c] =
            (row[c] - mean) / std::sqrt(squares / C + epsilon) * (w ? w.values[c] + one : 1);
        if (!w.bias.empty()) row[c] += w.bias[c];
      }
    }
    return x;
  }
  Numbers attend(const string& at, ptrdiff_t l, const Numbers& x) {
    const string inside = "[^.]*att.*\\.";
    const auto& group = group_of(model_, l);  // position
    const auto H = group.heads, K = group.key_heads, D = group.head_dim, V = group.value_dim;
    const auto T = std::ssize(x) / model_.width, S = past_ + T;
    auto& [q, keys, values] = caches_[l];
    q.clear();
    for (const auto& [name, to] :
         {std::pair("q_proj", &q), {"k_proj", &keys}, {"v_proj", &values}})
      if (const Weight& w = get(at, inside + name); w) {
        const Numbers y = w * x;
        to->insert(to->end(), y.begin(), y.end());
      }
    if (q.empty()) {  // for each token the heads of q, k, v; or those of each key head
      const Weight& groups = get(at, inside + "query_key_value");
      const Numbers y = (groups ? groups : get(at, inside + "(qkv_proj|Wqkv|c_attn)")) * x;
      const bool grouped = groups || !key("multi_query", true);
      const ptrdiff_t queries = grouped ? H / K : H, others = grouped ? 1 : K;
      for (ptrdiff_t i = 0; i < std::ssize(y) / D; ++i) {
        const ptrdiff_t j = i % (queries + 2 * others);
        Numbers& to = j < queries ? q : j < queries + others ? keys : values;
        to.insert(to.end(), y.begin() + i * D, y.begin() + (i + 1) * D);
      }
    }
    Numbers out(T * H * V);
    const View queries(q.data(), {1, T, H, D}), k(keys.data(), {1, S, K, D});
    const View v(values.data(), {1, S, K, V}), to(out.data(), {1, T, H, V});
    if (queries.size() != std::ssize(q) || k.size() != std::ssize(keys) ||
        v.size() != std::ssize(values))
      refuse("no support for the heads of " + at);
    const model::Lowered& plan = plan_.layer(l);                         // position
    prepare(plan, queries, k.slice(1, past_, T), v.slice(1, past_, T));  // position
    const auto position = attention_position(plan);                      // position
    gnomon::attention<double>(queries, k, v, plan.mask, position, softmax(plan),
                              to);  // position
    return get(at, inside + "(o_proj|out_proj|dense|c_proj)") * out;
  }
  Numbers mlp(const string& at, const Numbers& x) {
    const string inside = "((mlp|ffn|feed_forward)\\.)?";
    const auto name =
        key<string>("(hidden_)?act(ivation)?(_function)?", is("bloom") ? "gelu_new" : "gelu");
    const auto act = [&](double x) -> double {
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      if (name == "silu") return x / (1 + std::exp(-x));
      if (name == "relu") return std::max(x, 0.0);
      if (name == "relu2") return x > 0 ? x * x : 0;
      if (name == "gelu") return x / 2 * std::erfc(-x / std::sqrt(2.0));
      if (name == "gelu_new" || name == "gelu_pytorch_tanh")
        return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
      refuse("no support for the activation " + name);
    };
    // gate_up_proj: the rows of the gate, then those of up.
    const Weight& gate = get(at, inside + "gate_(up_)?proj");
    const Weight& up = get(at, inside + "(up_proj|fc1|c_fc|fc_in|dense_h_to_4h|gate_up_proj)");
    const Weight& down = get(at, inside + "(down_proj|fc2|c_proj|fc_out|dense_4h_to_h)");
    const Numbers ups = up * x, gates = gate ? gate * x : Numbers();
    Numbers y(std::ssize(x) / model_.width * down.columns);
    for (ptrdiff_t i = 0; i < std::ssize(y); ++i) {
      const ptrdiff_t t = i / down.columns, c = i % down.columns;
      const double u = ups[(t + 1) * up.rows - down.columns + c];
      y[i] = gate ? act(gates[t * gate.rows + c]) * u : act(u);
    }
    return down * y;
  }

  struct Cache {
    Numbers queries, keys, values;  // queries of the last pass; keys and values [S, K, D]
  };
  gnomon::io::Checkpoint files_;
  std::vector<string> names_;
  std::set<string> unused_;
  std::map<string, Weight> weights_;  // by prefix and pattern
  Json json_;
  model::ModelDescription model_;
  model::ModelPlan plan_;
  std::vector<Cache> caches_;
  string root_, stack_;  // "model.", "model.layers."
  bool bare_ = false;    // norms have no weights
  ptrdiff_t past_ = 0;
};

int main(int argc, char** argv) try {
  const std::vector<string> words(argv + 1, argv + argc);
  ptrdiff_t steps = 0;
  string folder, file;
  std::vector<ptrdiff_t> ids;
  for (auto word = words.begin(); word != words.end(); ++word)
    if (*word == "--steps" && word + 1 != words.end())
      steps = std::stol(*++word);
    else if (*word == "--logits" && word + 1 != words.end())
      file = *++word;
    else if (word == words.begin())
      folder = *word;
    else
      ids.push_back(std::stol(*word));
  if (ids.empty()) refuse("usage: engine FOLDER [--steps N] [--logits FILE.npy] ID ID ID ...");
  Engine engine(folder);
  Numbers logits = engine.forward(ids);
  const ptrdiff_t V = std::ssize(logits) / std::ssize(ids);
  for (; steps > 0; --steps) {
    ids = {std::max_element(logits.end() - V, logits.end()) - (logits.end() - V)};
    std::cout << ids[0] << (steps > 1 ? ' ' : '\n');
    const Numbers next = engine.forward(ids);
    logits.insert(logits.end(), next.begin(), next.end());
  }
  const gnomon::View<const double, 2> rows(logits.data(), {std::ssize(logits) / V, V});
  if (!file.empty()) gnomon::io::write_npy(file, rows);
} catch (const std::exception& error) {
  std::cerr << "engine: " << error.what() << "\n";
  return 1;
}
