// Sequences with a common prompt, whose keys and values are stored once. A decoding step is
// either two calls, over the prompt and over the tokens of each sequence, and a merge of both;
// or one call over the blocks of a PagedKvCache, which `fork` shares. All give the result of a
// plain computation in double over full copies.
//
//   g++ -std=c++20 prefix.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/merge.h>
#include <gnomon/attention/paged_kv_cache.h>

#include <complex>
#include <cstdio>

#include "layers.h"

namespace {

using gnomon::View, layers::Rows, std::int64_t;
constexpr int64_t heads = 8, key_heads = 2, head_dim = 64, prompt = 1000, room = 24;
constexpr int64_t sequences = 4, row = key_heads * head_dim;
using Ids = std::vector<int64_t>;
const Ids own = {5, 24, 1, 13};  // tokens of each sequence after the prompt
const gnomon::RotaryFrequencies frequencies =
    gnomon::lower(gnomon::Rotary{.rotary_dim = head_dim, .pairing = gnomon::Pairing::halves});

struct Text {  // [rows, key_heads, head_dim]
  Rows k, v;
  Text(int64_t rows, unsigned seed)
      : k(layers::random_rows(rows * row, 1, seed)),
        v(layers::random_rows(rows * row, 1, seed + 1)) {}
};

// The last query of sequence n, [heads, head_dim], in double, with keys that are not rotated.
Rows plain(const float* q, const Text& shared, const Text& tails, int64_t n) {
  Rows out;
  for (int64_t h = 0; h < heads; ++h, q += head_dim) {
    const auto at = [&](const Rows Text::* rows, int64_t j) {
      const float* tokens =
          j < prompt ? &(shared.*rows)[j * row] : &(tails.*rows)[(n * room + j - prompt) * row];
      return tokens + h / (heads / key_heads) * head_dim;
    };
    const int64_t count = prompt + own[n], half = head_dim / 2;
    const auto score = [&](int64_t j) {
      const float* k = at(&Text::k, j);
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < half; ++i)
        sum += std::complex<double>(q[i], q[i + half]) *
               std::complex<double>(k[i], -k[i + half]) *
               std::polar(1.0, static_cast<double>(count - 1 - j) * frequencies.inv_freq[i]);
      return sum.real() / std::sqrt(head_dim);
    };
    const auto value = [&](int64_t j) { return at(&Text::v, j); };
    const Rows one = layers::softmax_sum(0, count, head_dim, score, value);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

}  // namespace

int main() {
  Text shared(prompt, 1), tails(sequences * room, 3);
  Rows query = layers::random_rows(sequences * heads * head_dim, 1, 5), exact;
  for (int64_t n = 0; n < sequences; ++n) {
    const Rows one = plain(&query[n * heads * head_dim], shared, tails, n);
    exact.insert(exact.end(), one.begin(), one.end());
  }
  Rows result(query.size()), own_result(query.size()), lse(sequences * heads), own_lse(lse);
  bool holds = true;
  const auto check = [&](const char* what) {
    const double off = layers::difference(result, exact);
    std::printf("%s: %.1e\n", what, off);
    holds = holds && off < 1e-5;
  };

  // The cache rotates keys. `fork` copies no block.
  gnomon::PagedKvCache cache({.blocks = 80,
                              .heads = key_heads,
                              .head_dim = head_dim,
                              .value_dim = head_dim,
                              .type = gnomon::CacheType::f32},
                             frequencies);
  const auto rows = [](const Rows& all, int64_t begin, int64_t count) {
    return View<const float, 3>(&all[begin * row], {count, key_heads, head_dim});
  };
  Ids numbers = {cache.start()}, last, starts = {0};
  cache.append(rows(shared.k, 0, prompt), rows(shared.v, 0, prompt), numbers[0]);
  for (int64_t n = 1; n < sequences; ++n) numbers.push_back(cache.fork(numbers[0]));
  for (int64_t n = 0; n < sequences; ++n) {
    cache.append(rows(tails.k, n * room, own[n]), rows(tails.v, n * room, own[n]), numbers[n]);
    last.push_back(prompt + own[n] - 1);  // the position of the query
    starts.push_back(n + 1);              // one query of each sequence
  }
  const auto q = layers::heads(query, 1, heads, head_dim);  // [1, sequences, heads, head_dim]
  const auto out = layers::heads(result, 1, heads, head_dim);
  gnomon::rotate(q, gnomon::RotaryTable(frequencies, last));
  gnomon::AttentionPlan plan{.mask = {.visibility = gnomon::Visibility::causal}};
  const auto blocks = cache.block_table(numbers);
  plan.ragged = {
      .query_starts = starts, .key_lengths = cache.key_lengths(numbers), .block_table = blocks};
  gnomon::attention({.q = q, .k = cache.keys(), .v = cache.values()}, plan, out);
  check("forks of a paged cache");

  // Arrays. The tokens of each sequence continue the positions of the prompt.
  const auto k = layers::heads(shared.k, 1, key_heads, head_dim);
  const auto v = layers::heads(shared.v, 1, key_heads, head_dim);
  const auto own_k = layers::heads(tails.k, sequences, key_heads, head_dim);
  const auto own_v = layers::heads(tails.v, sequences, key_heads, head_dim);
  gnomon::rotate(k, gnomon::RotaryTable(frequencies, gnomon::consecutive(prompt)));
  gnomon::rotate(own_k, gnomon::RotaryTable(frequencies, gnomon::consecutive(room, prompt)));
  // All queries see the whole prompt: they are rows of one call.
  const gnomon::AttentionPlan all{.mask = {.visibility = gnomon::Visibility::bidirectional}};
  const View<float, 3> sums(lse.data(), {1, heads, sequences});
  gnomon::attention({.q = q, .k = k, .v = v}, all, out, sums);
  const auto own_out = layers::heads(own_result, 1, heads, head_dim);
  const View<float, 3> own_sums(own_lse.data(), sums.extents());
  plan.ragged = {.query_starts = starts, .key_lengths = own};
  gnomon::attention({.q = q, .k = own_k, .v = own_v}, plan, own_out, own_sums);
  gnomon::merge_attention(out, sums, own_out, own_sums);
  check("queries as rows of one call, merged");

  // The prompt as keys of a batch, with a stride of 0; queries [sequences, 1, heads, head_dim].
  const auto batch = [](View<float, 4> x) {
    return View<const float, 4>(x.data(), {sequences, prompt, key_heads, head_dim},
                                {0, row, head_dim, 1});
  };
  gnomon::attention(
      {.q = layers::heads(query, sequences, heads, head_dim), .k = batch(k), .v = batch(v)},
      all, layers::heads(result, sequences, heads, head_dim),
      View<float, 3>(lse.data(), {sequences, heads, 1}, {1, sequences, 1}));
  gnomon::merge_attention(out, sums, own_out, own_sums);
  check("a batch stride of 0, merged");

  int64_t copies = 0;
  for (const int64_t n : own) copies += (prompt + n + 15) / 16;
  std::printf("blocks of 16 tokens: %d, without sharing %d\n",
              static_cast<int>(80 - cache.free_blocks()), static_cast<int>(copies));
  return holds ? 0 : 1;
}
