#include "apps/cli/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/cli/tensors.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/t5.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

template <typename T, std::size_t Rank>
using Shared = std::shared_ptr<Tensor<T, Rank>>;

template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

// Numbers between -1 and 1 without a pattern that a kernel could gain from.
template <typename T, std::size_t Rank>
Shared<T, Rank> random_tensor(std::array<std::ptrdiff_t, Rank> shape) {
  auto tensor = std::make_shared<Tensor<T, Rank>>(shape);
  std::uint64_t state = 1;
  for (T& value : tensor->values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<T>(static_cast<double>(state >> 40) * 0x1p-23 - 1);
  }
  return tensor;
}

// Roofs. -----------------------------------------------------------------------------------

constexpr int64_t roof_grain = 1 << 15;  // elements; a piece worth a thread

std::function<void()> touching(int64_t bytes) {
  auto buffer = std::make_shared<std::vector<std::uint32_t>>(
      static_cast<std::size_t>(std::max<int64_t>(bytes, 4) / 4), 1u);
  return [buffer] {
    std::uint32_t* data = buffer->data();
    parallel_for(static_cast<int64_t>(buffer->size()), roof_grain,
                 [data](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) data[i] ^= 0x80000000u;
                 });
  };
}

std::function<void()> writing(int64_t bytes) {
  auto buffer = std::make_shared<std::vector<std::uint32_t>>(
      static_cast<std::size_t>(std::max<int64_t>(bytes, 4) / 4));
  return [buffer] {
    std::uint32_t* data = buffer->data();
    parallel_for(
        static_cast<int64_t>(buffer->size()), roof_grain,
        [data](int64_t begin, int64_t end) { std::fill(data + begin, data + end, 7u); });
  };
}

#if defined(__x86_64__)
#define GNOMON_WIDEST __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define GNOMON_WIDEST
#endif
// 256 independent chains: enough for any latency and width.
GNOMON_WIDEST float multiply_add(int64_t rounds, float factor) {
  float sums[256] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (float& sum : sums) sum = sum * factor + 1.0f;
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

std::function<void()> multiplying(double operations) {
  return [operations] {
    constexpr int64_t pieces = 64;
    const auto rounds = static_cast<int64_t>(operations / (2.0 * 256 * pieces));
    parallel_for(pieces, 1, [rounds](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        volatile float kept = multiply_add(std::max<int64_t>(1, rounds), 0.5f);
        (void)kept;
      }
    });
  };
}

// Kernels. ---------------------------------------------------------------------------------

constexpr int64_t width = 1024, heads_count = 32, head_size = 128;

Integers positions(int64_t tokens) { return consecutive(tokens).ids; }

Kernel fill_kernel(int64_t tokens) {
  auto out = std::make_shared<Tensor<float, 2>>(std::array<std::ptrdiff_t, 2>{tokens, width});
  const Sinusoidal spec{.dim = width, .recipe = SinusoidalRecipe::interleaved};
  const Integers ids = positions(tokens);
  const int64_t bytes = tokens * width * 4;
  return {"fill",
          fmt::format("sinusoidal f32 [{}, {}]", tokens, width),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { fill(spec, ids, out->view); },
          writing(bytes),
          [=] {
            double worst = 0;
            const auto f = frequencies(spec);
            for (int64_t t = 0; t < tokens; t += 61)
              for (std::size_t i = 0; i < f.size(); i += 7) {
                const auto c = static_cast<int64_t>(2 * i);
                const long double angle = static_cast<long double>(t) * f[i];
                worst = std::max(
                    {worst, std::fabs(out->view(t, c) - static_cast<double>(std::sin(angle))),
                     std::fabs(out->view(t, c + 1) - static_cast<double>(std::cos(angle)))});
              }
            return worst;
          }};
}

Kernel table_kernel(int64_t tokens) {
  const Rotary spec{.dim = head_size, .pairing = Pairing::halves};
  const Integers ids = positions(tokens);
  const int64_t bytes = tokens * head_size * 4;
  return {"table",
          fmt::format("rotary f32 [2, {}, {}]", tokens, head_size / 2),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            const RotaryTable table(spec, ids);
            volatile float kept = table.cos().data()[0];
            (void)kept;
          },
          writing(bytes),
          [=] {
            const RotaryTable table(spec, ids);
            const auto f = inverse_frequencies(spec);
            double worst = 0;
            for (int64_t t = 0; t < tokens; t += 61)
              for (std::size_t i = 0; i < f.size(); ++i)
                worst = std::max(worst, std::fabs(table.cos()(0, t, static_cast<int64_t>(i)) -
                                                  static_cast<double>(std::cos(
                                                      static_cast<long double>(t) * f[i]))));
            return worst;
          }};
}

template <typename T>
Kernel add_kernel(int64_t tokens) {
  auto x = random_tensor<T, 3>({1, tokens, width});
  auto table = random_tensor<float, 2>({tokens, width});
  const int64_t bytes = tokens * width * static_cast<int64_t>(sizeof(T));
  return {"add", fmt::format("table to {} [1, {}, {}]", name(dtype_of<T>), tokens, width),
          Roof::memory, static_cast<double>(bytes),
          // Back and forth, so that values stay where they are.
          [=, sign = 1.0f]() mutable {
            add_table<T>(x->view, table->view, sign);
            sign = -sign;
          },
          touching(bytes),
          [=] {
            auto fresh = random_tensor<T, 3>({1, tokens, width});
            const auto before = fresh->values;
            add_table<T>(fresh->view, table->view);
            double worst = 0;
            for (std::size_t i = 0; i < before.size(); i += 13)
              worst = std::max(worst, std::fabs(as_double(fresh->values[i]) -
                                                (as_double(before[i]) +
                                                 static_cast<double>(table->values[i]))));
            return worst;
          }};
}

template <typename T>
Kernel rotate_kernel(int64_t tokens, Pairing pairing, bool backward) {
  const Rotary spec{.dim = head_size, .pairing = pairing};
  auto table = std::make_shared<RotaryTable>(spec, positions(tokens));
  auto x = random_tensor<T, 3>({tokens, heads_count, head_size});
  const int64_t bytes = x->view.size() * static_cast<int64_t>(sizeof(T));
  return {"rotate",
          fmt::format("{} {}{} [{}, {}, {}]", name(dtype_of<T>),
                      pairing == Pairing::halves ? "halves" : "adjacent",
                      backward ? " back" : "", tokens, heads_count, head_size),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            if (backward)
              rotate_backward(x->view, *table);
            else
              rotate(x->view, *table);
          },
          touching(bytes),
          [=] {
            auto fresh = random_tensor<T, 3>({tokens, heads_count, head_size});
            const auto before = random_tensor<T, 3>({tokens, heads_count, head_size});
            if (backward)
              rotate_backward(fresh->view, *table);
            else
              rotate(fresh->view, *table);
            const auto f = inverse_frequencies(spec);
            const bool halves = pairing == Pairing::halves;
            double worst = 0;
            for (int64_t t = 0; t < tokens; t += 61)
              for (int64_t i = 0; i < head_size / 2; ++i) {
                const int64_t at = halves ? i : 2 * i,
                              with = halves ? i + head_size / 2 : at + 1;
                const long double angle = static_cast<long double>(backward ? -t : t) *
                                          f[static_cast<std::size_t>(i)];
                const long double a = as_double(before->view(t, 3, at)),
                                  b = as_double(before->view(t, 3, with));
                const auto expected =
                    static_cast<double>(a * std::cos(angle) - b * std::sin(angle));
                worst = std::max(worst, std::fabs(as_double(fresh->view(t, 3, at)) - expected));
              }
            return worst;
          }};
}

Kernel dense_kernel(int64_t tokens) {
  constexpr int64_t few = 8;
  auto out =
      std::make_shared<Tensor<float, 3>>(std::array<std::ptrdiff_t, 3>{few, tokens, tokens});
  const BiasForm form = lower(Alibi{.heads = few});
  const int64_t bytes = out->view.size() * 4;
  return {"bias",
          fmt::format("alibi dense f32 [{}, {}, {}]", few, tokens, tokens),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { dense(form, 0, out->view); },
          writing(bytes),
          [=] {
            double worst = 0;
            for (int64_t q = 0; q < tokens; q += 7)
              for (int64_t h = 0; h < few; ++h)
                worst = std::max(worst, std::fabs(out->view(h, q, 0) +
                                                  std::exp2(-static_cast<double>(h + 1)) *
                                                      static_cast<double>(q)));
            return worst;
          }};
}

// One row of attention in double, straight from the formula, against the kernel's last row.
double attention_error(const Tensor<float, 4>& q, const Tensor<float, 4>& k,
                       const Tensor<float, 4>& v, const BiasForm& bias,
                       const Tensor<float, 4>& out) {
  const int64_t tokens = q.view.extent(1), size = q.view.extent(3), last = tokens - 1;
  double worst = 0;
  for (int64_t h = 0; h < q.view.extent(2); ++h) {
    std::vector<double> row(static_cast<std::size_t>(tokens));
    double sum = 0;
    const auto* slope = std::get_if<SlopeBias>(&bias);
    for (int64_t j = 0; j < tokens; ++j) {
      double score = 0;
      for (int64_t d = 0; d < size; ++d)
        score += double{q.view(0, last, h, d)} * double{k.view(0, j, h, d)};
      score *= softmax_scale(size);
      if (slope)
        score -= slope->slopes[static_cast<std::size_t>(h)] * static_cast<double>(last - j);
      sum += row[static_cast<std::size_t>(j)] = std::exp(score);
    }
    for (int64_t d = 0; d < size; ++d) {
      double value = 0;
      for (int64_t j = 0; j < tokens; ++j)
        value += row[static_cast<std::size_t>(j)] * double{v.view(0, j, h, d)};
      worst = std::max(worst, std::fabs(out.view(0, last, h, d) - value / sum));
    }
  }
  return worst;
}

Kernel attention_kernel(int64_t tokens, const char* what, bool backward) {
  constexpr int64_t few = 8, size = 64;
  const std::array<std::ptrdiff_t, 4> shape{1, tokens, few, size};
  auto q = random_tensor<float, 4>(shape), k = random_tensor<float, 4>(shape),
       v = random_tensor<float, 4>(shape), grad = random_tensor<float, 4>(shape);
  std::shared_ptr<Tensor<float, 4>> out = random_tensor<float, 4>(shape), dq, dk, dv;
  auto lse = random_tensor<float, 3>({1, few, tokens});
  if (backward)
    dq = random_tensor<float, 4>(shape), dk = random_tensor<float, 4>(shape),
    dv = random_tensor<float, 4>(shape);
  AttentionPosition position;
  if (std::string(what) == "alibi") position.bias = lower(Alibi{.heads = few});
  const AttentionMask mask{.visibility = Visibility::causal};
  const double pairs = static_cast<double>(tokens) * static_cast<double>(tokens + 1) / 2;
  // Two products of 2 D operations forward; five backward.
  const double work = pairs * few * size * (backward ? 10 : 4);
  const auto forward = [=] {
    attention<float>(q->view, k->view, v->view, mask, position, softmax_scale(size), out->view,
                     lse->view);
  };
  if (backward) forward();
  return {
      "attention",
      fmt::format("{} {}f32 [{}, {}, {}]", what, backward ? "back " : "", tokens, few, size),
      Roof::arithmetic,
      work,
      [=] {
        if (backward)
          attention_backward<float>(q->view, k->view, v->view, mask, position,
                                    softmax_scale(size), out->view, lse->view, grad->view,
                                    dq->view, dk->view, dv->view);
        else
          forward();
      },
      multiplying(work),
      [=] { return attention_error(*q, *k, *v, position.bias, *out); }};
}

}  // namespace

std::vector<std::function<Kernel()>> kernels(const std::string& name) {
  std::vector<std::function<Kernel()>> list;
  const auto add = [&](const std::string& kernel, auto make) {
    if (kernel.compare(0, name.size(), name) == 0) list.push_back(make);
  };
  for (int64_t tokens : {1, 512, 8192}) add("fill", [=] { return fill_kernel(tokens); });
  for (int64_t tokens : {1, 512, 8192}) add("table", [=] { return table_kernel(tokens); });
  for (int64_t tokens : {1, 512, 8192}) {
    add("add", [=] { return add_kernel<float>(tokens); });
    add("add", [=] { return add_kernel<BFloat16>(tokens); });
  }
  for (int64_t tokens : {1, 512, 8192})
    for (Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
      add("rotate", [=] { return rotate_kernel<float>(tokens, pairing, false); });
      add("rotate", [=] { return rotate_kernel<Half>(tokens, pairing, false); });
      add("rotate", [=] { return rotate_kernel<BFloat16>(tokens, pairing, false); });
      add("rotate", [=] { return rotate_kernel<float>(tokens, pairing, true); });
    }
  for (int64_t tokens : {128, 1024}) add("bias", [=] { return dense_kernel(tokens); });
  for (int64_t tokens : {128, 512, 2048})
    for (const char* what : {"plain", "alibi"})
      for (const bool backward : {false, true})
        add("attention", [=] { return attention_kernel(tokens, what, backward); });
  return list;
}

}  // namespace gnomon::cli
