// Runs a decoder-only language model from a folder of Hugging Face files, or from a GGUF file:
// the prompt in one pass, then greedy decoding with a cache. Prints the new token ids.
//
//   engine FOLDER|FILE.gguf [--steps N] [--context N] [--logits FILE.npy] ID ID ID ...
//
// Logits: one row for each token of the prompt and each new token. engine_files.h reads the
// files. Lines about position are marked.
#include "engine_files.h"

#include <gnomon/io/npy.h>

#include <iostream>

using namespace engine;
using View = gnomon::View<double, 4>;

double activate(const string& name, double x) {
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu2") return x > 0 ? x * x : 0;
  if (name == "gelu") return x / 2 * std::erfc(-x / std::sqrt(2.0));
  if (name == "gelu_new" || name == "gelu_pytorch_tanh")
    return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
  if (name == "gelu_half") {  // a table of llama.cpp for CPUs: from 16 bits to 16 bits
    const auto half = [](double x) { return static_cast<float>(gnomon::Half(x)); };
    return std::abs(x) < 10 ? half(activate("gelu_new", half(x))) : std::max(x, 0.0);
  }
  refuse("no support for the activation " + name);
}

class Engine {
 public:
  explicit Engine(Network network)
      : net_(std::move(network)),
        plan_(net_.model, checkpoint()),
        caches_(net_.model.layers) {  // position
    for (const string& name : net_.tensors.names)
      if (!net_.tensors.used.contains(name)) refuse("no support for " + name);
  }
  // Returns the logits [T, V] of the next T tokens.
  Numbers forward(const std::vector<size_t>& ids) {
    const Weight& table = net_.table;
    const ptrdiff_t T = std::ssize(ids), C = table.columns;
    if (C != net_.model.width || *std::ranges::max_element(ids) >= size_t(table.rows))
      refuse("no support for embeddings of this width or a token of this id");
    Numbers x(T * C);
    for (ptrdiff_t i = 0; i < T * C; ++i)
      x[i] = net_.embedding_scale * table.values[ids[i / C] * C + i % C];
    const auto now = gnomon::consecutive(T, past_);                               // position
    const ptrdiff_t length = net_.context.value_or(past_ + T);                    // position
    plan_.set_tokens({.queries = {&now, 1}, .cached = past_, .length = length});  // position
    add_position(plan_.layer(0), gnomon::View<double, 3>(x.data(), {1, T, C}));   // position
    if (net_.table_norm || net_.normed_embeddings) x = norm(x, net_.table_norm);
    for (ptrdiff_t l = 0; l < net_.model.layers; ++l) run_layer(l, x);
    past_ += T;
    x = (net_.head ? net_.head : table) * norm(x, net_.out_norm);
    const double factor = net_.logit_scale, cap = net_.logit_cap;
    for (double& one : x) one = cap > 0 ? cap * std::tanh(factor * one / cap) : factor * one;
    return x;
  }

 private:
  model::Checkpoint checkpoint() {
    return {net_.tensors.names, [this](auto& name) { return net_.tensors.read(name); }};
  }
  void run_layer(ptrdiff_t l, Numbers& x) {
    const Layer& layer = net_.layers[l];
    const auto add = [&](const Numbers& y, const Weight& w) {
      const Numbers normed = w ? norm(y, w) : y;
      for (ptrdiff_t i = 0; i < std::ssize(x); ++i) x[i] += net_.residual_scale * normed[i];
    };
    const Numbers old = x, input = norm(x, layer.norm);
    add(attend(l, input), layer.out_norm);
    const Numbers& before = layer.parallel ? old : x;
    add(mlp(layer, layer.shared_norm ? input : norm(before, layer.mlp_norm)),
        layer.mlp_out_norm);
  }
  // A norm with a bias is a LayerNorm.
  Numbers norm(Numbers x, const Weight& w) const {
    if (!w && !net_.bare) return x;
    const ptrdiff_t C = net_.model.width;
    if (w && w.rows != C) refuse("no support for norms of this width");
    const gnomon::HeadNorm norm{.kind = w.bias.empty() ? net_.norm : NormKind::layer,
                                .epsilon = net_.epsilon,
                                .weight_offset = net_.norm_offset};
    const auto row = [&](auto& of) { return gnomon::View<const float, 2>(of.data(), {1, C}); };
    const View rows(x.data(), {1, std::ssize(x) / C, 1, C});
    normalise_heads(rows, norm, row(w.values), row(w.bias));
    return x;
  }
  Numbers attend(ptrdiff_t l, const Numbers& x) {
    const Layer& layer = net_.layers[l];
    const auto& group = group_of(net_.model, l);  // position
    const auto H = group.heads, K = group.key_heads, D = group.head_dim, V = group.value_dim;
    const auto T = std::ssize(x) / net_.model.width, S = past_ + T;
    auto& [keys, values] = caches_[l];
    Numbers q = layer.query * x, out(T * H * V);
    for (const auto& [w, to] : {std::pair(&layer.key, &keys), {&layer.value, &values}}) {
      const Numbers y = *w * x;
      to->insert(to->end(), y.begin(), y.end());
    }
    const View queries(q.data(), {1, T, H, D}), k(keys.data(), {1, S, K, D});
    const View v(values.data(), {1, S, K, V}), to(out.data(), {1, T, H, V});
    const auto fit = [](const Numbers& x, View y) { return std::ssize(x) == y.size(); };
    if (!fit(q, queries) || !fit(keys, k) || !fit(values, v))
      refuse("no support for its heads");
    const auto& plan = plan_.layer(l);                                   // position
    prepare(plan, queries, k.slice(1, past_, T), v.slice(1, past_, T));  // position
    attention({queries, k, v}, plan, to);                                // position
    return layer.out * out;
  }
  Numbers mlp(const Layer& layer, const Numbers& x) const {
    Numbers y = layer.up * x;
    const Numbers gates = layer.gate ? layer.gate * x : Numbers();
    if (layer.gate && gates.size() != y.size()) refuse("no support for its MLP");
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = layer.gate ? activate(net_.activation, gates[i]) * y[i]
                        : activate(net_.activation, y[i]);
    return layer.down * y;
  }
  Network net_;
  model::ModelPlan plan_;
  std::vector<std::array<Numbers, 2>> caches_;  // k, v: [S, K, D]
  ptrdiff_t past_ = 0;
};

int main(int argc, char** argv) try {
  const std::vector<string> words(argv + 1, argv + argc);
  std::map<string, string> options{{"--steps", "0"}, {"--context", ""}, {"--logits", ""}};
  std::vector<size_t> ids;
  for (size_t i = 1; i < words.size(); ++i)
    if (const auto at = options.find(words[i]); at != options.end() && i + 1 < words.size())
      at->second = words[++i];
    else
      ids.push_back(std::stoul(words[i]));
  if (ids.empty())
    refuse(
        "usage: engine FOLDER|FILE.gguf [--steps N] [--context N] [--logits FILE.npy] ID ...");
  const bool is_folder = std::filesystem::is_directory(words[0]);
  Network network = is_folder ? Folder(words[0]).read() : GgufFile(words[0]).read();
  if (const string n = options["--context"]; !n.empty()) network.context = std::stol(n);
  Engine engine(std::move(network));
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
