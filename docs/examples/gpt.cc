// A generator like GPT: a sinusoidal table, causal attention and greedy decoding with a KV
// cache. It generates the same tokens as full passes over all tokens.
//
//   g++ -std=c++20 gpt.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>
#include <gnomon/embedding/sinusoidal.h>
#include <gnomon/embedding/table.h>

#include <cstdio>

#include "layers.h"

namespace {

using layers::Rows;
using Tokens = std::vector<std::int64_t>;
constexpr std::int64_t width = 32, heads = 4, head_dim = width / heads, depth = 2;
constexpr std::int64_t vocabulary = 50, longest = 64;

class Gpt {
 public:
  Gpt() {
    for (unsigned l = 0; l < depth; ++l) {
      layers_.emplace_back(width, width, width, 10 * l + 10);
      caches_.emplace_back(gnomon::KvCacheShape{
          .capacity = longest, .heads = heads, .head_dim = head_dim, .value_dim = head_dim});
    }
  }

  void clear() {
    for (auto& cache : caches_) cache.clear();
  }

  // Processes the next tokens. Returns the logits of the last one.
  Rows forward(const Tokens& ids) {
    const std::int64_t count = std::ssize(ids), past = caches_[0].tokens();
    const gnomon::Positions now = gnomon::consecutive(count, past);
    Rows x;
    for (const std::int64_t id : ids)
      x.insert(x.end(), tokens_.begin() + id * width, tokens_.begin() + (id + 1) * width);
    // The rows of the positions past, past + 1, ...: a new token continues the count.
    const gnomon::Sinusoidal sinusoidal{.width = width,
                                        .recipe = gnomon::SinusoidalRecipe::interleaved};
    gnomon::add_table(gnomon::View<float, 3>(x.data(), {1, count, width}),
                      gnomon::lower(sinusoidal, now.ids).view());

    gnomon::AttentionPlan plan;
    plan.mask = {.visibility = gnomon::Visibility::causal, .offset = past};
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const layers::Layer& layer = layers_[l];
      const Rows normed = layers::norm(x, width);
      Rows q = layer.query(normed), k = layer.key(normed), v = layer.value(normed);
      Rows out(q.size());
      caches_[l].append(layers::heads(k, 1, heads, head_dim),
                        layers::heads(v, 1, heads, head_dim), now);
      gnomon::attention(
          {layers::heads(q, 1, heads, head_dim), caches_[l].keys(), caches_[l].values()}, plan,
          layers::heads(out, 1, heads, head_dim));
      layers::add(x, layer.output(out));
      layers::add(x, layer.mlp(layers::norm(x, width)));
    }
    return head_(layers::norm(Rows(x.end() - width, x.end()), width));
  }

 private:
  Rows tokens_ = layers::random_rows(vocabulary * width, 1, 1);
  std::vector<layers::Layer> layers_;
  std::vector<gnomon::KvCache<float>> caches_;
  layers::Linear head_{width, vocabulary, 2};
};

void print(const char* name, const Tokens& tokens) {
  std::printf("%s:", name);
  for (const std::int64_t id : tokens) std::printf(" %d", static_cast<int>(id));
  std::printf("\n");
}

}  // namespace

int main() {
  Gpt gpt;
  const Tokens prompt{3, 14, 15, 9, 26};
  constexpr int steps = 12;

  // With the cache, a step processes one token.
  Tokens cached = prompt;
  Rows logits = gpt.forward(prompt);
  std::vector<Rows> all{logits};
  for (int step = 0; step < steps; ++step) {
    cached.push_back(layers::largest(logits));
    all.push_back(logits = gpt.forward({cached.back()}));
  }

  // Without the cache, a step processes all tokens.
  Tokens full = prompt;
  double most = 0;
  for (std::size_t step = 0; step <= steps; ++step) {
    gpt.clear();
    logits = gpt.forward(full);
    most = std::max(most, layers::difference(logits, all[step]));
    if (step < steps) full.push_back(layers::largest(logits));
  }
  print("with the cache", cached);
  print("full passes", full);
  std::printf("largest difference of the logits: %.1e\n", most);
  return cached == full && most < 1e-4 ? 0 : 1;
}
