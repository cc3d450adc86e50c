// Speculative decoding with a KvCache. Drafts are appended and verified in one call, and the
// rejected ones are removed: a chain of drafts by `truncate`, a tree of drafts by a mask and
// `drop`. Tokens and outputs are those of decoding one by one. Then `remove` takes a middle
// part out of the text: the keys after it move to new positions.
//
//   g++ -std=c++20 drafts.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>

#include <cstdio>

#include "layers.h"

namespace {

using layers::Rows, std::int64_t;
using Ids = std::vector<int64_t>;
constexpr int64_t heads = 4, key_heads = 2, head_dim = 32, width = heads * head_dim;
constexpr int64_t vocabulary = 64, prompt = 100, length = 148;
// The model: a row of each matrix for each token of the vocabulary.
const Rows queries = layers::random_rows(vocabulary * width, 1, 1);
const Rows keys = layers::random_rows(vocabulary * width / 2, 1, 2);
const Rows values = layers::random_rows(vocabulary * width / 2, 1, 3);
const auto frequencies =
    gnomon::lower(gnomon::Rotary{.rotary_dim = head_dim, .pairing = gnomon::Pairing::halves});

Rows gather(const Rows& matrix, const Ids& ids) {
  Rows rows;
  for (const int64_t id : ids) {
    const auto row = matrix.begin() + id * std::ssize(matrix) / vocabulary;
    rows.insert(rows.end(), row, row + std::ssize(matrix) / vocabulary);
  }
  return rows;
}

// The token with the greatest logit for row i of the outputs.
int64_t next(const Rows& out, int64_t i) {
  Rows logits(vocabulary);
  for (int64_t n = 0; n < vocabulary * width; ++n)
    logits[n / width] += queries[n] * out[i * width + n % width];
  return layers::largest(logits);
}

struct Decoder {
  gnomon::KvCache<float> cache{
      {.capacity = 200, .heads = key_heads, .head_dim = head_dim, .value_dim = head_dim},
      frequencies};

  // Appends tokens and returns their outputs [T, width].
  Rows pass(const Ids& ids, const gnomon::Positions& where, const gnomon::BiasForm& bias = {}) {
    Rows q = gather(queries, ids), k = gather(keys, ids), v = gather(values, ids),
         out(q.size());
    const gnomon::RotaryTable table(frequencies, where);
    const gnomon::AttentionPlan plan{
        .mask = {.visibility = gnomon::Visibility::causal, .offset = cache.tokens()},
        .query_rotary = table,
        .bias = bias};
    cache.append(layers::heads(k, 1, key_heads, head_dim),
                 layers::heads(v, 1, key_heads, head_dim), where, &table);
    gnomon::attention(
        {.q = layers::heads(q, 1, heads, head_dim), .k = cache.keys(), .v = cache.values()},
        plan, layers::heads(out, 1, heads, head_dim));
    return out;
  }
  Rows pass(const Ids& ids) {
    return pass(ids, gnomon::consecutive(std::ssize(ids), cache.tokens()));
  }
};

}  // namespace

int main() {
  Ids text;
  while (std::ssize(text) < prompt) text.push_back(std::ssize(text) * 37 % 61);
  const Ids start = text;
  Decoder one;
  Rows exact = one.pass(text);  // the outputs of all tokens
  while (std::ssize(text) < length) {
    text.push_back(next(exact, std::ssize(text) - 1));
    const Rows out = one.pass({text.back()});
    exact.insert(exact.end(), out.begin(), out.end());
  }
  const auto error = [&](const Rows& out, int64_t row, int64_t position) {
    return layers::difference({&out[row * width], width}, {&exact[position * width], width});
  };
  bool holds = true;

  for (const int drafts : {3, 7}) {
    Decoder decoder;
    Ids got = start;
    got.push_back(next(decoder.pass(start), prompt - 1));
    double most = 0;
    int passes = 0;
    for (; std::ssize(got) + drafts < length; ++passes) {
      const int64_t at = std::ssize(got) - 1;  // position of the last token, not cached yet
      Ids step = {got.back()};
      for (int64_t i = at + 1; i <= at + drafts; ++i)
        step.push_back(i % 5 ? text[i] : 0);  // in place of a draft model
      const Rows out = decoder.pass(step);
      int64_t right = 0;
      while (right < drafts && next(out, right) == step[right + 1]) ++right;
      decoder.cache.truncate(at + 1 + right);
      for (int64_t i = 0; i <= right; ++i) {
        most = std::max(most, error(out, i, at + i));
        got.push_back(next(out, i));
      }
    }
    std::printf("drafts of %d: %d tokens in %d passes, outputs off by %.1e\n", drafts,
                static_cast<int>(std::ssize(got) - prompt - 1), passes, most);
    // Up to 8 rows of queries for each key head (4 tokens) have the bits of one token.
    holds = holds && std::equal(got.begin(), got.end(), text.begin()) &&
            (drafts == 3 ? most == 0 : most < 1e-5);
  }

  // A tree: the last token, two drafts after it, and a draft after each of these.
  const Ids parents = {-1, 0, 0, 1, 2}, positions = {100, 101, 101, 102, 102};
  const Ids tree = {text[100], 0, text[101], 0, text[102]};
  const int64_t nodes = std::ssize(tree), columns = prompt + nodes;
  Rows mask(nodes * columns);  // -infinity hides a node that is not an ancestor
  for (int64_t i = 0; i < nodes; ++i) {
    std::fill_n(&mask[i * columns + prompt], nodes, -INFINITY);
    for (int64_t n = i; n >= 0; n = parents[n]) mask[i * columns + prompt + n] = 0;
  }
  Decoder decoder;
  decoder.pass(start);
  const Rows out = decoder.pass(
      tree, gnomon::explicit_ids(positions),
      gnomon::DenseBias{{mask.data(), {1, heads, nodes, columns}, {0, 0, columns, 1}}});
  Ids path = {0};
  double most = error(out, 0, prompt);
  for (int64_t n = 1, dropped = 0; n < nodes; ++n) {
    if (parents[n] == path.back() && tree[n] == next(out, path.back())) {
      path.push_back(n);
      most = std::max(most, error(out, n, positions[n]));
    } else {
      const int64_t entry = prompt + n - dropped++;
      decoder.cache.drop(entry, entry + 1);
    }
  }
  const auto kept = decoder.cache.keys(), expected = one.cache.keys();
  const bool same = decoder.cache.positions() == gnomon::consecutive(prompt + 3) &&
                    std::equal(kept.data(), kept.data() + kept.size(), expected.data());
  std::printf("a tree of %d: %d stay, outputs off by %.1e, the cache has %s\n",
              static_cast<int>(nodes), static_cast<int>(path.size()), most,
              same ? "the same bits" : "other keys");

  // The text without tokens 4 to 67, in both ways.
  one.cache.remove(4, 68);
  text.erase(text.begin() + 4, text.begin() + 68);
  Decoder again;
  again.pass(text);
  const double moved = layers::difference(one.pass({1}), again.pass({1}));
  std::printf("64 tokens removed from the middle: off by %.1e\n", moved);
  return holds && most < 1e-5 && same && moved < 1e-5 ? 0 : 1;
}
