// Gnomon behind C functions on raw pointers, for ctypes: what compare.py times against peers,
// and the roof. Loops run here, too, so that a call's price in Python can be told from ours.
//
// Letters: B batch, T tokens, H query heads, K key heads, D head size, C channels.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/t5.h"
#include "gnomon/dtype.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/version.h"

#if defined(__x86_64__)
#define GNOMON_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GNOMON_WIDEST
#endif

namespace gnomon {
namespace {

// As ctypes lays it out (contenders/gnomon.py).
struct Heads {
  void* q;
  void* k;
  std::int64_t dtype;          // a DType
  std::int64_t heads_outside;  // 0: [B, T, H, D]; 1: [B, H, T, D]
  std::int64_t batch, tokens, query_heads, key_heads, size;
};

template <typename T>
View<T, 4> view(const Heads& x, void* data, std::int64_t heads) {
  const std::int64_t row = heads * x.size, all = x.tokens * row;
  if (x.heads_outside)
    return {static_cast<T*>(data),
            {x.batch, x.tokens, heads, x.size},
            {all, x.size, x.tokens * x.size, 1}};
  return {static_cast<T*>(data), {x.batch, x.tokens, heads, x.size}, {all, row, x.size, 1}};
}

template <typename T>
void turn(const Heads& x, const RotaryTable& table, bool backward) {
  rotate(view<T>(x, x.q, x.query_heads), view<T>(x, x.k, x.key_heads), table,
         backward ? Direction::inverse : Direction::forward);
}

void turn_any(const Heads& x, const RotaryTable& table, bool backward) {
  switch (static_cast<DType>(x.dtype)) {
    case DType::f32:
      return turn<float>(x, table, backward);
    case DType::f16:
      return turn<Half>(x, table, backward);
    case DType::bf16:
      return turn<BFloat16>(x, table, backward);
    case DType::f64:
      return turn<double>(x, table, backward);
  }
}

// As ctypes lays it out, too: [T, H, D] each, causal; the table [32, H]. Without a table ALiBi.
struct Attention {
  const float *q, *k, *v;
  float *out, *lse;
  std::int64_t tokens, heads, size;
  const float *table, *out_grad;
  float *q_grad, *k_grad, *v_grad, *table_grad;

  template <typename T>
  View<T, 4> rows(T* data) const {
    return {data, {1, tokens, heads, size}};
  }
  T5Bias t5() const { return {.heads = heads, .direction = T5Direction::causal}; }
  BiasForm bias() const {
    if (!table) return lower(Alibi{.heads = heads});
    return strip(t5(), View<const float, 2>(table, {t5().buckets, heads}), 1 - tokens, tokens);
  }
};
AttentionPlan causal(const Attention& x) {
  return {.mask = {.visibility = Visibility::causal}, .bias = x.bias()};
}

void attend(const Attention& x, const AttentionPlan& plan) {
  attention({x.rows(x.q), x.rows(x.k), x.rows(x.v)}, plan, x.rows(x.out),
            View<float, 3>(x.lse, {1, x.heads, x.tokens}));
}

// Both passes, and the gradient of the table.
void train(const Attention& x) {
  const AttentionPlan plan = causal(x);
  BiasGradient bias_grad;
  attend(x, plan);
  attention_backward({x.rows(x.q), x.rows(x.k), x.rows(x.v)}, plan, x.rows(x.out),
                     View<const float, 3>(x.lse, {1, x.heads, x.tokens}), x.rows(x.out_grad),
                     {.q = x.rows(x.q_grad),
                      .k = x.rows(x.k_grad),
                      .v = x.rows(x.v_grad),
                      .bias = &bias_grad});
  const View<float, 2> table_grad(x.table_grad, {x.t5().buckets, x.heads});
  std::fill_n(x.table_grad, table_grad.size(), 0.0f);
  strip_backward(x.t5(), bias_grad.values, 1 - x.tokens, x.tokens, table_grad);
}

GNOMON_WIDEST void flip_signs(std::uint32_t* data, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) data[i] ^= 0x80000000u;
}

GNOMON_WIDEST void put_ones(std::uint32_t* data, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) data[i] = 0x3f800000u;
}

constexpr std::int64_t roof_grain = 1 << 15;  // elements; a piece worth a thread

// Nanoseconds of `count` calls, or -1 with the reason on stderr.
template <typename Call>
std::int64_t timed(std::int64_t count, Call&& call) noexcept {
  try {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) call();
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bridge: %s\n", error.what());
    return -1;
  }
}

std::vector<std::int64_t> range(std::int64_t start, std::int64_t count) {
  return consecutive(count, start).ids;
}

}  // namespace
}  // namespace gnomon

using gnomon::Attention;
using gnomon::Heads;
using gnomon::RotaryTable;
using std::int64_t;

#define GNOMON_PEERS extern "C" __attribute__((visibility("default")))

GNOMON_PEERS void gnomon_set_threads(int64_t count) {
  gnomon::set_threads(static_cast<int>(count));
}

GNOMON_PEERS RotaryTable* gnomon_rotary_table(int64_t dim, int64_t adjacent, double base,
                                              int64_t start, int64_t tokens) {
  const auto pairing = adjacent ? gnomon::Pairing::adjacent : gnomon::Pairing::halves;
  return new RotaryTable({.dim = dim, .pairing = pairing, .base = base},
                         gnomon::range(start, tokens));
}

GNOMON_PEERS void gnomon_free_table(RotaryTable* table) { delete table; }

GNOMON_PEERS const float* gnomon_table_values(const RotaryTable* table) {
  return table->cos().data();
}

GNOMON_PEERS int64_t gnomon_rotate(const Heads* x, const RotaryTable* table, int64_t backward,
                                   int64_t count) {
  return gnomon::timed(count, [&] { gnomon::turn_any(*x, *table, backward != 0); });
}

// out: [T, C].
GNOMON_PEERS int64_t gnomon_sinusoidal(float* out, int64_t tokens, int64_t channels,
                                       int64_t start, int64_t count) {
  const auto ids = gnomon::range(start, tokens);
  const gnomon::Sinusoidal spec{.dim = channels,
                                .recipe = gnomon::SinusoidalRecipe::interleaved};
  return gnomon::timed(
      count, [&] { gnomon::fill(spec, ids, gnomon::View<float, 2>(out, {tokens, channels})); });
}

// cosines, sines: [T, R/2] each.
GNOMON_PEERS int64_t gnomon_cos_sin(float* cosines, float* sines, int64_t tokens, int64_t dim,
                                    double base, int64_t start, int64_t count) {
  const auto ids = gnomon::range(start, tokens);
  return gnomon::timed(count, [&] {
    const auto inv_freq = gnomon::inverse_frequencies(
        {.dim = dim, .pairing = gnomon::Pairing::halves, .base = base});
    gnomon::fill_cos_sin(std::span<const int64_t>(ids), std::span<const double>(inv_freq),
                         gnomon::View<float, 2>(cosines, {tokens, dim / 2}),
                         gnomon::View<float, 2>(sines, {tokens, dim / 2}));
  });
}

// x: [B, T, C]; table: [T, C].
GNOMON_PEERS int64_t gnomon_add_table(float* x, const float* table, int64_t batch,
                                      int64_t tokens, int64_t channels, int64_t count) {
  return gnomon::timed(count, [&] {
    gnomon::add_table(gnomon::View<float, 3>(x, {batch, tokens, channels}),
                      gnomon::View<const float, 2>(table, {tokens, channels}));
  });
}

GNOMON_PEERS int64_t gnomon_attention(const Attention* x, int64_t count) {
  return gnomon::timed(
      count, [&] { x->table ? gnomon::train(*x) : gnomon::attend(*x, gnomon::causal(*x)); });
}

// The roofs: the same bytes read and written in place, and the same bytes only written.
GNOMON_PEERS int64_t gnomon_touch(std::uint32_t* data, int64_t words, int64_t count) {
  return gnomon::timed(count, [&] {
    gnomon::parallel_for(words, gnomon::roof_grain, [data](int64_t begin, int64_t end) {
      gnomon::flip_signs(data, begin, end);
    });
  });
}

GNOMON_PEERS int64_t gnomon_fill(std::uint32_t* data, int64_t words, int64_t count) {
  return gnomon::timed(count, [&] {
    gnomon::parallel_for(words, gnomon::roof_grain, [data](int64_t begin, int64_t end) {
      gnomon::put_ones(data, begin, end);
    });
  });
}

GNOMON_PEERS const char* gnomon_isa() { return gnomon::name(gnomon::current_isa()).data(); }
GNOMON_PEERS const char* gnomon_version() { return GNOMON_VERSION; }
GNOMON_PEERS const char* gnomon_compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}
