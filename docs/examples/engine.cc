// Runs a decoder-only language model from a folder of Hugging Face files: the prompt in one
// pass, then greedy decoding with a cache. Prints the new token ids.
//
//   engine FOLDER [--steps N] [--logits FILE.npy] ID ID ID ...
//
// Logits: one row for each token of the prompt and each new token. The structure of the model
// is derived from tensor names and config.json; an unused tensor is an error. Lines about
// position are marked.
#include <gnomon/attention/qk_norm.h>
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

using Numbers = std::vector<double>;
using View = gnomon::View<double, 4>;
using std::ptrdiff_t, std::string;
namespace model = gnomon::model;
[[noreturn]] void refuse(const string& what) { throw std::invalid_argument(what); }

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
};

struct Engine {
  explicit Engine(const std::filesystem::path& folder)
      : files_(folder),
        names_(files_.names()),
        json_(nlohmann::json::parse(std::ifstream(folder / "config.json"))),
        model_(model::read_config(json_.dump())),                                 // position
        plan_(model_, {names_, [&](const string& name) { return read(name); }}),  // position
        caches_(model_.layers) {
    const std::regex keys("\\w*(post_layernorm|qk_ln)\":true|\\w*norm_before\":false");
    const string text = json_.dump();
    if (std::smatch at; regex_search(text, at, keys)) refuse("no support for " + at.str());
    const std::regex other(".*(experts|kv_a_proj|mamba|linear_attn|\\.conv|\\.attn\\.qkv_).*");
    for (const string& name : names_)
      if (std::regex_match(name, other)) refuse("no support for " + name);
  }
  // Returns the logits [T, V] of the next T tokens.
  Numbers forward(const std::vector<size_t>& ids) {
    const string at = "([^.]+\\.){0,2}";
    const Weight& table = get(at, "embed_tokens|wte|word_embeddings|embed_in");
    const Weight& norm_out = get(at, "norm|ln_f|norm_f|final_layer_?norm|layer_norm");
    const Weight& head = get(at, "lm_head|embed_out");
    const ptrdiff_t T = std::ssize(ids), C = table.columns;
    const bool rooted = is("(vault)?gemma.*") || key("scale_embedding", false);
    const double scale = key("embedding_multiplier", rooted ? std::sqrt(double(C)) : 1.0);
    if (C != model_.width || *std::max_element(ids.begin(), ids.end()) >= size_t(table.rows))
      refuse("no support for embeddings of this width or a token of this id");
    Numbers x(T * C);
    for (ptrdiff_t i = 0; i < T * C; ++i) x[i] = scale * table.values[ids[i / C] * C + i % C];
    const auto now = gnomon::consecutive(T, past_);                                  // position
    plan_.set_tokens({.queries = {&now, 1}, .cached = past_, .length = past_ + T});  // position
    add_position(plan_.layer(0), gnomon::View<double, 3>(x.data(), {1, T, C}));      // position
    bare_ = !norm_out;
    if (auto& w = get(at, "word_embeddings_layernorm"); w || is("nanochat")) x = norm(x, w);
    for (ptrdiff_t l = 0; l < model_.layers; ++l) run_layer(l, x);
    past_ += T;
    x = (head ? head : table) * norm(x, norm_out);
    const double factor = key("logit_scale", 1.0) / key("logits_scaling", 1.0);
    const double cap = key("final_logit_softcapping", 0.0);
    for (double& one : x) one = cap > 0 ? cap * std::tanh(factor * one / cap) : factor * one;
    for (const string& name : names_)
      if (!used_.contains(name) && !name.ends_with("attn.bias"))
        refuse("no support for " + name);
    return x;
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
  bool is(const char* t) const { return std::regex_match(model_.model_type, std::regex(t)); }
  model::CheckpointTensor read(const string& name) {
    used_.insert(name);
    const Numbers values = files_.tensor(name).to_doubles();
    return {files_.tensor(name).shape(), {values.begin(), values.end()}};
  }
  // Returns the first tensor whose name matches `place`, `what` and ".weight".
  const Weight& get(const string& place, const string& what) {
    const auto [at, is_new] = weights_.try_emplace(place + what);
    Weight& weight = at->second;
    if (!is_new) return weight;
    const std::regex re(place + "(" + what + ")\\.weight");
    const auto name = std::ranges::find_if(names_, [&](auto& n) { return regex_match(n, re); });
    if (name == names_.end()) return weight;
    const auto [shape, values] = read(*name);
    weight = {shape.at(0), std::ssize(values) / shape.at(0), values};
    const string bias = name->substr(0, name->size() - 6) + "bias";
    if (std::ranges::binary_search(names_, bias)) weight.bias = read(bias).values;
    if (!is("gpt2") || name->find(".c_") == string::npos) return weight;
    std::swap(weight.rows, weight.columns);  // stored as [columns, rows]
    for (ptrdiff_t i = 0; i < std::ssize(values); ++i)
      weight.values[i % weight.rows * weight.columns + i / weight.rows] = values[i];
    return weight;
  }
  void run_layer(ptrdiff_t l, Numbers& x) {
    const string at = "(.*\\.)?(layers|h|blocks)\\." + std::to_string(l) + "\\.";
    const auto& first = get(at, "(input|attention|self_attn)_layer_?norm|ln_1|norm_1|ln_attn");
    const auto& own = get(at, "((pre_)?feedforward|final)_layer_?norm|ln_2|norm_2|ln_mlp");
    // post_attention_layernorm is either the last step of attention, or before the MLP.
    const bool last = !first || own;
    const auto& second = last ? own : get(at, "post_attention_layernorm");
    const auto& post = get(at, last ? "post_attention_layernorm" : "post_self_attn_layernorm");
    const bool shared = !second && !post && !bare_, split = !!get(at, "ln_mlp");
    const bool parallel = shared || split || key("use_parallel_residual", is("gpt_neox"));
    const double scale = key("residual_multiplier", 1.0);
    const auto add = [&](const Numbers& y, const Weight& w) {
      const Numbers normed = w ? norm(y, w) : y;
      for (ptrdiff_t i = 0; i < std::ssize(x); ++i) x[i] += scale * normed[i];
    };
    const Numbers old = x, input = norm(x, first);
    add(attend(at, l, input), post);
    const Numbers h = shared ? input : norm(parallel ? old : x, second);
    add(mlp(at, h), get(at, "post_(feedforward|mlp)_layernorm"));
  }
  Numbers norm(Numbers x, const Weight& w) const {
    if (!w && !bare_) return x;
    const bool rms = json_.contains("rms_norm_eps") && w.bias.empty();
    const ptrdiff_t C = model_.width;
    const gnomon::HeadNorm norm{.kind = rms ? gnomon::NormKind::rms : gnomon::NormKind::layer,
                                .epsilon = key("(rms_|layer_)?norm_eps(ilon)?", 1e-5),
                                .weight_offset = is("(vault)?gemma.*|nemotron") ? 1.0 : 0.0};
    const auto row = [&](auto& of) { return gnomon::View<const float, 2>(of.data(), {1, C}); };
    const View rows(x.data(), {1, std::ssize(x) / C, 1, C});
    normalise_heads(rows, norm, row(w.values), row(w.bias));
    return x;
  }
  Numbers attend(const string& at, ptrdiff_t l, const Numbers& x) {
    const string inside = "[^.]*att.*\\.";
    const auto& group = group_of(model_, l);  // position
    const auto H = group.heads, K = group.key_heads, D = group.head_dim, V = group.value_dim;
    const auto T = std::ssize(x) / model_.width, S = past_ + T;
    auto& [q, keys, values] = caches_[l];
    q.clear();
    for (const auto& [name, to] : {std::pair("q", &q), {"k", &keys}, {"v", &values}})
      if (const auto& w = get(at, inside + name + "_proj"); w) {
        const Numbers y = w * x;
        to->insert(to->end(), y.begin(), y.end());
      }
    if (q.empty()) {  // fused: all heads of q, k and v, or those of each key head
      const Weight& groups = get(at, inside + "query_key_value");
      const Numbers y = (groups ? groups : get(at, inside + "(qkv_proj|Wqkv|c_attn)")) * x;
      const ptrdiff_t parts = groups || !key("multi_query", true) ? K : 1;
      for (ptrdiff_t i = 0, h = H / parts, k = K / parts; i < std::ssize(y) / D; ++i) {
        Numbers& to = i % (h + 2 * k) < h ? q : i % (h + 2 * k) < h + k ? keys : values;
        to.insert(to.end(), y.begin() + i * D, y.begin() + (i + 1) * D);
      }
    }
    Numbers out(T * H * V);
    const View queries(q.data(), {1, T, H, D}), k(keys.data(), {1, S, K, D});
    const View v(values.data(), {1, S, K, V}), to(out.data(), {1, T, H, V});
    const auto fit = [](const Numbers& x, View y) { return std::ssize(x) == y.size(); };
    if (!fit(q, queries) || !fit(keys, k) || !fit(values, v))
      refuse("no support for its heads");
    const auto& plan = plan_.layer(l);                                   // position
    prepare(plan, queries, k.slice(1, past_, T), v.slice(1, past_, T));  // position
    attention({queries, k, v}, plan, to);                                // position
    return get(at, inside + "(o_proj|out_proj|dense|c_proj)") * out;
  }
  Numbers mlp(const string& at, const Numbers& x) {
    const string inside = "((mlp|ffn|feed_forward)\\.)?";
    const auto name =
        key<string>("(hidden_)?act(ivation)?(_function)?", is("bloom") ? "gelu_new" : "gelu");
    const auto act = [&](double x) -> double {
      if (name == "silu") return x / (1 + std::exp(-x));
      if (name == "relu") return std::max(x, 0.0);
      if (name == "relu2") return x > 0 ? x * x : 0;
      if (name == "gelu") return x / 2 * std::erfc(-x / std::sqrt(2.0));
      if (name == "gelu_new" || name == "gelu_pytorch_tanh")
        return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
      refuse("no support for the activation " + name);
    };
    // gate_up_proj: the rows of the gate, followed by those of up.
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
  gnomon::io::Checkpoint files_;
  std::vector<string> names_;
  std::set<string> used_;
  std::map<string, Weight> weights_;
  nlohmann::json json_;
  model::ModelDescription model_;
  model::ModelPlan plan_;
  std::vector<std::array<Numbers, 3>> caches_;  // q of the last pass; k, v: [S, K, D]
  bool bare_ = false;                           // norms have no weights
  ptrdiff_t past_ = 0;
};

int main(int argc, char** argv) try {
  const std::vector<string> words(argv + 1, argv + argc);
  std::map<string, string> options{{"--steps", "0"}, {"--logits", ""}};
  std::vector<size_t> ids;
  for (size_t i = 1; i < words.size(); ++i)
    if (const auto at = options.find(words[i]); at != options.end() && i + 1 < words.size())
      at->second = words[++i];
    else
      ids.push_back(std::stoul(words[i]));
  if (ids.empty()) refuse("usage: engine FOLDER [--steps N] [--logits FILE.npy] ID ID ID ...");
  Engine engine(words[0]);
  Numbers logits = engine.forward(ids);
  const ptrdiff_t V = std::ssize(logits) / std::ssize(ids);
  for (long steps = std::stol(options["--steps"]); steps > 0; --steps) {
    const auto last = logits.end() - V;
    ids = {size_t(std::max_element(last, logits.end()) - last)};
    std::cout << ids[0] << (steps > 1 ? ' ' : '\n');
    const Numbers next = engine.forward(ids);
    logits.insert(logits.end(), next.begin(), next.end());
  }
  const gnomon::View<const double, 2> rows(logits.data(), {std::ssize(logits) / V, V});
  if (const string file = options["--logits"]; !file.empty()) gnomon::io::write_npy(file, rows);
} catch (const std::exception& error) {
  std::cerr << "engine: " << error.what() << "\n";
  return 1;
}
