#include "gnomon/attention/differential.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using internal::Argument;

Argument argument(const char* name) { return {"differential", name}; }

template <typename T>
double half_number(T x) {
  return static_cast<double>(static_cast<Accumulator<T>>(x));
}

void check(const DifferentialHeads& differential) {
  for (const double one : {differential.lambda, differential.lambda_init})
    if (!std::isfinite(one))
      refuse("differential", "lambda and lambda_init must be finite", one);
  if (!std::isfinite(differential.epsilon) || differential.epsilon <= 0)
    refuse("differential", "epsilon must be finite and positive", differential.epsilon);
}

template <typename A, typename B>
void check_shapes(const A& one, const B& other, std::int64_t heads, std::int64_t size,
                  const char* rule) {
  if (one.extent(0) != other.extent(0) || one.extent(1) != other.extent(1) ||
      other.extent(2) != heads || other.extent(3) != size)
    refuse("differential", rule,
           std::to_string(other.extent(2)) + " heads of " + std::to_string(other.extent(3)));
}

// Visits each token and pair of heads: body(b, t, h). Deterministic if the body writes only to
// that pair.
template <typename X, typename Body>
void for_pairs(const X& x, Body body) {
  const std::int64_t tokens = x.extent(1), pairs = x.extent(2) / 2;
  parallel_for(x.extent(0) * tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for (std::ptrdiff_t h = 0; h < pairs; ++h) body(token / tokens, token % tokens, h);
  });
}

// u = o1 - lambda o2, and the factor of its norm.
template <typename X>
double difference(const X& x, std::int64_t b, std::int64_t t, std::int64_t h,
                  const DifferentialHeads& differential, std::vector<double>& u) {
  const std::int64_t pairs = x.extent(2) / 2, size = x.extent(3);
  double squares = 0;
  for (std::ptrdiff_t d = 0; d < size; ++d) {
    const double one =
        half_number(x(b, t, h, d)) - differential.lambda * half_number(x(b, t, h + pairs, d));
    u[static_cast<std::size_t>(d)] = one;
    squares += one * one;
  }
  return 1 / std::sqrt(squares / static_cast<double>(size) + differential.epsilon);
}

}  // namespace

double differential_lambda(std::int64_t layer) {
  if (layer < 0) refuse("differential", "layer must not be negative", layer);
  return 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer));
}

void differential_values(const ConstTensor& v, const Tensor& out) {
  internal::by_type(argument("v"), v, [&]<typename T>(T) {
    const auto x = internal::read<T, 4>(argument("v"), v);
    const auto y = internal::write<T, 4>(argument("out"), out);
    const std::int64_t heads = x.extent(2), size = x.extent(3);
    if (heads % 2 != 0) refuse("differential", "key heads must be even", std::int64_t{heads});
    check_shapes(x, y, heads, 2 * size, "out must have the key heads of v, twice as wide");
    for_pairs(y, [&](std::int64_t b, std::int64_t t, std::int64_t i) {
      for (const std::int64_t j : {i, i + heads / 2})
        for (std::ptrdiff_t d = 0; d < size; ++d) {
          y(b, t, j, d) = x(b, t, i, d);
          y(b, t, j, size + d) = x(b, t, i + heads / 2, d);
        }
    });
  });
}

void combine_heads(const ConstTensor& heads, const DifferentialHeads& differential,
                   const Tensor& out) {
  check(differential);
  internal::by_type(argument("heads"), heads, [&]<typename T>(T) {
    const auto x = internal::read<T, 4>(argument("heads"), heads);
    const auto y = internal::write<T, 4>(argument("out"), out);
    if (x.extent(2) % 2 != 0)
      refuse("differential", "heads must be even", std::int64_t{x.extent(2)});
    check_shapes(x, y, x.extent(2) / 2, x.extent(3), "out must have half of the heads");
    const double scale = 1 - differential.lambda_init;
    for_pairs(x, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
      std::vector<double> u(static_cast<std::size_t>(x.extent(3)));
      const double norm = difference(x, b, t, h, differential, u);
      for (std::ptrdiff_t d = 0; d < x.extent(3); ++d)
        y(b, t, h, d) = static_cast<T>(scale * norm * u[static_cast<std::size_t>(d)]);
    });
  });
}

double combine_heads_backward(const ConstTensor& heads, const ConstTensor& out_grad,
                              const DifferentialHeads& differential, const Tensor& heads_grad) {
  check(differential);
  double lambda_grad = 0;
  internal::by_type(argument("heads"), heads, [&]<typename T>(T) {
    const auto x = internal::read<T, 4>(argument("heads"), heads);
    const auto dy = internal::read<T, 4>(argument("out_grad"), out_grad);
    const auto dx = internal::write<T, 4>(argument("heads_grad"), heads_grad);
    const std::int64_t pairs = x.extent(2) / 2, size = x.extent(3);
    if (x.extent(2) % 2 != 0)
      refuse("differential", "heads must be even", std::int64_t{x.extent(2)});
    check_shapes(x, dy, pairs, size, "out_grad must have half of the heads");
    check_shapes(x, dx, x.extent(2), size, "heads_grad must have the shape of heads");
    const double scale = 1 - differential.lambda_init;
    std::vector<double> parts(static_cast<std::size_t>(x.extent(0) * x.extent(1) * pairs));
    for_pairs(x, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
      std::vector<double> u(static_cast<std::size_t>(size));
      const double norm = difference(x, b, t, h, differential, u);
      double along = 0;  // sum of u times its gradient
      for (std::ptrdiff_t d = 0; d < size; ++d)
        along += u[static_cast<std::size_t>(d)] * half_number(dy(b, t, h, d));
      double lambda = 0;
      for (std::ptrdiff_t d = 0; d < size; ++d) {
        const double du =
            scale * norm *
            (half_number(dy(b, t, h, d)) -
             u[static_cast<std::size_t>(d)] * along * norm * norm / static_cast<double>(size));
        lambda -= du * half_number(x(b, t, h + pairs, d));
        dx(b, t, h, d) = static_cast<T>(du);
        dx(b, t, h + pairs, d) = static_cast<T>(-differential.lambda * du);
      }
      parts[static_cast<std::size_t>((b * x.extent(1) + t) * pairs + h)] = lambda;
    });
    for (const double one : parts) lambda_grad += one;
  });
  return lambda_grad;
}

}  // namespace gnomon
