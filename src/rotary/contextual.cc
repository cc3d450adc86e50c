#include "gnomon/rotary/contextual.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/rotary/accumulate.h"

namespace gnomon {
namespace {

using internal::to_size;
using rotary_internal::accumulate;
using std::int64_t;

RotaryFrequencies plain(const RotaryContextual& c) {
  if (c.width < 1) refuse("contextual", "width must be at least 1", c.width);
  if (c.heads < 1) refuse("contextual", "heads must be at least 1", c.heads);
  if (!(c.scale > 0) || !std::isfinite(c.scale))
    refuse("contextual", "scale must be positive and finite", c.scale);
  return lower(Rotary{.rotary_dim = c.rotary_dim, .pairing = c.pairing, .base = c.base});
}

template <typename T>
void check(const RotaryContextual& c, const ContextualWeights<T>& weights) {
  plain(c);
  internal::check_shape<1>("contextual", "log_frequencies", weights.log_frequencies.extents(),
                           {c.rotary_dim / 2});
  internal::check_shape<2>("contextual", "weight", weights.weight.extents(),
                           {c.heads, c.width});
  internal::check_shape<1>("contextual", "bias", weights.bias.extents(), {c.heads});
}

void check(const RotaryContextual& c, View<const float, 3> x, const Positions* tokens,
           View<const float, 4> out) {
  internal::check_shape<3>("contextual", "x", x.extents(),
                           {out.extent(0), x.extent(1), c.width});
  internal::check_shape<4>("contextual", "out", out.extents(),
                           {x.extent(0), out.extent(1), c.heads, c.rotary_dim / 2});
  if (x.extent(1) < out.extent(1) || x.extent(1) > out.extent(1) + 1)
    refuse("contextual",
           "x must have the tokens of the increments, " + std::to_string(out.extent(1)) +
               ", and at most 1 before them",
           int64_t{x.extent(1)});
  if (tokens &&
      (tokens->tokens != x.extent(1) || (tokens->batch != 1 && tokens->batch != x.extent(0))))
    refuse("contextual", "positions must have the tokens of x, " + std::to_string(x.extent(1)),
           tokens->tokens);
}

// Calls body(b, t, h, row of x of the token before, its w) for all increments that are not 0.
template <typename Body>
void for_increments(const RotaryContextual& c, const ContextualWeights<const float>& weights,
                    View<const float, 3> x, const Positions* tokens, std::int64_t count,
                    const Body& body) {
  const std::int64_t earlier = x.extent(1) - count;
  const auto sequence = [&](std::int64_t b, std::int64_t row) -> std::int32_t {
    if (!tokens) return 0;
    return tokens->sequences[to_size((tokens->batch == 1 ? 0 : b * x.extent(1)) + row)];
  };
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < count; ++t) {
      const std::int64_t before = earlier + t - 1;
      if (before < 0 || sequence(b, before) != sequence(b, before + 1) ||
          sequence(b, before) == Positions::padding)
        continue;
      for (std::ptrdiff_t h = 0; h < c.heads; ++h) {
        double z = double{weights.bias(h)};
        for (std::ptrdiff_t n = 0; n < c.width; ++n)
          z += double{weights.weight(h, n)} * double{x(b, before, n)};
        body(b, t, h, before, 1 / (1 + std::exp(-z / c.scale)));
      }
    }
}

}  // namespace

std::vector<float> initial_log_frequencies(const RotaryContextual& contextual) {
  std::vector<float> all;
  for (const double one : plain(contextual).inv_freq)
    all.push_back(static_cast<float>(std::log(one)));
  return all;
}

TokenRotation lower(const RotaryContextual& contextual) {
  plain(contextual);
  return {.rotary_dim = contextual.rotary_dim,
          .pairing = contextual.pairing,
          .term = AngleTerm::increments};
}

void increments(const RotaryContextual& contextual,
                const ContextualWeights<const float>& weights, View<const float, 3> x,
                const Positions* tokens, View<float, 4> out) {
  check(contextual, weights), check(contextual, x, tokens, out);
  for (std::ptrdiff_t b = 0; b < out.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < out.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < out.extent(2); ++h)
        for (std::ptrdiff_t i = 0; i < out.extent(3); ++i) out(b, t, h, i) = 0;
  for_increments(contextual, weights, x, tokens, out.extent(1),
                 [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t, double w) {
                   for (std::ptrdiff_t i = 0; i < out.extent(3); ++i)
                     out(b, t, h, i) =
                         static_cast<float>(-std::exp(double{weights.log_frequencies(i)}) * w);
                 });
}

void increments_backward(const RotaryContextual& contextual,
                         const ContextualWeights<const float>& weights, View<const float, 3> x,
                         const Positions* tokens, View<const float, 4> out_grad,
                         View<float, 3> x_grad, const ContextualWeights<float>& grads) {
  check(contextual, weights), check(contextual, x, tokens, out_grad);
  const bool trained = grads.weight.data();
  if (trained) check(contextual, grads);
  if (x_grad.data())
    internal::check_shape<3>("contextual", "x_grad", x_grad.extents(), x.extents());
  // Sums of all tokens, in double: those of l, then W and b of each head.
  const std::int64_t pairs = out_grad.extent(3), width = contextual.width;
  std::vector<double> l_grad(to_size(pairs)), w_grad(to_size(contextual.heads * (width + 1)));
  for_increments(
      contextual, weights, x, tokens, out_grad.extent(1),
      [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t before, double w) {
        double along = 0;
        for (std::ptrdiff_t i = 0; i < pairs; ++i) {
          const double one =
              -std::exp(double{weights.log_frequencies(i)}) * double{out_grad(b, t, h, i)};
          l_grad[to_size(i)] += w * one;
          along += one;
        }
        const double z_grad = along * w * (1 - w) / contextual.scale;
        double* const sums = w_grad.data() + h * (width + 1);
        for (std::ptrdiff_t n = 0; n < width; ++n) {
          sums[n] += z_grad * double{x(b, before, n)};
          if (x_grad.data())
            accumulate(x_grad(b, before, n), z_grad * double{weights.weight(h, n)});
        }
        sums[width] += z_grad;
      });
  if (!trained) return;
  for (std::ptrdiff_t i = 0; i < pairs; ++i)
    accumulate(grads.log_frequencies(i), l_grad[to_size(i)]);
  for (std::ptrdiff_t h = 0; h < contextual.heads; ++h) {
    const double* const sums = w_grad.data() + h * (width + 1);
    for (std::ptrdiff_t n = 0; n < width; ++n) accumulate(grads.weight(h, n), sums[n]);
    accumulate(grads.bias(h), sums[width]);
  }
}

}  // namespace gnomon
