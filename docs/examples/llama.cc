// A decode loop like Llama's, whose position comes from a config.json alone: the base, scaling
// and pairing of the rotary embedding, sliding windows, and the scale of the softmax. The
// config of another model needs no other code.
//
//   g++ -std=c++20 llama.cc $(pkg-config --cflags --libs gnomon-model gnomon-core)
//   llama [config.json]
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>
#include <gnomon/model/config.h>
#include <gnomon/model/layer.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "layers.h"

namespace {

using layers::Rows;
using Tokens = std::vector<std::int64_t>;
namespace model = gnomon::model;

// The weights are random, so the model can be narrower than the config says. Heads and layers
// are those of the config.
constexpr std::int64_t width = 32, vocabulary = 50, longest = 64;

// Llama 3.1 8B.
constexpr const char* llama3 = R"({
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
})";

class Llama {
 public:
  explicit Llama(const std::string& config)
      : model_(model::read_config(config)),
        plan_(model_, {}) {  // {}: a checkpoint without tensors; Llama has none for position
    for (std::int64_t l = 0; l < model_.layers; ++l) {
      const model::LayerGroup& group = model::group_of(model_, l);
      layers_.emplace_back(width, group.heads * group.head_dim,
                           group.key_heads * group.head_dim,
                           static_cast<unsigned>(10 * l + 10));
      // `prepare` rotates keys before they are appended, so the cache has no frequencies.
      caches_.emplace_back(gnomon::KvCacheShape{.capacity = longest,
                                                .heads = group.key_heads,
                                                .head_dim = group.head_dim,
                                                .value_dim = group.head_dim});
    }
  }

  // Processes the next tokens. Returns their logits [T, vocabulary].
  Rows forward(const Tokens& ids) {
    const std::int64_t count = std::ssize(ids), past = caches_[0].tokens();
    const gnomon::Positions now = gnomon::consecutive(count, past);
    plan_.set_tokens({.queries = {&now, 1}, .cached = past});
    Rows x;
    for (const std::int64_t id : ids)
      x.insert(x.end(), tokens_.begin() + id * width, tokens_.begin() + (id + 1) * width);
    for (std::int64_t l = 0; l < model_.layers; ++l) {
      const auto& layer = layers_[static_cast<std::size_t>(l)];
      auto& cache = caches_[static_cast<std::size_t>(l)];
      const model::LayerGroup& group = model::group_of(model_, l);
      const Rows normed = layers::norm(x, width);
      Rows q = layer.query(normed), k = layer.key(normed), v = layer.value(normed),
           out(q.size());
      const auto queries = layers::heads(q, 1, group.heads, group.head_dim);
      const auto keys = layers::heads(k, 1, group.key_heads, group.head_dim);
      const auto values = layers::heads(v, 1, group.key_heads, group.head_dim);
      gnomon::prepare(plan_.layer(l), queries, keys, values);
      cache.append(keys, values, now);
      gnomon::attention({queries, cache.keys(), cache.values()}, plan_.layer(l),
                        layers::heads(out, 1, group.heads, group.head_dim));
      layers::add(x, layer.output(out));
      layers::add(x, layer.mlp(layers::norm(x, width)));
    }
    return head_(layers::norm(x, width));
  }

  void clear() {
    for (auto& cache : caches_) cache.clear();
  }
  const model::ModelDescription& description() const { return model_; }

 private:
  model::ModelDescription model_;
  model::ModelPlan plan_;  // borrows model_
  Rows tokens_ = layers::random_rows(vocabulary * width, 1, 1);
  std::vector<layers::Layer> layers_;
  std::vector<gnomon::KvCache<float>> caches_;
  layers::Linear head_{width, vocabulary, 2};
};

}  // namespace

int main(int argc, char** argv) try {
  std::string config = llama3;
  if (argc > 1) {
    std::ifstream file(argv[1]);
    config.assign(std::istreambuf_iterator<char>(file), {});
  }
  Llama llama(config);
  std::printf("%s, %d layers:", llama.description().model_type.c_str(),
              static_cast<int>(llama.description().layers));
  for (const model::LayerGroup& group : llama.description().groups)
    std::printf(" %s in %d layers", model::names(group.position).c_str(),
                static_cast<int>(group.layers.size()));

  Tokens tokens{3, 14, 15, 9, 26};
  Rows cached = llama.forward(tokens);
  std::printf("\ntokens:");
  for (int step = 0; step < 8; ++step) {
    tokens.push_back(layers::largest(std::span(cached).last(vocabulary)));
    const Rows logits = llama.forward({tokens.back()});
    cached.insert(cached.end(), logits.begin(), logits.end());
    std::printf(" %d", static_cast<int>(tokens.back()));
  }
  llama.clear();
  const double off = layers::difference(cached, llama.forward(tokens));
  std::printf("\ndecoding with the cache differs from one pass by %.1e\n", off);
  return off < 1e-3 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "llama: %s\n", error.what());
  return 1;
}
