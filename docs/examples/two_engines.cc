// Two engines in one process: each has threads and working memory of its own, and decodes at
// the same time as the other. The outputs have the bits of an engine that runs alone, and after
// the first step no step takes new working memory.
//
//   g++ -std=c++20 two_engines.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>
#include <gnomon/context.h>
#include <gnomon/rotary/decoding.h>

#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace {

using std::int64_t;
using Rows = std::vector<float>;
constexpr int64_t heads = 8, key_heads = 2, head_dim = 64, prompt = 512, steps = 64;

gnomon::View<float, 4> view(Rows& rows, int64_t tokens, int64_t count) {
  rows.resize(static_cast<std::size_t>(tokens * count * head_dim));
  return {rows.data(), {1, tokens, count, head_dim}};
}

struct Outcome {
  Rows outputs;                     // of all steps
  std::size_t first = 0, last = 0;  // working memory after the first and the last step
};

// Decodes `steps` tokens after a prompt, with random queries, keys and values.
Outcome decode(unsigned seed, gnomon::Context& context) {
  const gnomon::ContextScope scope(context);  // for the calls of this thread
  const auto rotary =
      lower(gnomon::Rotary{.rotary_dim = head_dim, .pairing = gnomon::Pairing::halves});
  gnomon::KvCache<float> cache({.capacity = prompt + steps,
                                .heads = key_heads,
                                .head_dim = head_dim,
                                .value_dim = head_dim},
                               rotary);
  std::mt19937 engine(seed);
  const auto random = [&](gnomon::View<float, 4> x) {
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(engine() % 99) / 99;
    return x;
  };
  Outcome outcome;
  Rows q, k, v, out;
  for (int64_t step = -1; step < steps; ++step) {
    const int64_t tokens = step < 0 ? prompt : 1, past = cache.tokens();
    const gnomon::RotaryTable table(rotary, gnomon::consecutive(tokens, past));
    const auto queries = random(view(q, tokens, heads)), to = view(out, tokens, heads);
    cache.append(random(view(k, tokens, key_heads)), random(view(v, tokens, key_heads)),
                 gnomon::consecutive(tokens, past), &table);
    const gnomon::AttentionPlan plan{
        .mask = {.visibility = gnomon::Visibility::causal, .offset = past},
        .query_rotary = table};
    attention({queries, cache.keys(), cache.values()}, plan, to);
    if (step >= 0) outcome.outputs.insert(outcome.outputs.end(), out.begin(), out.end());
    (step < 1 ? outcome.first : outcome.last) = context.kept_bytes();
  }
  return outcome;
}

}  // namespace

int main() {
  // An engine with a pool of its own passes it as an executor: gnomon::Context one(executor).
  gnomon::Context one = gnomon::Context::with_threads(2);
  gnomon::Context other = gnomon::Context::with_threads(2);
  Outcome of_one, of_other;
  std::thread thread([&] { of_one = decode(1, one); });
  of_other = decode(2, other);
  thread.join();

  gnomon::Context alone(gnomon::serial_executor());
  const bool equal = decode(1, alone).outputs == of_one.outputs &&
                     decode(2, alone).outputs == of_other.outputs;
  const bool kept = of_one.first == of_one.last && of_other.first == of_other.last;
  std::printf("outputs of both engines and of one that runs alone: %s\n",
              equal ? "the same bits" : "different");
  std::printf("working memory of an engine: %.1f MB after a step, %.1f MB after %d\n",
              static_cast<double>(of_one.first) / 1e6, static_cast<double>(of_one.last) / 1e6,
              static_cast<int>(steps));
  return equal && kept ? 0 : 1;
}
