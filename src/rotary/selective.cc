#include "gnomon/rotary/selective.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/products.h"
#include "src/core/size.h"
#include "src/rotary/accumulate.h"

namespace gnomon {
namespace {

using internal::to_size;
using rotary_internal::accumulate;
using std::int64_t;

constexpr double least_square = 1e-6;  // in a length, as in the released code

void check(const SelectiveRotary& s) {
  const auto at_least = [](const char* rule, int64_t least, int64_t value) {
    if (value < least) refuse("selective", rule + std::to_string(least), value);
  };
  at_least("heads must be at least ", 1, s.heads);
  at_least("width must be at least ", 1, s.width);
  if (s.width % s.heads)
    refuse("selective", "heads must divide the width, " + std::to_string(s.width), s.heads);
  if (s.rotary_dim % 2) refuse("selective", "rotary_dim must be even", s.rotary_dim);
  at_least("rotary_dim must be at least ", 2, s.rotary_dim);
  if (!(s.base > 1) || !std::isfinite(s.base))
    refuse("selective", "base must be finite and greater than 1", s.base);
  at_least("rank must be at least ", 1, s.rank);
  at_least("kernel must be at least ", 1, s.kernel);
}

int64_t channels(const SelectiveRotary& s) { return s.heads * s.rotary_dim / 2; }

template <typename T>
void check(const SelectiveRotary& s, const SelectiveWeights<T>& weights) {
  internal::check_shape<2>("selective", "down", weights.down.extents(), {s.rank, s.width});
  internal::check_shape<2>("selective", "up", weights.up.extents(), {channels(s), s.rank});
  internal::check_shape<2>("selective", "conv", weights.conv.extents(),
                           {channels(s), s.kernel});
}

View<const float, 2> transposed(View<const float, 2> w) {
  return {w.data(), {w.extent(1), w.extent(0)}, {w.stride(1), w.stride(0)}};
}
View<const double, 2> matrix(const std::vector<double>& of, int64_t rows) {
  return {of.data(), {rows, std::ssize(of) / rows}};
}
View<const double, 2> transposed(const std::vector<double>& of, int64_t rows) {
  const int64_t columns = std::ssize(of) / rows;
  return {of.data(), {columns, rows}, {1, columns}};
}

std::vector<double> product(View<const double, 2> a, const internal::RightFactor& b) {
  std::vector<double> c(to_size(a.extent(0) * b.columns()));
  internal::multiply(a, b, View<double, 2>(c.data(), {a.extent(0), b.columns()}));
  return c;
}

void add(const std::vector<double>& from, View<float, 2> to) {
  for (std::ptrdiff_t i = 0; i < to.extent(0); ++i)
    for (std::ptrdiff_t j = 0; j < to.extent(1); ++j)
      accumulate(to(i, j), from[to_size(i * to.extent(1) + j)]);
}

// The products before the convolution, of all E + T tokens; padding has zeros.
class Tokens {
 public:
  Tokens(const SelectiveRotary& s, const SelectiveWeights<const float>& weights,
         View<const float, 3> x, const Positions* positions, std::int64_t wanted)
      : s_(s),
        count_(x.extent(1)),
        earlier_(x.extent(1) - wanted),
        rows_(x.extent(0) * count_),
        positions_(positions),
        scale_(to_size(rows_ * s.heads)),
        normed_(to_size(rows_ * s.width)),
        factors_(to_size(s.rotary_dim / 2)) {
    internal::check_shape<3>("selective", "x", x.extents(), {x.extent(0), count_, s.width});
    if (earlier_ < 0 || earlier_ >= s.kernel)
      refuse("selective",
             "x must have the tokens of the increments and at most kernel - 1 = " +
                 std::to_string(s.kernel - 1) + " before them, so at most " +
                 std::to_string(wanted + s.kernel - 1),
             int64_t{count_});
    if (positions && (positions->tokens != count_ ||
                      (positions->batch != 1 && positions->batch != x.extent(0))))
      refuse("selective", "positions must have the tokens of x, " + std::to_string(count_),
             positions->tokens);
    for (std::size_t i = 0; i < factors_.size(); ++i)
      factors_[i] =
          std::pow(s.base, -2 * static_cast<double>(i) / static_cast<double>(s.rotary_dim));
    const int64_t size = s.width / s.heads;
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t h = 0; h < s.heads; ++h) {
        if (sequence(row) == Positions::padding) continue;
        double sum = least_square;
        for (int64_t d = 0; d < size; ++d) {
          const double one = x(row / count_, row % count_, h * size + d);
          normed_[to_size(row * s.width + h * size + d)] = one;
          sum += one * one;
        }
        const double scale = scale_[to_size(row * s.heads + h)] = 1 / std::sqrt(sum);
        for (int64_t d = 0; d < size; ++d)
          normed_[to_size(row * s.width + h * size + d)] *= scale;
      }
    if (rows_ == 0) return;
    low_ = product(matrix(normed_, rows_), internal::RightFactor(transposed(weights.down)));
    z_ = product(matrix(low_, rows_), internal::RightFactor(transposed(weights.up)));
  }

  std::int32_t sequence(int64_t row) const {
    if (!positions_) return 0;
    return positions_->sequences[to_size(positions_->batch == 1 ? row % count_ : row)];
  }
  // Calls body(row of the output, row of the input, tap w) for all products of the convolution.
  template <typename Body>
  void each_tap(const Body& body) const {
    for (int64_t row = 0; row < rows_; ++row) {
      if (row % count_ < earlier_ || sequence(row) == Positions::padding) continue;
      for (int64_t w = 0; w < s_.kernel; ++w) {
        const int64_t back = s_.kernel - 1 - w;
        if (back > row % count_ || sequence(row - back) != sequence(row)) continue;
        body(row, row - back, w);
      }
    }
  }
  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  int64_t earlier() const { return earlier_; }
  double factor(int64_t channel) const {
    return factors_[to_size(channel % (s_.rotary_dim / 2))];
  }
  double z(int64_t row, int64_t channel) const {
    return z_[to_size(row * channels(s_) + channel)];
  }
  const std::vector<double>& low() const { return low_; }
  const std::vector<double>& normed() const { return normed_; }
  double scale(int64_t row, int64_t head) const {
    return scale_[to_size(row * s_.heads + head)];
  }

 private:
  const SelectiveRotary& s_;
  int64_t count_, earlier_, rows_;
  const Positions* positions_;
  std::vector<double> scale_, normed_, factors_, low_ = {}, z_ = {};
};

}  // namespace

TokenRotation lower(const SelectiveRotary& selective) {
  check(selective);
  return {.rotary_dim = selective.rotary_dim,
          .pairing = Pairing::halves,
          .term = AngleTerm::increments};
}

void increments(const SelectiveRotary& selective, const SelectiveWeights<const float>& weights,
                View<const float, 3> x, const Positions* tokens, View<float, 4> out) {
  check(selective), check(selective, weights);
  const int64_t pairs = selective.rotary_dim / 2;
  internal::check_shape<4>("selective", "out", out.extents(),
                           {x.extent(0), out.extent(1), selective.heads, pairs});
  const Tokens all(selective, weights, x, tokens, out.extent(1));
  std::vector<double> sums(to_size(all.rows() * channels(selective)));
  all.each_tap([&](int64_t row, int64_t from, int64_t w) {
    for (int64_t c = 0; c < channels(selective); ++c)
      sums[to_size(row * channels(selective) + c)] +=
          double{weights.conv(c, w)} * all.z(from, c);
  });
  for (std::ptrdiff_t b = 0; b < out.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < out.extent(1); ++t)
      for (int64_t c = 0; c < channels(selective); ++c)
        out(b, t, c / pairs, c % pairs) = static_cast<float>(
            all.factor(c) *
            sums[to_size((b * all.count() + all.earlier() + t) * channels(selective) + c)]);
}

void increments_backward(const SelectiveRotary& selective,
                         const SelectiveWeights<const float>& weights, View<const float, 3> x,
                         const Positions* tokens, View<const float, 4> out_grad,
                         View<float, 3> x_grad, const SelectiveWeights<float>& grads) {
  check(selective), check(selective, weights);
  if (grads.down.data()) check(selective, grads);
  if (x_grad.data())
    internal::check_shape<3>("selective", "x_grad", x_grad.extents(), x.extents());
  const int64_t pairs = selective.rotary_dim / 2, width = channels(selective);
  internal::check_shape<4>("selective", "out_grad", out_grad.extents(),
                           {x.extent(0), out_grad.extent(1), selective.heads, pairs});
  const Tokens all(selective, weights, x, tokens, out_grad.extent(1));
  const int64_t rows = all.rows();
  if (rows == 0) return;
  std::vector<double> z_grad(to_size(rows * width)),
      conv_grad(to_size(width * selective.kernel));
  all.each_tap([&](int64_t row, int64_t from, int64_t w) {
    const int64_t b = row / all.count(), t = row % all.count() - all.earlier();
    for (int64_t c = 0; c < width; ++c) {
      const double grad = all.factor(c) * double{out_grad(b, t, c / pairs, c % pairs)};
      z_grad[to_size(from * width + c)] += double{weights.conv(c, w)} * grad;
      conv_grad[to_size(c * selective.kernel + w)] += all.z(from, c) * grad;
    }
  });
  const std::vector<double> low_grad =
      product(matrix(z_grad, rows), internal::RightFactor(weights.up));
  if (grads.down.data()) {
    add(conv_grad, grads.conv);
    add(product(transposed(z_grad, rows), internal::RightFactor(matrix(all.low(), rows))),
        grads.up);
    add(product(transposed(low_grad, rows), internal::RightFactor(matrix(all.normed(), rows))),
        grads.down);
  }
  if (!x_grad.data()) return;
  const std::vector<double> normed_grad =
      product(matrix(low_grad, rows), internal::RightFactor(weights.down));
  const int64_t size = selective.width / selective.heads;
  for (int64_t row = 0; row < rows; ++row) {
    if (all.sequence(row) == Positions::padding) continue;
    for (int64_t h = 0; h < selective.heads; ++h) {
      const double* const n = all.normed().data() + row * selective.width + h * size;
      const double* const g = normed_grad.data() + row * selective.width + h * size;
      double along = 0;
      for (int64_t d = 0; d < size; ++d) along += n[d] * g[d];
      for (int64_t d = 0; d < size; ++d)
        accumulate(x_grad(row / all.count(), row % all.count(), h * size + d),
                   all.scale(row, h) * (g[d] - along * n[d]));
    }
  }
}

}  // namespace gnomon
