#include "src/core/token_projection.h"

#include <cstddef>
#include <cstdint>

#include "src/core/products.h"

namespace gnomon::internal {

using std::int64_t;

namespace {

void add(float& to, double value) { to = static_cast<float>(double{to} + value); }

std::vector<double> rows_of(View<const float, 3> x) {
  std::vector<double> rows;
  rows.reserve(static_cast<std::size_t>(x.size()));
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t c = 0; c < x.extent(2); ++c) rows.push_back(double{x(b, t, c)});
  return rows;
}

}  // namespace

std::vector<double> project_tokens(View<const float, 3> x, View<const float, 2> w,
                                   View<const float, 1> b) {
  const int64_t tokens = x.extent(0) * x.extent(1), outputs = w.extent(0);
  std::vector<double> y(static_cast<std::size_t>(tokens * outputs));
  if (y.empty()) return y;
  const std::vector<double> rows = rows_of(x);
  multiply(View<const double, 2>(rows.data(), {tokens, x.extent(2)}),
           RightFactor(View<const float, 2>(w.data(), {w.extent(1), w.extent(0)},
                                            {w.stride(1), w.stride(0)})),
           View<double, 2>(y.data(), {tokens, outputs}));
  if (b.data())
    for (int64_t n = 0; n < tokens * outputs; ++n)
      y[static_cast<std::size_t>(n)] += double{b(n % outputs)};
  return y;
}

void project_tokens_backward(View<const float, 3> x, View<const float, 2> w,
                             const std::vector<double>& y_grad, View<float, 3> x_grad,
                             View<float, 2> w_grad, View<float, 1> b_grad) {
  const int64_t tokens = x.extent(0) * x.extent(1), outputs = w.extent(0), width = x.extent(2);
  if (y_grad.empty()) return;
  const View<const double, 2> grad(y_grad.data(), {tokens, outputs});
  if (x_grad.data()) {
    std::vector<double> sums(static_cast<std::size_t>(tokens * width));
    multiply(grad, RightFactor(w), View<double, 2>(sums.data(), {tokens, width}));
    const double* from = sums.data();
    for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
      for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
        for (std::ptrdiff_t c = 0; c < width; ++c) add(x_grad(b, t, c), *from++);
  }
  if (w_grad.data()) {
    const std::vector<double> rows = rows_of(x);
    std::vector<double> sums(static_cast<std::size_t>(outputs * width));
    multiply(View<const double, 2>(y_grad.data(), {outputs, tokens}, {1, outputs}),
             RightFactor(View<const double, 2>(rows.data(), {tokens, width})),
             View<double, 2>(sums.data(), {outputs, width}));
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t c = 0; c < width; ++c)
        add(w_grad(n, c), sums[static_cast<std::size_t>(n * width + c)]);
  }
  if (!b_grad.data()) return;
  for (int64_t n = 0; n < outputs; ++n) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t)
      sum += y_grad[static_cast<std::size_t>(t * outputs + n)];
    add(b_grad(n), sum);
  }
}

}  // namespace gnomon::internal
