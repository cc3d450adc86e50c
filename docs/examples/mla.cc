// Multi-head latent attention with the sizes of DeepSeek-V2-Lite. The cache has one row for
// each token: a latent of 512 and 64 rotated elements. A prompt uses the decompressed form
// (keys of 192, values of 128), a new token the absorbed form: one key head of 576, whose first
// 512 elements are the values. Both give the result of a plain computation in double.
//
//   g++ -std=c++20 mla.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/kv_cache.h>
#include <gnomon/attention/paged_kv_cache.h>
#include <gnomon/rotary/cached_keys.h>
#include <gnomon/rotary/scaling.h>

#include <complex>
#include <cstdio>

#include "layers.h"

namespace {

using gnomon::View, layers::Rows, std::int64_t;
using Heads = View<const float, 3>;  // [T, H, D]
constexpr int64_t heads = 16, nope = 128, rope = 64, value = 128, latent = 512;
constexpr int64_t head = nope + rope, row = latent + rope, prompt = 72, tokens = 76;

// kv_b_proj: from a latent to the keys and values of each head.
const Rows weights = layers::random_rows(heads * (nope + value) * latent, latent, 1);
const Heads up(weights.data(), {heads, nope + value, latent});
const Heads up_key = up.slice(1, 0, nope), up_value = up.slice(1, nope, value);
const Heads transposed(up_key.data(), {heads, latent, nope}, {up.stride(0), 1, latent});

const gnomon::YarnScaling yarn{
    .factor = 40, .original_length = 4096, .attention_factor = 1, .softmax_mscale = 0.707};
gnomon::Rotary rotary(int64_t head_offset) {
  return {.rotary_dim = rope, .pairing = gnomon::Pairing::adjacent, .head_offset = head_offset};
}
// Of heads of 192, in both forms, and with the square of YaRN's mscale.
const double scale = gnomon::softmax_scale(head) *
                     gnomon::scaled_frequencies(rotary(0), yarn, tokens).softmax_scale;

gnomon::AttentionPlan plan(int64_t head_offset, int64_t count, int64_t offset, double softmax) {
  return {.mask = {.visibility = gnomon::Visibility::causal, .offset = offset},
          .softmax = {.scale = softmax},
          .query_rotary = gnomon::RotaryTable(gnomon::lower(rotary(head_offset), yarn, tokens),
                                              gnomon::consecutive(count, offset))};
}

// q [T, 16, 192], not rotated; k: rows of the cache. out: [T, 16, 128].
template <typename T>
void absorbed(Heads q, View<const T, 4> k, const gnomon::AttentionPlan& how,
              View<float, 3> out) {
  Rows query(q.extent(0) * heads * row), sum(q.extent(0) * heads * latent);
  const auto wide = layers::heads(query, 1, heads, row);
  const auto sums = layers::heads(sum, 1, heads, latent);
  layers::project(q.slice(2, 0, nope), transposed, wide[0].slice(2, 0, latent));
  gnomon::copy_append(q.slice(2, nope, rope), wide[0].slice(2, latent, rope));
  gnomon::attention({.q = wide, .k = k, .v = k.slice(3, 0, latent)}, how, sums);
  layers::project(sums[0], up_value, out);
}

// q: all queries of the cache.
void decompressed(Heads q, const gnomon::KvCache<float>& cache, View<float, 3> out) {
  const int64_t count = cache.tokens();
  const Heads rows(cache.keys().data(), {count, heads, row}, {row, 0, 1});  // for all heads
  Rows both(count * heads * (head + value));
  const auto kv = layers::heads(both, 1, heads, head + value);
  layers::project(rows, up_key, kv[0].slice(2, 0, nope));
  gnomon::copy_append(rows.slice(2, latent, rope), kv[0].slice(2, nope, rope));
  layers::project(rows, up_value, kv[0].slice(2, head, value));
  gnomon::attention({.q = View<const float, 4>(q.data(), {1, count, heads, head}),
                     .k = kv.slice(3, 0, head),
                     .v = kv.slice(3, head, value)},
                    plan(nope, count, 0, scale),
                    View<float, 4>(out.data(), {1, count, heads, value}));
}

// In double. The rotated part of a score depends on the distance of query and key.
Rows plain(Heads q, Heads rows) {
  const auto frequencies = gnomon::lower(rotary(0), yarn, tokens).inv_freq;
  std::vector<double> both(tokens * heads * (nope + value));
  const View<double, 3> kv(both.data(), {tokens, heads, nope + value});
  layers::project(rows, up, kv);
  Rows out;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < heads; ++h) {
      const auto score = [&](int64_t j) {
        std::complex<double> sum = 0;
        for (int64_t n = 0; n < nope; ++n) sum += q(t, h, n) * kv(j, h, n);
        for (int64_t n = 0; n < rope; n += 2)
          sum += std::complex<double>(q(t, h, nope + n), q(t, h, nope + n + 1)) *
                 std::complex<double>(rows(j, h, latent + n), -rows(j, h, latent + n + 1)) *
                 std::polar(1.0, static_cast<double>(t - j) * frequencies[n / 2]);
        return scale * sum.real();
      };
      const auto values = [&](int64_t j) { return &kv(j, h, nope); };
      const Rows one = layers::softmax_sum(0, t + 1, value, score, values);
      out.insert(out.end(), one.begin(), one.end());
    }
  return out;
}

}  // namespace

int main() {
  const Rows query = layers::random_rows(tokens * heads * head, 1, 2);
  const Rows all = layers::random_rows(tokens * row, 1, 3);
  const Heads q(query.data(), {tokens, heads, head});
  const View<const float, 4> rows(all.data(), {1, tokens, 1, row});
  const Rows exact = plain(q, {all.data(), {tokens, heads, row}, {row, 0, 1}});
  Rows result(exact.size());
  const View<float, 3> out(result.data(), {tokens, heads, value});

  const auto frequencies = gnomon::lower(rotary(latent), yarn, tokens);
  gnomon::KvCache<float> cache({.capacity = tokens, .heads = 1, .head_dim = row}, frequencies);
  cache.append(rows.slice(1, 0, prompt), {}, gnomon::consecutive(prompt));
  decompressed(q.slice(0, 0, prompt), cache, out.slice(0, 0, prompt));
  for (int64_t t = prompt; t < tokens; ++t) {
    cache.append(rows.slice(1, t, 1), {}, gnomon::consecutive(1, t));
    absorbed(q.slice(0, t, 1), cache.keys(), plan(latent, 1, t, scale), out.slice(0, t, 1));
  }
  const double both = layers::difference(result, exact);
  absorbed(q, cache.keys(), plan(latent, tokens, 0, scale), out);
  const double one = layers::difference(result, exact);
  absorbed(q, cache.keys(), plan(latent, tokens, 0, gnomon::softmax_scale(row)), out);
  const double wrong = layers::difference(result, exact);

  // A paged cache of bfloat16. Its values are its keys, too.
  gnomon::PagedKvCache paged(
      {.blocks = 8, .heads = 1, .head_dim = row, .type = gnomon::CacheType::bf16}, frequencies);
  const std::vector<int64_t> sequences = {paged.start()};
  paged.append(rows, {}, sequences[0]);
  const auto blocks = paged.block_table(sequences);
  gnomon::AttentionPlan of_blocks = plan(latent, tokens, 0, scale);
  of_blocks.ragged = {.key_lengths = paged.key_lengths(sequences), .block_table = blocks};
  absorbed(q, gnomon::view<const gnomon::BFloat16, 4>(paged.keys()), of_blocks, out);
  const double rounded = layers::difference(result, exact);

  std::printf("prompt decompressed, new tokens absorbed: %.1e\n", both);
  std::printf("all tokens absorbed: %.1e\n", one);
  std::printf("paged cache of bfloat16: %.1e\n", rounded);
  std::printf("with the scale 1 / sqrt(576): %.1e\n", wrong);
  std::printf("bytes of a token in bfloat16: decompressed %d, cached %d\n",
              static_cast<int>(2 * heads * (head + value)), static_cast<int>(2 * row));
  return both < 1e-5 && one < 1e-5 && rounded < 2e-2 && wrong > 1e-1 ? 0 : 1;
}
