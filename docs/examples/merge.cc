// Keys and values in parts: on several devices, or parts of a long cache. Each part gives an
// output and a log-sum-exp, and merging them gives attention over all keys. Two cases: a prompt
// in a ring of ranks, and decoding with a window and sinks, where queries see no key of some
// parts. Both give the result of a plain computation in double.
//
//   g++ -std=c++20 merge.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/attention/merge.h>

#include <cstdio>
#include <numeric>

#include "layers.h"

namespace {

using gnomon::Visibility, gnomon::View, layers::Rows, std::int64_t;
constexpr int64_t heads = 8, key_heads = 2, head_dim = 64;
constexpr int64_t tokens = 400, parts = 4, part = tokens / parts;
using Heads = View<const float, 4>;  // [1, T, H, D]
const Rows query = layers::random_rows(tokens * heads * head_dim, 1, 1);
const Rows key = layers::random_rows(tokens * key_heads * head_dim, 1, 2);
const Rows value = layers::random_rows(tokens * key_heads * head_dim, 1, 3);
const Heads q(query.data(), {1, tokens, heads, head_dim});
const Heads k(key.data(), {1, tokens, key_heads, head_dim}), v(value.data(), k.extents());

// Attention of some queries over some keys.
struct Partial {
  Rows out, lse;  // [T, heads, head_dim], [heads, T]
  View<float, 4> out_view;
  View<float, 3> lse_view;

  Partial(Heads queries, int64_t begin, int64_t count, const gnomon::AttentionPlan& plan)
      : out(queries.size()),
        lse(heads * queries.extent(1)),
        out_view(out.data(), queries.extents()),
        lse_view(lse.data(), {1, heads, queries.extent(1)}) {
    gnomon::attention(
        {.q = queries, .k = k.slice(1, begin, count), .v = v.slice(1, begin, count)}, plan,
        out_view, lse_view);
  }
  Partial(const Partial&) = delete;  // the views are of these rows
  void merge(const Partial& other) {
    gnomon::merge_attention(out_view, lse_view, other.out_view, other.lse_view);
  }
};

// The same as merge_attention, for parts that other programs computed. A part in which a query
// sees no key has zeros and a log-sum-exp of -infinity.
void merge_by_hand(Partial& to, const Partial& other) {
  for (int64_t t = 0; t < to.out_view.extent(1); ++t)
    for (int64_t h = 0; h < heads; ++h) {
      float& lse = to.lse_view(0, h, t);
      const double a = lse, b = other.lse_view(0, h, t), most = std::max(a, b);
      if (most == -INFINITY) continue;  // not NaN
      const double sum = most + std::log(std::exp(a - most) + std::exp(b - most));
      for (int64_t d = 0; d < head_dim; ++d) {
        float& out = to.out_view(0, t, h, d);
        out = static_cast<float>(std::exp(a - sum) * out +
                                 std::exp(b - sum) * other.out_view(0, t, h, d));
      }
      lse = static_cast<float>(sum);
    }
}

Rows plain(int64_t first, int64_t window, const std::vector<double>& sinks) {
  Rows all;
  for (int64_t i = first; i < tokens; ++i)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h / (heads / key_heads);
      const auto score = [&](int64_t j) {
        return std::inner_product(&q(0, i, h, 0), &q(0, i, h, 0) + head_dim, &k(0, j, g, 0),
                                  0.0) /
               std::sqrt(head_dim);
      };
      const Rows one = layers::softmax_sum(
          std::max<int64_t>(0, i + 1 - window), i + 1, head_dim, score,
          [&](int64_t j) { return &v(0, j, g, 0); }, sinks[h]);
      all.insert(all.end(), one.begin(), one.end());
    }
  return all;
}

}  // namespace

int main() {
  // Prompt: rank r has queries and keys of part r. Parts of later keys are skipped.
  Rows ring;
  for (int64_t r = 0; r < parts; ++r) {
    const Heads own = q.slice(1, r * part, part);
    Partial sum(own, r * part, part, {.mask = {.visibility = Visibility::causal, .offset = 0}});
    for (int64_t from = r - 1; from >= 0; --from)  // received from rank `from`
      sum.merge({own, from * part, part, {.mask = {.visibility = Visibility::bidirectional}}});
    ring.insert(ring.end(), sum.out.begin(), sum.out.end());
  }
  const std::vector<double> none(heads, -INFINITY);
  const double in_ring = layers::difference(ring, plain(0, tokens, none));
  std::printf("a prompt in a ring of 4: %.1e\n", in_ring);

  // Decoding: 4 queries over 4 parts. They see keys of the last two.
  constexpr int64_t count = 4, window = 130;
  const std::vector<double> sinks = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto partial = [&](int64_t p, const std::vector<double>& of_part) {
    return Partial(
        q.slice(1, tokens - count, count), p * part, part,
        {.mask = {.visibility = Visibility::causal,
                  .offset = tokens - count - p * part,  // within the part or after it
                  .left = window - 1},
         .softmax = {.sinks = of_part}});
  };
  Partial merged = partial(0, {}), by_hand = partial(0, {}), wrong = partial(0, sinks);
  std::printf("log-sum-exp of a query that sees no key: %g\n", merged.lse[0]);
  for (int64_t p = 1; p < parts; ++p) {
    const Partial other = partial(p, p == parts - 1 ? sinks : std::vector<double>());
    merged.merge(other);
    merge_by_hand(by_hand, other);
    wrong.merge(partial(p, sinks));
  }
  const Rows exact = plain(tokens - count, window, sinks);
  const double error = layers::difference(merged.out, exact);
  const double error_by_hand = layers::difference(by_hand.out, exact);
  const double error_wrong = layers::difference(wrong.out, exact);
  std::printf("decoding: %.1e, merged by hand: %.1e\n", error, error_by_hand);
  std::printf("with the sinks in every part: %.1e\n", error_wrong);
  return in_ring < 1e-5 && error < 1e-5 && error_by_hand < 1e-5 && error_wrong > 1e-2 ? 0 : 1;
}
