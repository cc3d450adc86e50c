#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/cli/kernel_parts.h"
#include "apps/cli/kernels.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

// One row of attention in double, straight from the formula, against the kernel's last row.
double attention_error(const Block<float, 4>& q, const Block<float, 4>& k,
                       const Block<float, 4>& v, const BiasForm& bias,
                       const Block<float, 4>& out) {
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
  auto q = random_block<float, 4>(shape), k = random_block<float, 4>(shape),
       v = random_block<float, 4>(shape), grad = random_block<float, 4>(shape);
  Shared<float, 4> out = random_block<float, 4>(shape), dq, dk, dv;
  auto lse = random_block<float, 3>({1, few, tokens});
  if (backward)
    dq = random_block<float, 4>(shape), dk = random_block<float, 4>(shape),
    dv = random_block<float, 4>(shape);
  AttentionPosition position;
  if (std::string(what) == "alibi") position.bias = lower(Alibi{.heads = few});
  const AttentionMask mask{.visibility = Visibility::causal};
  const double pairs = static_cast<double>(tokens) * static_cast<double>(tokens + 1) / 2;
  // Two products of 2 D operations forward; five backward.
  const double work = pairs * few * size * (backward ? 10 : 4);
  const auto forward = [=] {
    attention<float>(q->view, k->view, v->view, mask, position, {.scale = softmax_scale(size)},
                     out->view, lse->view);
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
                                    {.scale = softmax_scale(size)}, out->view, lse->view,
                                    grad->view, dq->view, dk->view, dv->view);
        else
          forward();
      },
      multiplying(work),
      [=] { return attention_error(*q, *k, *v, position.bias, *out); }};
}

}  // namespace

std::vector<KernelMaker> attention_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  for (const int64_t tokens : only ? std::vector{*only} : std::vector<int64_t>{128, 512, 2048})
    for (const char* what : {"plain", "alibi"})
      for (const bool backward : {false, true})
        all.push_back({"attention", [=] { return attention_kernel(tokens, what, backward); }});
  return all;
}

}  // namespace gnomon::cli
