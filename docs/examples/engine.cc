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

// gpt-oss: limits of 7, and 1 more than the product.
double swiglu_oai(double gate, double up) {
  gate = std::min(gate, 7.0);
  return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(up, -7.0, 7.0) + 1);
}

class Engine {
 public:
  explicit Engine(Network network)
      : net_(std::move(network)),
        caches_(net_.model.layers),
        plan_(net_.model, checkpoint()) {  // position
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
      if (y.size() != x.size()) refuse("no support for outputs of this width");
      const Numbers normed = w ? norm(y, w) : y;
      for (ptrdiff_t i = 0; i < std::ssize(x); ++i) x[i] += net_.residual_scale * normed[i];
    };
    const Numbers old = x, input = norm(x, layer.norm);
    add(attend(l, input), layer.out_norm);
    const Numbers& before = layer.parallel ? old : x;
    const Numbers h = layer.shared_norm ? input : norm(before, layer.mlp_norm);
    add(layer.router ? run_experts(layer, h) : run(layer.mlp, h), layer.mlp_out_norm);
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
  Numbers run(const Mlp& mlp, const Numbers& x) const {
    Numbers y = mlp.up * x;
    const Numbers gates = mlp.gate ? mlp.gate * x : Numbers();
    if (mlp.gate && gates.size() != y.size()) refuse("no support for its MLP");
    const string& name = net_.activation;
    for (size_t i = 0; i < y.size(); ++i)
      if (name == "swiglu_oai" && mlp.gate)
        y[i] = swiglu_oai(gates[i], y[i]);
      else
        y[i] = mlp.gate ? activate(name, gates[i]) * y[i] : activate(name, y[i]);
    return mlp.down * y;
  }
  // Sums the best experts of each token, weighted by the softmax of their scores.
  Numbers run_experts(const Layer& layer, const Numbers& x) const {
    const ptrdiff_t C = net_.model.width, E = layer.router.rows, best = net_.experts;
    if (best < 1 || best > E) refuse("no support for its number of experts");
    const Numbers scores = layer.router * x;
    Numbers out(x.size());
    for (ptrdiff_t t = 0; t < std::ssize(x) / C; ++t) {
      const double* of = &scores[t * E];
      std::vector<ptrdiff_t> order(E);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](ptrdiff_t a, ptrdiff_t b) { return of[a] > of[b]; });
      double sum = 0;
      for (ptrdiff_t e = 0; e < (net_.shares_sum_to_1 ? best : E); ++e)
        sum += std::exp(of[order[e]] - of[order[0]]);
      for (ptrdiff_t e = 0; e < best; ++e) {
        const double share = std::exp(of[order[e]] - of[order[0]]) / sum;
        const Numbers y = run(layer.experts[order[e]], {&x[t * C], &x[t * C] + C});
        if (std::ssize(y) != C) refuse("no support for experts of this width");
        for (ptrdiff_t c = 0; c < C; ++c) out[t * C + c] += share * y[c];
      }
    }
    return out;
  }
  Network net_;
  std::vector<std::array<Numbers, 2>> caches_;  // k, v: [S, K, D]
  model::ModelPlan plan_;
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
