// A translator like T5: an encoder and a decoder with T5's relative bias. The encoder has
// bidirectional buckets, the decoder causal ones, and cross-attention has no position. Decoding
// with a cache gives the logits of one pass over the whole translation.
//
//   g++ -std=c++20 t5.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>
#include <gnomon/bias/t5.h>

#include <cstdio>

#include "layers.h"

namespace {

using layers::Rows;
using Tokens = std::vector<std::int64_t>;
constexpr std::int64_t width = 32, heads = 4, head_dim = width / heads, depth = 2;
constexpr std::int64_t vocabulary = 50, longest = 32, buckets = 32;

// The bias of one stack, which all its layers share. It depends on distances only, so one plan
// serves the whole pass.
struct Bias {
  gnomon::T5Bias spec;
  Rows table;  // [buckets, heads], trained

  Bias(gnomon::T5Direction direction, unsigned seed)
      : spec{.heads = heads, .direction = direction, .buckets = buckets},
        table(layers::random_rows(buckets * heads, 1, seed)) {}

  // `count` queries after `past` cached keys.
  gnomon::AttentionPlan plan(std::int64_t count, std::int64_t past) const {
    const std::int64_t keys = past + count;
    const bool causal = spec.direction == gnomon::T5Direction::causal;
    gnomon::AttentionPlan plan;
    plan.mask = {
        .visibility = causal ? gnomon::Visibility::causal : gnomon::Visibility::bidirectional,
        .offset = past};
    plan.softmax.scale = 1;  // T5 does not divide by sqrt(head_dim)
    plan.bias =
        gnomon::lower(spec, gnomon::View<const float, 2>(table.data(), {buckets, heads}),
                      1 - keys, 2 * keys - 1);
    return plan;
  }
};

gnomon::View<float, 4> split(Rows& x) { return layers::heads(x, 1, heads, head_dim); }

Rows embedded(const Tokens& ids) {  // one table for both languages
  static const Rows table = layers::random_rows(vocabulary * width, 1, 1);
  Rows x;
  for (const std::int64_t id : ids)
    x.insert(x.end(), table.begin() + id * width, table.begin() + (id + 1) * width);
  return x;
}

std::vector<layers::Layer> stack(unsigned seed) {
  std::vector<layers::Layer> all;
  for (unsigned l = 0; l < depth; ++l) all.emplace_back(width, width, width, seed + 10 * l);
  return all;
}

Rows encode(const Tokens& ids) {
  static const auto blocks = stack(100);
  static const Bias bias(gnomon::T5Direction::bidirectional, 2);
  Rows x = embedded(ids);
  const gnomon::AttentionPlan plan = bias.plan(std::ssize(ids), 0);
  for (const layers::Layer& layer : blocks) {
    const Rows normed = layers::norm(x, width);
    Rows q = layer.query(normed), k = layer.key(normed), v = layer.value(normed);
    Rows out(q.size());
    gnomon::attention({split(q), split(k), split(v)}, plan, split(out));
    layers::add(x, layer.output(out));
    layers::add(x, layer.mlp(layers::norm(x, width)));
  }
  return layers::norm(x, width);
}

class Decoder {
 public:
  explicit Decoder(const Rows& encoded) {
    for (const layers::Layer& layer : cross_) {
      cross_keys_.push_back(layer.key(encoded));
      cross_values_.push_back(layer.value(encoded));
      caches_.emplace_back(gnomon::KvCacheShape{
          .capacity = longest, .heads = heads, .head_dim = head_dim, .value_dim = head_dim});
    }
  }

  // Processes the next tokens. Returns their logits [T, vocabulary].
  Rows forward(const Tokens& ids) {
    const std::int64_t count = std::ssize(ids), past = caches_[0].tokens();
    const gnomon::AttentionPlan self = bias_.plan(count, past);
    gnomon::AttentionPlan cross;  // no position
    cross.mask.visibility = gnomon::Visibility::bidirectional;
    cross.softmax.scale = 1;
    Rows x = embedded(ids), out(x.size());
    for (std::size_t l = 0; l < depth; ++l) {
      Rows normed = layers::norm(x, width);
      Rows q = self_[l].query(normed), k = self_[l].key(normed), v = self_[l].value(normed);
      caches_[l].append(split(k), split(v), gnomon::consecutive(count, past));
      gnomon::attention({split(q), caches_[l].keys(), caches_[l].values()}, self, split(out));
      layers::add(x, self_[l].output(out));
      q = cross_[l].query(layers::norm(x, width));
      gnomon::attention({split(q), split(cross_keys_[l]), split(cross_values_[l])}, cross,
                        split(out));
      layers::add(x, cross_[l].output(out));
      layers::add(x, self_[l].mlp(layers::norm(x, width)));
    }
    return head_(layers::norm(x, width));
  }

 private:
  std::vector<layers::Layer> self_ = stack(200), cross_ = stack(300);
  Bias bias_{gnomon::T5Direction::causal, 3};
  layers::Linear head_{width, vocabulary, 4};
  std::vector<Rows> cross_keys_, cross_values_;
  std::vector<gnomon::KvCache<float>> caches_;
};

}  // namespace

int main() {
  const Rows encoded = encode({5, 6, 7, 8, 9, 10, 11});
  Decoder decoder(encoded);
  Tokens translation{0};  // token 0 starts the translation
  Rows steps;
  for (int step = 0; step < 10; ++step) {
    const Rows logits = decoder.forward({translation.back()});
    steps.insert(steps.end(), logits.begin(), logits.end());
    translation.push_back(layers::largest(logits));
  }
  const Rows whole = Decoder(encoded).forward({translation.begin(), translation.end() - 1});
  const double off = layers::difference(steps, whole);
  const double order =
      layers::difference(steps, Decoder(encode({11, 10, 9, 8, 7, 6, 5}))
                                    .forward({translation.begin(), translation.end() - 1}));
  std::printf("translation:");
  for (const std::int64_t id : translation) std::printf(" %d", static_cast<int>(id));
  std::printf("\nten steps with the cache differ from one pass by %.1e\n", off);
  std::printf("the reversed source changes the logits by %.1e\n", order);
  return off < 1e-4 && order > 1e-2 ? 0 : 1;
}
