// Runs a decoder-only language model from a folder of Hugging Face files, or from a GGUF file:
// the prompt in one pass, then greedy decoding with a cache. Prints the new token ids.
//
//   engine FOLDER|FILE.gguf [--steps N] [--context N] [--logits FILE.npy] ID ID ID ...
//
// Logits: one row for each token of the prompt and each new token. engine_files.h and
// engine_gguf.h read the files. Lines about position are marked.
#include <gnomon/io/npy.h>

#include <array>
#include <iostream>
#include <map>

#include "engine_files.h"
#include "engine_gguf.h"

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
    const Numbers late = std::exchange(late_, {});
    if (layer.mlp.up) {
      add(run(layer.mlp, h), layer.mlp_out_norm);
      if (layer.mixture.router) late_ = run_mixture(layer.mixture, h);
    } else {
      add(run_mixture(layer.mixture, h), layer.mlp_out_norm);
    }
    if (!late.empty()) add(late, {});
  }
  Numbers norm(Numbers x, const Weight& w) const {
    return norm(std::move(x), w, net_.model.width, net_.epsilon);
  }
  // Norm of rows of C numbers. A norm with a bias is a LayerNorm.
  Numbers norm(Numbers x, const Weight& w, ptrdiff_t C, double epsilon) const {
    if (!w && !net_.bare) return x;
    if (w && w.rows != C) refuse("no support for norms of this width");
    const gnomon::HeadNorm norm{.kind = w.bias.empty() ? net_.norm : NormKind::layer,
                                .epsilon = epsilon,
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
    if (layer.query_up) q = layer.query_up * latent_norm(q, layer.query_norm);
    if (layer.key_up) {
      add_latent(layer, group, layer.key * x, keys, values);
    } else {
      for (const auto& [w, to] : {std::pair(&layer.key, &keys), {&layer.value, &values}}) {
        const Numbers y = *w * x;
        to->insert(to->end(), y.begin(), y.end());
      }
    }
    const View queries(q.data(), {1, T, H, D}), k(keys.data(), {1, S, K, D});
    const View v(values.data(), {1, S, K, V}), to(out.data(), {1, T, H, V});
    const auto fit = [](const Numbers& x, View y) { return std::ssize(x) == y.size(); };
    if (!fit(q, queries) || !fit(keys, k) || !fit(values, v))
      refuse("no support for its heads");
    prepare(plan_.layer(l), queries, k.slice(1, past_, T), v.slice(1, past_, T));  // position
    attention({queries, k, v}, plan_.layer(l), to);                                // position
    return layer.out * out;
  }
  Numbers latent_norm(Numbers x, const Weight& w) const {
    if (!w) refuse("no support for its latents");
    return norm(std::move(x), w, w.rows, net_.latent_epsilon);
  }
  // Latent attention: appends the keys and values of all heads to the cache. A row of `rows` is
  // a latent, then the rotated part of the key, which the heads share:
  //
  //   [latent | rope]  ->  for each head: key [nope | rope], value [V]
  void add_latent(const Layer& layer, const model::LayerGroup& group, const Numbers& rows,
                  Numbers& keys, Numbers& values) const {
    const ptrdiff_t H = group.heads, V = group.value_dim, rank = layer.key_up.columns;
    const ptrdiff_t nope = layer.key_up.rows / H - V, rope = group.head_dim - nope;
    const ptrdiff_t width = rank + rope, T = std::ssize(rows) / layer.key.rows;
    if (layer.key_up.rows != H * (nope + V) || nope < 0 || rope < 0 ||
        layer.key.rows != width || layer.key_norm.rows != rank)
      refuse("no support for its latents");
    Numbers latents;
    for (auto row = rows.begin(); row != rows.end(); row += width)
      latents.insert(latents.end(), row, row + rank);
    const Numbers heads = layer.key_up * latent_norm(latents, layer.key_norm);
    for (ptrdiff_t i = 0; i < T * H; ++i) {
      const auto head = heads.begin() + i * (nope + V);
      const auto shared = rows.begin() + i / H * width + rank;
      keys.insert(keys.end(), head, head + nope);
      keys.insert(keys.end(), shared, shared + rope);
      values.insert(values.end(), head + nope, head + nope + V);
    }
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
  // The sum of the chosen experts of each token, weighted by their shares, and of the shared
  // expert.
  Numbers run_mixture(const Mixture& mixture, const Numbers& x) const {
    const ptrdiff_t C = net_.model.width, E = mixture.router.rows;
    const Numbers scores = mixture.router * x;
    Numbers out(x.size());
    if (mixture.shared.up) out = run(mixture.shared, x);
    if (out.size() != x.size()) refuse("no support for experts of this width");
    if (mixture.shared_gate) {
      const Numbers gates = mixture.shared_gate * x;
      for (ptrdiff_t i = 0; i < std::ssize(x); ++i) out[i] /= 1 + std::exp(-gates[i / C]);
    }
    for (ptrdiff_t t = 0; t < std::ssize(x) / C; ++t) {
      const Numbers row(&x[t * C], &x[t * C] + C);
      for (const auto& [e, share] : route({&scores[t * E], &scores[t * E] + E}, mixture.bias)) {
        const Mlp& expert = mixture.experts[e];
        const Numbers y = expert.up ? run(expert, row) : row;
        if (std::ssize(y) != C) refuse("no support for experts of this width");
        for (ptrdiff_t c = 0; c < C; ++c) out[t * C + c] += share * y[c];
      }
    }
    return out;
  }
  // Returns the chosen experts of a token and their shares.
  std::vector<std::pair<ptrdiff_t, double>> route(Numbers scores, const Weight& bias) const {
    const Routing& routing = net_.routing;
    const ptrdiff_t E = std::ssize(scores), groups = routing.groups, best = routing.best_groups;
    if (groups < 1 || E % groups != 0 || best < 1 || best > groups)
      refuse("no support for its groups of experts");
    const ptrdiff_t size = E / groups;
    if (routing.experts < 1 || routing.experts > best * size ||
        (bias && bias.rows * bias.columns != E))
      refuse("no support for its number of experts");
    if (groups > 1 && routing.votes > size) refuse("no support for its groups of experts");
    const double most = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& one : scores) {
      one = routing.sigmoid ? 1 / (1 + std::exp(-one)) : std::exp(one - most);
      sum += one;
    }
    if (!routing.sigmoid)
      for (double& one : scores) one /= sum;
    Numbers choice = scores;
    for (ptrdiff_t e = 0; e < (bias ? E : 0); ++e) choice[e] += bias.values[e];
    if (groups > 1) {
      Numbers totals;
      for (auto group = choice.begin(); group != choice.end(); group += size) {
        Numbers sorted(group, group + size);
        std::ranges::sort(sorted, std::greater());
        totals.push_back(std::accumulate(sorted.begin(), sorted.begin() + routing.votes, 0.0));
      }
      const auto order = descending(totals);
      for (ptrdiff_t g = best; g < groups; ++g)
        std::fill_n(choice.begin() + order[g] * size, size, -INFINITY);
    }
    std::vector<std::pair<ptrdiff_t, double>> chosen;
    for (const ptrdiff_t e : descending(choice)) chosen.emplace_back(e, scores[e]);
    chosen.resize(routing.experts);
    sum = 0;
    for (const auto& [e, share] : chosen) sum += share;
    for (auto& [e, share] : chosen)
      share *= routing.scale / (routing.shares_sum_to_1 ? sum : 1);
    return chosen;
  }
  // Returns the indices of the values, that of the largest value first.
  static std::vector<ptrdiff_t> descending(const Numbers& values) {
    std::vector<ptrdiff_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](ptrdiff_t i) { return values[i]; });
    return order;
  }
  Network net_;
  std::vector<std::array<Numbers, 2>> caches_;  // k, v: [S, K, D]
  model::ModelPlan plan_;
  Numbers late_;  // output of a mixture, which is added after the next layer
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
