#include "gnomon/rotary/mamba3.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/rotary/accumulate.h"

namespace gnomon {
namespace {

using internal::to_size;
using rotary_internal::accumulate;

constexpr double half_turn = std::numbers::pi;

void check(const RotaryMamba3& m) {
  if (m.heads < 1) refuse("mamba3", "heads must be at least 1", m.heads);
  if (m.width < 1) refuse("mamba3", "width must be at least 1", m.width);
  lower(Rotary{.rotary_dim = m.rotary_dim, .pairing = m.pairing});
}

template <typename T>
void check(const RotaryMamba3& m, const Mamba3Weights<T>& weights) {
  check(m);
  internal::check_shape<2>("mamba3", "angle", weights.angle.extents(),
                           {m.rotary_dim / 2, m.width});
  internal::check_shape<2>("mamba3", "step", weights.step.extents(), {m.heads, m.width});
  internal::check_shape<1>("mamba3", "bias", weights.bias.extents(), {m.heads});
}

void check(const RotaryMamba3& m, View<const float, 3> x, const Positions* tokens,
           View<const float, 4> out) {
  internal::check_shape<3>("mamba3", "x", x.extents(), {x.extent(0), x.extent(1), m.width});
  internal::check_shape<4>("mamba3", "out", out.extents(),
                           {x.extent(0), x.extent(1), m.heads, m.rotary_dim / 2});
  if (tokens &&
      (tokens->tokens != x.extent(1) || (tokens->batch != 1 && tokens->batch != x.extent(0))))
    refuse("mamba3", "positions must have the tokens of x, " + std::to_string(x.extent(1)),
           tokens->tokens);
}

double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }

// W_a x, W_dt x + b of a token.
struct Projected {
  std::vector<double> angle, step;  // [P], [H]

  void read(const Mamba3Weights<const float>& weights, View<const float, 3> x, std::int64_t b,
            std::int64_t t) {
    const auto product = [&](const View<const float, 2>& matrix, std::int64_t row) {
      double sum = 0;
      for (std::ptrdiff_t n = 0; n < matrix.extent(1); ++n)
        sum += double{matrix(row, n)} * double{x(b, t, n)};
      return sum;
    };
    angle.resize(to_size(weights.angle.extent(0))),
        step.resize(to_size(weights.step.extent(0)));
    for (std::size_t i = 0; i < angle.size(); ++i)
      angle[i] = product(weights.angle, static_cast<std::int64_t>(i));
    for (std::size_t h = 0; h < step.size(); ++h)
      step[h] = product(weights.step, static_cast<std::int64_t>(h)) +
                double{weights.bias(static_cast<std::int64_t>(h))};
  }
};

// Calls body(b, t) for all tokens that are not padding, and padding(b, t) for the others.
template <typename Body, typename Padding>
void for_tokens(View<const float, 3> x, const Positions* tokens, const Body& body,
                const Padding& padding) {
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t) {
      const std::int64_t row = tokens && tokens->batch != 1 ? b * x.extent(1) + t : t;
      if (tokens && tokens->sequences[to_size(row)] == Positions::padding)
        padding(b, t);
      else
        body(b, t);
    }
}

}  // namespace

TokenRotation lower(const RotaryMamba3& mamba3) {
  check(mamba3);
  return {.rotary_dim = mamba3.rotary_dim,
          .pairing = mamba3.pairing,
          .term = AngleTerm::increments};
}

void increments(const RotaryMamba3& mamba3, const Mamba3Weights<const float>& weights,
                View<const float, 3> x, const Positions* tokens, View<float, 4> out) {
  check(mamba3, weights), check(mamba3, x, tokens, out);
  Projected z;
  const auto write = [&](std::int64_t b, std::int64_t t, const auto& value) {
    for (std::ptrdiff_t h = 0; h < out.extent(2); ++h)
      for (std::ptrdiff_t i = 0; i < out.extent(3); ++i)
        out(b, t, h, i) = static_cast<float>(value(to_size(h), to_size(i)));
  };
  for_tokens(
      x, tokens,
      [&](std::int64_t b, std::int64_t t) {
        z.read(weights, x, b, t);
        for (double& one : z.angle) one = half_turn * std::tanh(one);
        for (double& one : z.step) one = softplus(one);
        write(b, t, [&](std::size_t h, std::size_t i) { return z.step[h] * z.angle[i]; });
      },
      [&](std::int64_t b, std::int64_t t) {
        write(b, t, [](std::size_t, std::size_t) { return 0.0; });
      });
}

void increments_backward(const RotaryMamba3& mamba3, const Mamba3Weights<const float>& weights,
                         View<const float, 3> x, const Positions* tokens,
                         View<const float, 4> out_grad, View<float, 3> x_grad,
                         const Mamba3Weights<float>& grads) {
  check(mamba3, weights), check(mamba3, x, tokens, out_grad);
  const bool trained = grads.step.data();
  if (trained) check(mamba3, grads);
  if (x_grad.data())
    internal::check_shape<3>("mamba3", "x_grad", x_grad.extents(), x.extents());
  const std::int64_t heads = out_grad.extent(2), pairs = out_grad.extent(3);
  const std::int64_t width = x.extent(2);
  // Sums of all tokens, in double: those of W_a, then W_dt and b of each head.
  std::vector<double> angle_sums(to_size(pairs * width)), step_sums(to_size(heads * width)),
      bias_sums(to_size(heads));
  std::vector<double> row_grad(to_size(width));
  Projected z;
  for_tokens(
      x, tokens,
      [&](std::int64_t b, std::int64_t t) {
        z.read(weights, x, b, t);
        std::fill(row_grad.begin(), row_grad.end(), 0.0);
        // Adds the gradient of one product of a row of a matrix and x.
        const auto put = [&](const View<const float, 2>& matrix, std::int64_t row,
                             std::vector<double>& sums, double grad) {
          for (std::ptrdiff_t n = 0; n < width; ++n) {
            sums[to_size(row * width + n)] += grad * double{x(b, t, n)};
            row_grad[to_size(n)] += grad * double{matrix(row, n)};
          }
        };
        for (std::ptrdiff_t i = 0; i < pairs; ++i) {
          double grad = 0;
          for (std::ptrdiff_t h = 0; h < heads; ++h)
            grad += softplus(z.step[to_size(h)]) * double{out_grad(b, t, h, i)};
          const double tanh = std::tanh(z.angle[to_size(i)]);
          put(weights.angle, i, angle_sums, half_turn * (1 - tanh * tanh) * grad);
        }
        for (std::ptrdiff_t h = 0; h < heads; ++h) {
          double grad = 0;
          for (std::ptrdiff_t i = 0; i < pairs; ++i)
            grad += half_turn * std::tanh(z.angle[to_size(i)]) * double{out_grad(b, t, h, i)};
          grad /= 1 + std::exp(-z.step[to_size(h)]);
          put(weights.step, h, step_sums, grad);
          bias_sums[to_size(h)] += grad;
        }
        if (x_grad.data())
          for (std::ptrdiff_t n = 0; n < width; ++n)
            accumulate(x_grad(b, t, n), row_grad[to_size(n)]);
      },
      [](std::int64_t, std::int64_t) {});
  if (!trained) return;
  const auto add_all = [&](const View<float, 2>& to, const std::vector<double>& sums) {
    for (std::ptrdiff_t row = 0; row < to.extent(0); ++row)
      for (std::ptrdiff_t n = 0; n < width; ++n)
        accumulate(to(row, n), sums[to_size(row * width + n)]);
  };
  add_all(grads.angle, angle_sums), add_all(grads.step, step_sums);
  for (std::ptrdiff_t h = 0; h < heads; ++h) accumulate(grads.bias(h), bias_sums[to_size(h)]);
}

}  // namespace gnomon
