#include "gnomon/bias/path.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/products.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/core/token_projection.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr double least_w_square = 1e-6;  // in a length, as in the released code

void check_path(const PathAttention& path) {
  for (const auto& [name, value] : {std::pair("heads", path.heads),
                                    {"head_dim", path.head_dim},
                                    {"width", path.width},
                                    {"rank", path.rank},
                                    {"kernel", path.kernel}})
    if (value < 1) refuse("path", std::string(name) + " must be at least 1", value);
  internal::checked_size("path", "heads x head_dim", {path.heads, path.head_dim});
}

template <typename T>
void check_path(const PathAttention& path, const PathWeights<T>& weights) {
  check_path(path);
  const auto check = [](const char* name, const auto& got, const auto& wanted) {
    internal::check_shape("path", name, got.extents(), wanted);
  };
  using Two = std::array<std::int64_t, 2>;
  const int64_t channels = path.heads * path.head_dim;
  check("down", weights.down, Two{path.rank, path.width});
  check("up", weights.up, Two{channels, path.rank});
  check("conv", weights.conv, Two{channels, path.kernel});
  check("weight", weights.weight, Two{path.heads, path.width});
  check("bias", weights.bias, std::array<std::int64_t, 1>{path.heads});
}

std::vector<double> times(View<const double, 2> a, const internal::RightFactor& b) {
  std::vector<double> c(to_size(a.extent(0) * b.columns()));
  internal::multiply(a, b, View<double, 2>(c.data(), {a.extent(0), b.columns()}));
  return c;
}
View<const double, 2> rows_of(const std::vector<double>& of, int64_t rows) {
  return {of.data(), {rows, std::ssize(of) / rows}};
}
View<const double, 2> columns_of(const std::vector<double>& of, int64_t rows) {
  const int64_t columns = std::ssize(of) / rows;
  return {of.data(), {columns, rows}, {1, columns}};
}
View<const float, 2> turned(View<const float, 2> w) {
  return {w.data(), {w.extent(1), w.extent(0)}, {w.stride(1), w.stride(0)}};
}
void add_to(const std::vector<double>& from, View<float, 2> to) {
  for (std::ptrdiff_t i = 0; i < to.extent(0); ++i)
    for (std::ptrdiff_t j = 0; j < to.extent(1); ++j)
      to(i, j) = static_cast<float>(double{to(i, j)} + from[to_size(i * to.extent(1) + j)]);
}

double path_sigmoid(double z) {
  return z < 0 ? std::exp(z) / (1 + std::exp(z)) : 1 / (1 + std::exp(-z));
}

// The directions before the convolution and after it, of all E + T tokens.
struct Directions {
  int64_t count, earlier, rows, channels, kernel;
  const Positions* tokens;
  std::vector<double> low, z, mixed;  // [rows, rank], [rows, H D]

  Directions(const PathAttention& path, const PathWeights<const float>& weights,
             View<const float, 3> x, const Positions* positions, int64_t wanted)
      : count(x.extent(1)),
        earlier(count - wanted),
        rows(x.extent(0) * count),
        channels(path.heads * path.head_dim),
        kernel(path.kernel),
        tokens(positions) {
    internal::check_shape<3>("path", "x", x.extents(), {x.extent(0), count, path.width});
    if (earlier < 0 || earlier >= kernel)
      refuse(
          "path",
          "x must have the tokens of w and at most kernel - 1 = " + std::to_string(kernel - 1) +
              " before them, so at most " + std::to_string(wanted + kernel - 1),
          count);
    if (tokens &&
        (tokens->tokens != count || (tokens->batch != 1 && tokens->batch != x.extent(0))))
      refuse("path", "positions must have the tokens of x, " + std::to_string(count),
             tokens->tokens);
    if (!rows) return;
    low = internal::project_tokens(x, weights.down);
    z = times(rows_of(low, rows), internal::RightFactor(turned(weights.up)));
    mixed.resize(z.size());
    each_tap([&](int64_t row, int64_t from, int64_t tap) {
      for (int64_t c = 0; c < channels; ++c)
        mixed[to_size(row * channels + c)] +=
            double{weights.conv(c, tap)} * z[to_size(from * channels + c)];
    });
  }
  std::int32_t sequence(int64_t row) const {
    if (!tokens) return 0;
    return tokens->sequences[to_size(tokens->batch == 1 ? row % count : row)];
  }
  // Calls body(row of the output, row of the input, tap) for all products of the convolution.
  template <typename Body>
  void each_tap(const Body& body) const {
    for (int64_t row = 0; row < rows; ++row) {
      if (row % count < earlier || sequence(row) == Positions::padding) continue;
      for (int64_t back = std::min(kernel - 1, row % count); back >= 0; --back)
        if (sequence(row - back) == sequence(row)) body(row, row - back, kernel - 1 - back);
    }
  }
};

void check_path_terms(const PathAttention& path, View<const float, 3> x, View<const float, 4> w,
                      View<const float, 3> betas) {
  internal::check_shape<4>("path", "w", w.extents(),
                           {x.extent(0), w.extent(1), path.heads, path.head_dim});
  internal::check_shape<3>("path", "betas", betas.extents(),
                           {x.extent(0), path.heads, w.extent(1)});
}

// Calls body(b, t, h, elements of the mixed direction) for each head of the last tokens.
template <typename Body>
void for_directions(const PathAttention& path, const Directions& of, int64_t batch,
                    const Body& body) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < of.count - of.earlier; ++t)
      for (int64_t h = 0; h < path.heads; ++h)
        body(b, t, h, (b * of.count + of.earlier + t) * of.channels + h * path.head_dim);
}

// The last tokens of x.
template <typename T>
View<T, 3> last(View<T, 3> x, int64_t tokens) {
  return x.data() ? x.slice(1, x.extent(1) - tokens, tokens) : x;
}

}  // namespace

void householder(const PathAttention& path, const PathWeights<const float>& weights,
                 View<const float, 3> x, const Positions* tokens, View<float, 4> w,
                 View<float, 3> betas) {
  check_path(path, weights), check_path_terms(path, x, w, betas);
  const Directions of(path, weights, x, tokens, w.extent(1));
  std::vector<double> silu(to_size(path.head_dim));
  for_directions(path, of, x.extent(0), [&](int64_t b, int64_t t, int64_t h, int64_t at) {
    double sum = least_w_square;
    for (int64_t n = 0; n < path.head_dim; ++n) {
      const double z = of.mixed[to_size(at + n)];
      const double one = silu[to_size(n)] = z * path_sigmoid(z);
      sum += one * one;
    }
    for (int64_t n = 0; n < path.head_dim; ++n)
      w(b, t, h, n) = static_cast<float>(silu[to_size(n)] / std::sqrt(sum));
  });
  const std::vector<double> z =
      internal::project_tokens(last(x, w.extent(1)), weights.weight, weights.bias);
  const double* from = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < w.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < path.heads; ++h)
        betas(b, h, t) = static_cast<float>(2 * path_sigmoid(*from++));
}

void householder_backward(const PathAttention& path, const PathWeights<const float>& weights,
                          View<const float, 3> x, const Positions* tokens,
                          View<const float, 4> w_grad, View<const float, 3> betas_grad,
                          View<float, 3> x_grad, const PathWeights<float>& grads) {
  check_path(path, weights), check_path_terms(path, x, w_grad, betas_grad);
  if (grads.down.data()) check_path(path, grads);
  if (x_grad.data()) internal::check_shape<3>("path", "x_grad", x_grad.extents(), x.extents());
  const int64_t count = w_grad.extent(1);
  std::vector<double> z =
      internal::project_tokens(last(x, count), weights.weight, weights.bias);
  double* at_beta = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < count; ++t)
      for (std::ptrdiff_t h = 0; h < path.heads; ++h, ++at_beta) {
        const double s = path_sigmoid(*at_beta);
        *at_beta = 2 * s * (1 - s) * double{betas_grad(b, h, t)};
      }
  internal::project_tokens_backward(last(x, count), weights.weight, z, last(x_grad, count),
                                    grads.weight, grads.bias);

  const Directions of(path, weights, x, tokens, count);
  if (!of.rows) return;
  std::vector<double> mixed_grad(of.mixed.size()), z_grad(of.z.size()),
      conv_grad(to_size(of.channels * path.kernel));
  std::vector<double> unit(to_size(path.head_dim));
  for_directions(path, of, x.extent(0), [&](int64_t b, int64_t t, int64_t h, int64_t at) {
    double sum = least_w_square, along = 0;
    for (int64_t n = 0; n < path.head_dim; ++n) {
      const double one = of.mixed[to_size(at + n)];
      unit[to_size(n)] = one * path_sigmoid(one);
      sum += std::pow(unit[to_size(n)], 2);
    }
    for (double& one : unit) one /= std::sqrt(sum);
    for (int64_t n = 0; n < path.head_dim; ++n)
      along += unit[to_size(n)] * double{w_grad(b, t, h, n)};
    for (int64_t n = 0; n < path.head_dim; ++n) {
      const double one = of.mixed[to_size(at + n)], s = path_sigmoid(one);
      mixed_grad[to_size(at + n)] = (double{w_grad(b, t, h, n)} - along * unit[to_size(n)]) /
                                    std::sqrt(sum) * s * (1 + one * (1 - s));
    }
  });
  of.each_tap([&](int64_t row, int64_t from, int64_t tap) {
    for (int64_t c = 0; c < of.channels; ++c) {
      const double grad = mixed_grad[to_size(row * of.channels + c)];
      z_grad[to_size(from * of.channels + c)] += double{weights.conv(c, tap)} * grad;
      conv_grad[to_size(c * path.kernel + tap)] += of.z[to_size(from * of.channels + c)] * grad;
    }
  });
  const std::vector<double> low_grad =
      times(rows_of(z_grad, of.rows), internal::RightFactor(weights.up));
  if (grads.down.data()) {
    add_to(conv_grad, grads.conv);
    add_to(times(columns_of(z_grad, of.rows), internal::RightFactor(rows_of(of.low, of.rows))),
           grads.up);
  }
  internal::project_tokens_backward(x, weights.down, low_grad, x_grad, grads.down);
}

void move_keys(const Tensor& keys, View<const float, 4> w, View<const float, 3> betas) {
  internal::by_type({"path", "keys"}, keys, [&]<typename T>(T) {
    const View<T, 4> rows = internal::write<T, 4>({"path", "keys"}, keys);
    const int64_t batch = rows.extent(0), heads = rows.extent(2), size = rows.extent(3);
    internal::check_shape<4>("path", "w", w.extents(), {batch, w.extent(1), heads, size});
    internal::check_shape<3>("path", "betas", betas.extents(), {batch, heads, w.extent(1)});
    const int64_t count = batch * rows.extent(1) * heads;
    parallel_for(count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t b = n / (rows.extent(1) * heads), j = n / heads % rows.extent(1);
        const int64_t h = n % heads;
        for (int64_t t = 0; t < w.extent(1); ++t) {
          double product = 0;
          for (int64_t d = 0; d < size; ++d)
            product += double{w(b, t, h, d)} *
                       static_cast<double>(static_cast<Accumulator<T>>(rows(b, j, h, d)));
          product *= double{betas(b, h, t)};
          for (int64_t d = 0; d < size; ++d) {
            T& to = rows(b, j, h, d);
            to = static_cast<T>(static_cast<Accumulator<T>>(
                static_cast<double>(static_cast<Accumulator<T>>(to)) -
                product * double{w(b, t, h, d)}));
          }
        }
      }
    });
  });
}

}  // namespace gnomon
