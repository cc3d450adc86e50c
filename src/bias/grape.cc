#include "gnomon/bias/grape.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gnomon/bias/alibi.h"
#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/token_projection.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr double least_length = 1e-6, epsilon = 0x1p-23;

double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }
double logistic(double z) { return 1 / (1 + std::exp(-z)); }

void check_sizes(int64_t heads, int64_t width) {
  if (heads < 1) refuse("grape", "heads must be at least 1", heads);
  if (width < 1) refuse("grape", "width must be at least 1", width);
}

template <typename T>
void check_gate(const GrapeAdditive& grape, const GrapeGate<T>& gate) {
  check_sizes(grape.heads, grape.width);
  internal::check_shape<2>("grape", "direction", gate.direction.extents(),
                           {grape.heads, grape.width});
  internal::check_shape<1>("grape", "omega", gate.omega.extents(), {grape.heads});
}

void check_input(const GrapeAdditive& grape, View<const float, 3> x, const char* name,
                 View<const float, 3> out) {
  internal::check_shape<3>("grape", "x", x.extents(), {x.extent(0), x.extent(1), grape.width});
  internal::check_shape<3>("grape", name, out.extents(),
                           {x.extent(0), grape.heads, x.extent(1)});
}

// Of each head: the slope without the gate, its derivative by omega, and the length of the
// direction.
struct GateOfHead {
  double slope, by_omega, length;
};
std::vector<GateOfHead> gates_of_heads(const GrapeAdditive& grape,
                                       const GrapeGate<const float>& gate) {
  const std::vector<double> slope = slopes(Alibi{.heads = grape.heads});
  std::vector<GateOfHead> all;
  for (int64_t h = 0; h < grape.heads; ++h) {
    double square = 0;
    for (int64_t c = 0; c < grape.width; ++c) {
      const double one = double{gate.direction(h, c)};
      square += one * one;
    }
    const double s = slope[static_cast<std::size_t>(h)], o = double{gate.omega(h)};
    all.push_back(
        {s * softplus(o), s * logistic(o), std::max(std::sqrt(square), least_length)});
  }
  return all;
}

// u_h . x / (|u_h| sqrt(C)), [B T, H].
std::vector<double> gate_logits(const GrapeAdditive& grape, const GrapeGate<const float>& gate,
                                const std::vector<GateOfHead>& heads, View<const float, 3> x) {
  std::vector<double> z = internal::project_tokens(x, gate.direction);
  const double root = std::sqrt(static_cast<double>(grape.width));
  for (std::size_t n = 0; n < z.size(); ++n) z[n] /= root * heads[n % heads.size()].length;
  return z;
}

void check_path(const GrapePath& grape) {
  check_sizes(grape.heads, grape.width);
  if (grape.size < 2 || grape.size % 2)
    refuse("grape", "size must be even and at least 2", grape.size);
}

void check_vectors(const GrapePath& grape, View<const float, 2> weight, View<const float, 3> x,
                   View<const float, 4> queries, View<const float, 4> keys) {
  check_path(grape);
  internal::check_shape<2>(
      "grape", "weight", weight.extents(),
      {internal::checked_product("grape", "heads x size", {grape.heads, grape.size}),
       grape.width});
  internal::check_shape<3>("grape", "x", x.extents(), {x.extent(0), x.extent(1), grape.width});
  for (const auto& [name, one] :
       {std::pair("the vectors of queries", queries), std::pair("the vectors of keys", keys)})
    internal::check_shape<4>("grape", name, one.extents(),
                             {x.extent(0), x.extent(1), grape.heads, grape.size});
}

// Calls visit(b, t, h, p) with the vector p [P] of each token and head.
template <typename Visit>
void for_each_vector(const GrapePath& grape, View<const float, 3> x, std::vector<double>& all,
                     Visit visit) {
  double* p = all.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < grape.heads; ++h, p += grape.size) visit(b, t, h, p);
}

double inverse_rms(const double* p, int64_t size) {
  double square = 0;
  for (int64_t n = 0; n < size; ++n) square += p[n] * p[n];
  return 1 / std::sqrt(square / static_cast<double>(size) + epsilon);
}

}  // namespace

void key_slopes(const GrapeAdditive& grape, const GrapeGate<const float>& gate,
                View<const float, 3> x, View<float, 3> out) {
  check_gate(grape, gate), check_input(grape, x, "out", out);
  const std::vector<GateOfHead> heads = gates_of_heads(grape, gate);
  const std::vector<double> z = gate_logits(grape, gate, heads, x);
  const double* at = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < grape.heads; ++h)
        out(b, h, t) =
            static_cast<float>(heads[static_cast<std::size_t>(h)].slope * softplus(*at++));
}

void key_slopes_backward(const GrapeAdditive& grape, const GrapeGate<const float>& gate,
                         View<const float, 3> x, View<const float, 3> out_grad,
                         View<float, 3> x_grad, const GrapeGate<float>& grads) {
  check_gate(grape, gate), check_input(grape, x, "out_grad", out_grad);
  if (grads.direction.data()) check_gate(grape, grads);
  if (x_grad.data()) internal::check_shape<3>("grape", "x_grad", x_grad.extents(), x.extents());
  const std::vector<GateOfHead> heads = gates_of_heads(grape, gate);
  std::vector<double> z = gate_logits(grape, gate, heads, x);
  // The gradients by u . x, by omega, and by the length of u through the products.
  std::vector<double> omega(heads.size()), along(heads.size());
  const double root = std::sqrt(static_cast<double>(grape.width));
  double* at = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < grape.heads; ++h, ++at) {
        const auto n = static_cast<std::size_t>(h);
        const double grad = double{out_grad(b, h, t)};
        omega[n] += grad * heads[n].by_omega * softplus(*at);
        const double by_logit = grad * heads[n].slope * logistic(*at);
        along[n] += by_logit * *at;
        *at = by_logit / (root * heads[n].length);
      }
  internal::project_tokens_backward(x, gate.direction, z, x_grad, grads.direction);
  if (!grads.direction.data()) return;
  for (std::ptrdiff_t h = 0; h < grape.heads; ++h) {
    const auto n = static_cast<std::size_t>(h);
    grads.omega(h) = static_cast<float>(double{grads.omega(h)} + omega[n]);
    if (heads[n].length <= least_length) continue;  // the length has a constant in its place
    const double factor = along[n] / (heads[n].length * heads[n].length);
    for (std::ptrdiff_t c = 0; c < grape.width; ++c) {
      float& to = grads.direction(h, c);
      to = static_cast<float>(double{to} - factor * double{gate.direction(h, c)});
    }
  }
}

EdgeBias lower(const GrapePath& grape) {
  check_path(grape);
  return {.slopes = slopes(Alibi{.heads = grape.heads})};
}

void edge_vectors(const GrapePath& grape, View<const float, 2> weight, View<const float, 3> x,
                  View<float, 4> queries, View<float, 4> keys) {
  check_vectors(grape, weight, x, queries, keys);
  std::vector<double> all = internal::project_tokens(x, weight);
  for_each_vector(grape, x, all, [&](auto b, auto t, auto h, const double* p) {
    const double factor = inverse_rms(p, grape.size);
    for (int64_t n = 0; n < grape.size; ++n) {
      queries(b, t, h, n) = static_cast<float>(p[n] / static_cast<double>(grape.size));
      keys(b, t, h, n) = static_cast<float>(p[n] * factor);
    }
  });
}

void edge_vectors_backward(const GrapePath& grape, View<const float, 2> weight,
                           View<const float, 3> x, View<const float, 4> queries_grad,
                           View<const float, 4> keys_grad, View<float, 3> x_grad,
                           View<float, 2> weight_grad) {
  check_vectors(grape, weight, x, queries_grad, keys_grad);
  if (x_grad.data()) internal::check_shape<3>("grape", "x_grad", x_grad.extents(), x.extents());
  if (weight_grad.data())
    internal::check_shape<2>("grape", "the gradient of weight", weight_grad.extents(),
                             weight.extents());
  std::vector<double> all = internal::project_tokens(x, weight);
  const auto count = static_cast<double>(grape.size);
  for_each_vector(grape, x, all, [&](auto b, auto t, auto h, double* p) {
    const double factor = inverse_rms(p, grape.size);
    double along = 0;
    for (int64_t n = 0; n < grape.size; ++n) along += double{keys_grad(b, t, h, n)} * p[n];
    for (int64_t n = 0; n < grape.size; ++n)
      p[n] = double{queries_grad(b, t, h, n)} / count +
             factor * (double{keys_grad(b, t, h, n)} - factor * factor * along * p[n] / count);
  });
  internal::project_tokens_backward(x, weight, all, x_grad, weight_grad);
}

}  // namespace gnomon
