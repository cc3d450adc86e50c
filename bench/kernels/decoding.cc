// Attention of few queries over a cache, and of many short sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bench/kernels/attention_call.h"
#include "bench/kernels/kernels.h"
#include "gnomon/attention/attention.h"
#include "gnomon/rotary/int8_keys.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

// Of decoding.
constexpr int64_t decoding_heads = 32, decoding_key_heads = 8, decoding_dim = 128;

std::string text_of(int64_t queries, const char* type, int64_t keys) {
  return fmt::format("{} {} {} [{}, {} + {}, {}]", queries, queries == 1 ? "query" : "queries",
                     type, keys, decoding_heads, decoding_key_heads, decoding_dim);
}

// The error of a row of attention, [D], by a computation in double. key(j, d), value(j, d):
// elements of the keys that the row sees.
template <typename T, typename Key, typename Value>
double row_error(View<T, 1> q, View<T, 1> out, int64_t keys, const Key& key,
                 const Value& value) {
  const int64_t dim = q.extent(0);
  std::vector<double> weights(at(keys));
  double most = -std::numeric_limits<double>::infinity(), sum = 0, worst = 0;
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t d = 0; d < dim; ++d) weights[at(j)] += as_double(q(d)) * key(j, d);
    weights[at(j)] /= std::sqrt(static_cast<double>(dim));
    most = std::max(most, weights[at(j)]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (int64_t d = 0; d < dim; ++d) {
    double exact = 0;
    for (int64_t j = 0; j < keys; ++j) exact += weights[at(j)] / sum * value(j, d);
    worst = std::max(worst, std::fabs(as_double(out(d)) - exact));
  }
  return worst;
}

// The last queries of a sequence with its cache. The roof reads the cache.
template <typename T>
Kernel decoding_kernel(int64_t keys, int64_t queries, int64_t page = 0) {
  const AttentionSizes sizes{queries, keys, decoding_heads, decoding_key_heads, decoding_dim};
  const auto call = std::make_shared<AttentionCall<T>>(sizes, Term::plain, false);
  if (page) call->store_in_pages(page);
  const int64_t bytes = call->keys().view.size() * static_cast<int64_t>(sizeof(T));
  return {
      "attention",
      text_of(queries, gnomon::name(dtype_of<T>).data(), keys) + pages_text(page),
      Roof::memory,
      2.0 * static_cast<double>(bytes),
      [=] { call->forward(); },
      [=] {
        return reading({{call->keys().data.get(), bytes}, {call->values().data.get(), bytes}});
      },
      [=] { return call->forward_error(); },
      0,
      [=] { return call->explain(); }};
}

// The same with a cache of 8 bits. The roof reads its elements, without the scales.
Kernel int8_kernel(int64_t keys, int64_t queries) {
  struct Call {
    Shared<float, 4> q, out;
    Shared<std::int8_t, 4> k, v;
    Shared<float, 3> k_scales, v_scales;
    AttentionPlan plan;

    AttentionInput input() const {
      return {.q = q->view,
              .k = k->view,
              .v = v->view,
              .k_scales = k_scales->view,
              .v_scales = v_scales->view};
    }
  };
  const auto call = std::make_shared<Call>();
  call->q = random_block<float, 4>({1, queries, decoding_heads, decoding_dim}, 1);
  call->out = zeros<float, 4>(call->q->view.extents());
  const auto quantized = [&](unsigned seed, auto& to, auto& scales) {
    to = zeros<std::int8_t, 4>({1, keys, decoding_key_heads, decoding_dim});
    scales = zeros<float, 3>({1, keys, decoding_key_heads});
    copy_append(random_block<float, 4>({1, keys, decoding_key_heads, decoding_dim}, seed)->view,
                to->view, scales->view);
  };
  quantized(2, call->k, call->k_scales), quantized(3, call->v, call->v_scales);
  call->plan.mask = {.visibility = Visibility::causal, .offset = keys - queries};
  const int64_t bytes = call->k->view.size();
  return {"attention",
          text_of(queries, "int8", keys),
          Roof::memory,
          2.0 * static_cast<double>(bytes),
          [=] { attention(call->input(), call->plan, call->out->view); },
          [=] { return reading({{call->k->data.get(), bytes}, {call->v->data.get(), bytes}}); },
          [=] {
            const auto element = [&](const auto& x, const auto& scales) {
              return [&](int64_t j, int64_t d) {
                return double{scales->view(0, j, decoding_key_heads - 1)} *
                       x->view(0, j, decoding_key_heads - 1, d);
              };
            };
            return row_error(call->q->view[0][queries - 1][decoding_heads - 1],
                             call->out->view[0][queries - 1][decoding_heads - 1], keys,
                             element(call->k, call->k_scales),
                             element(call->v, call->v_scales));
          },
          0,
          [=] { return explain_attention(call->input(), call->plan); }};
}

// A batch of short sequences. The roof is that of its products in one matrix.
template <typename T>
Kernel batch_kernel(int64_t batch, int64_t tokens) {
  constexpr int64_t count = 8, width = 64;
  struct Call {
    Shared<T, 4> q, k, v, out;
    AttentionPlan plan{.mask = {.visibility = Visibility::causal}};

    AttentionInput input() const { return {q->view, k->view, v->view}; }
  };
  const auto call = std::make_shared<Call>();
  const std::array<std::ptrdiff_t, 4> shape{batch, tokens, count, width};
  call->q = random_block<T, 4>(shape, 1), call->k = random_block<T, 4>(shape, 2);
  call->v = random_block<T, 4>(shape, 3), call->out = zeros<T, 4>(shape);
  const AttentionSizes one{tokens, tokens, count, count, width};
  return {"attention",
          fmt::format("batch {} [{}, {}, {}, {}]", gnomon::name(dtype_of<T>), batch, tokens,
                      count, width),
          Roof::arithmetic,
          static_cast<double>(batch) * one.pairs() * static_cast<double>(4 * count * width),
          [=] { attention(call->input(), call->plan, call->out->view); },
          best_multiplier,
          [=] {
            const auto element = [&](const auto& x) {
              return [&](int64_t j, int64_t d) {
                return as_double(x->view(batch - 1, j, count - 1, d));
              };
            };
            return row_error(call->q->view[batch - 1][tokens - 1][count - 1],
                             call->out->view[batch - 1][tokens - 1][count - 1], tokens,
                             element(call->k), element(call->v));
          },
          0,
          [=] { return explain_attention(call->input(), call->plan); }};
}

}  // namespace

std::vector<KernelMaker> decoding_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto add = [&](const char* name, auto make) { all.push_back({name, make}); };
  const int64_t keys = only.value_or(32768);
  for (const int64_t queries : {1, 2, 4, 8, 16, 64}) {
    if (queries > keys) continue;
    add("attention decode", [=] { return decoding_kernel<float>(keys, queries); });
    add("attention decode", [=] { return decoding_kernel<BFloat16>(keys, queries); });
    if (queries == 1) add("attention decode", [=] { return decoding_kernel<Half>(keys, 1); });
    if (queries == 1 || queries == 4)
      add("attention decode", [=] { return int8_kernel(keys, queries); });
  }
  // Beside each other, because they are compared.
  for (const int64_t page : {0, 16, 32})
    for (const int64_t queries : {1, 4}) {
      if (queries > keys) continue;
      add("attention paged", [=] { return decoding_kernel<float>(keys, queries, page); });
      add("attention paged", [=] { return decoding_kernel<BFloat16>(keys, queries, page); });
    }
  if (!only) add("attention decode", [] { return decoding_kernel<float>(512, 1); });
  for (const int64_t tokens : only ? std::vector{*only} : std::vector<int64_t>{128, 32}) {
    const int64_t batch = std::max<int64_t>(1, tokens >= 128 ? 8192 / tokens : 32768 / tokens);
    add("attention batch", [=] { return batch_kernel<float>(batch, tokens); });
    add("attention batch", [=] { return batch_kernel<BFloat16>(batch, tokens); });
  }
  return all;
}

std::vector<CountedKernel> counted_decoding() {
  constexpr int64_t each = decoding_heads * decoding_dim;
  return {{"attention_decode", each, [] { return decoding_kernel<float>(256, 1); }},
          {"attention_few_queries", 4 * each, [] { return decoding_kernel<float>(256, 4); }},
          {"attention_decode_int8", each, [] { return int8_kernel(256, 1); }}};
}

}  // namespace gnomon::bench
