#include "gnomon/attention/attention.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::random_tensor;
using testing::Tensor;

// Sizes of a call with one thread. Compare the counter FLOPS (two for each multiply-add that
// the causal mask leaves) with the machine's sgemm rate.
struct Sizes {
  const char* name;
  std::int64_t batch, tokens, heads, key_heads, size;
};
constexpr Sizes sizes[] = {
    {"lab", 16, 128, 4, 4, 32},       // a training step of the lab
    {"prompt", 1, 1024, 4, 1, 128},   // part of a prompt of a large model, grouped heads
    {"distance", 1, 4096, 1, 1, 64},  // dense scores would far exceed the caches
};

template <typename T>
struct Call {
  Sizes of;
  Tensor<T, 4> q, k, v, out, q_grad, k_grad, v_grad;
  Tensor<Accumulator<T>, 3> lse;
  AttentionPlan plan{.mask = {.visibility = Visibility::causal}};

  explicit Call(const Sizes& s)
      : of(s),
        q(random_tensor<T, 4>({s.batch, s.tokens, s.heads, s.size}, 1)),
        k(random_tensor<T, 4>({s.batch, s.tokens, s.key_heads, s.size}, 2)),
        v(random_tensor<T, 4>({s.batch, s.tokens, s.key_heads, s.size}, 3)),
        out(q),
        q_grad(q),
        k_grad(k),
        v_grad(v),
        lse({s.batch, s.heads, s.tokens}) {}
  void forward() { attention({q.view(), k.view(), v.view()}, plan, out.view(), lse.view()); }
  void backward() {
    attention_backward({q.view(), k.view(), v.view()}, plan, out.view(), lse.view(), out.view(),
                       {.q = q_grad.view(), .k = k_grad.view(), .v = v_grad.view()});
  }
  // Floating-point operations (two for each multiply-add) of `products` products over the
  // causal half.
  double flops(int products) const {
    return static_cast<double>(of.batch * of.heads * of.tokens * of.tokens * of.size) *
           products;
  }
};

void count(benchmark::State& state, double flops) {
  state.counters["FLOPS"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void BM_Forward(benchmark::State& state, Isa isa, const Sizes& s) {
  const ScopedIsa scope(isa);
  set_threads(1);
  Call<T> call(s);
  for (auto _ : state) call.forward();
  count(state, call.flops(2));
}

template <typename T>
void BM_Backward(benchmark::State& state, Isa isa, const Sizes& s) {
  const ScopedIsa scope(isa);
  set_threads(1);
  Call<T> call(s);
  call.forward();
  for (auto _ : state) call.backward();
  count(state, call.flops(5));
}

// A straightforward implementation: a row of scores at a time, plain loops.
void BM_Naive(benchmark::State& state, const Sizes& s) {
  Call<float> call(s);
  const float scale = static_cast<float>(softmax_scale(s.size));
  std::vector<float> score(static_cast<std::size_t>(s.tokens));
  for (auto _ : state) {
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < s.tokens; ++i) {
          const std::int64_t g = h / (s.heads / s.key_heads);
          const float* q = &call.q.view()(b, i, h, 0);
          float* out = &call.out.view()(b, i, h, 0);
          float most = -std::numeric_limits<float>::infinity(), sum = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            const float* k = &call.k.view()(b, j, g, 0);
            float dot = 0;
            for (std::int64_t d = 0; d < s.size; ++d) dot += q[d] * k[d];
            score[static_cast<std::size_t>(j)] = scale * dot;
            most = std::max(most, scale * dot);
          }
          std::fill_n(out, s.size, 0.f);
          for (std::int64_t j = 0; j <= i; ++j) {
            const float* v = &call.v.view()(b, j, g, 0);
            const float p = std::exp(score[static_cast<std::size_t>(j)] - most);
            sum += p;
            for (std::int64_t d = 0; d < s.size; ++d) out[d] += p * v[d];
          }
          for (std::int64_t d = 0; d < s.size; ++d) out[d] /= sum;
        }
    benchmark::ClobberMemory();
  }
  count(state, call.flops(2));
}

const bool registered = [] {
  for (const Sizes& s : sizes) {
    std::string at = "/";
    at += s.name;
    benchmark::RegisterBenchmark(("AttentionNaive" + at).c_str(), BM_Naive, s);
    for (Isa isa : available_isas()) {
      const std::string where = at + "/" + std::string(name(isa));
      benchmark::RegisterBenchmark(("Attention" + where).c_str(), BM_Forward<float>, isa, s);
      benchmark::RegisterBenchmark(("AttentionBackward" + where).c_str(), BM_Backward<float>,
                                   isa, s);
    }
    const Isa best = available_isas().back();
    benchmark::RegisterBenchmark(("AttentionBf16" + at).c_str(), BM_Forward<BFloat16>, best, s);
    benchmark::RegisterBenchmark(("AttentionBackwardBf16" + at).c_str(), BM_Backward<BFloat16>,
                                 best, s);
    benchmark::RegisterBenchmark(("AttentionDouble" + at).c_str(), BM_Forward<double>, best, s);
  }
  return true;
}();

}  // namespace
}  // namespace gnomon
