// The gradient of a bias in double, by loops over all pairs, and tensors on a device for it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "cuda/devices.h"
#include "gnomon/cuda/bias_gradient.h"
#include "naive/bias.h"
#include "testing.h"

namespace gnomon::testing {

enum class Layout { tokens_first = 1, heads_first };  // [B, T, H, D] or [B, H, T, D]

struct Case {
  std::int64_t batch, queries, keys, heads, key_heads, size, value_size;
  AttentionMask mask;
  Layout layout;
  std::optional<double> scale = {}, cap = {};
};

inline bool visible(const AttentionMask& mask, std::int64_t i, std::int64_t j) {
  const std::int64_t row = i + mask.offset.value_or(0);
  if (mask.visibility == Visibility::causal && j > row) return false;
  if (mask.left && j < row - *mask.left) return false;
  return !(mask.right && j > row + *mask.right);
}

// Head vectors [B, rows, H, size] in memory of either layout.
template <typename T>
struct Vectors4 {
  std::int64_t batch, rows, heads, size;
  Layout layout;
  std::vector<T> values;

  Vectors4(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t d, Layout how)
      : batch(b),
        rows(r),
        heads(h),
        size(d),
        layout(how),
        values(static_cast<std::size_t>(b * r * h * d)) {}
  template <typename U>
  View<U, 4> view(U* data) const {
    if (layout == Layout::tokens_first) return {data, {batch, rows, heads, size}};
    return {data, {batch, rows, heads, size}, {heads * rows * size, size, rows * size, 1}};
  }
  void fill(unsigned seed) {
    const auto numbers = random_numbers(values.size(), seed);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(numbers[i]);
  }
  double at(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t d) const {
    return as_double(view(values.data())(b, r, h, d));
  }
};

// Calls body(b, h, i, scores over all keys): with the bias, -infinity if hidden.
template <typename T, typename Body>
void for_rows(const Case& one, const Vectors4<T>& q, const Vectors4<T>& k, const BiasForm& form,
              const Body& body) {
  const double scale = one.scale.value_or(1 / std::sqrt(static_cast<double>(one.size)));
  std::vector<double> scores(static_cast<std::size_t>(one.keys));
  for (std::int64_t b = 0; b < one.batch; ++b)
    for (std::int64_t h = 0; h < one.heads; ++h)
      for (std::int64_t i = 0; i < one.queries; ++i) {
        for (std::int64_t j = 0; j < one.keys; ++j) {
          double& score = scores[static_cast<std::size_t>(j)];
          score = -std::numeric_limits<double>::infinity();
          if (!visible(one.mask, i, j)) continue;
          double product = 0;
          for (std::int64_t d = 0; d < one.size; ++d)
            product += q.at(b, i, h, d) * k.at(b, j, h / (one.heads / one.key_heads), d);
          product *= scale;
          if (one.cap) product = *one.cap * std::tanh(product / *one.cap);
          score =
              product + std::visit(
                            [&](const auto& bias) {
                              return naive_bias(bias, h, i + one.mask.offset.value_or(0), j);
                            },
                            form);
        }
        body(b, h, i, scores);
      }
}

template <typename T>
struct Tensors {
  Vectors4<T> q, k, v, out, out_grad;
  std::vector<float> lse;  // [B, H, T]

  Tensors(const Case& one, const BiasForm& form)
      : q(one.batch, one.queries, one.heads, one.size, one.layout),
        k(one.batch, one.keys, one.key_heads, one.size, one.layout),
        v(one.batch, one.keys, one.key_heads, one.value_size, one.layout),
        out(one.batch, one.queries, one.heads, one.value_size, one.layout),
        out_grad(one.batch, one.queries, one.heads, one.value_size, one.layout) {
    q.fill(1);
    k.fill(2);
    v.fill(3);
    out_grad.fill(4);
    for_rows(
        one, q, k, form,
        [&](std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<double>& scores) {
          double sum = 0;
          for (const double score : scores) sum += std::exp(score);
          lse.push_back(static_cast<float>(std::log(sum)));
          for (std::int64_t d = 0; d < one.value_size; ++d) {
            double mean = 0;
            for (std::int64_t j = 0; j < one.keys; ++j)
              mean += std::exp(scores[static_cast<std::size_t>(j)]) *
                      v.at(b, j, h / (one.heads / one.key_heads), d);
            out.view(out.values.data())(b, i, h, d) = static_cast<T>(sum > 0 ? mean / sum : 0);
          }
        });
  }

  struct OnDevice {
    cuda::Array<T> q, k, v, out, out_grad;
    cuda::Array<float> lse;
    View<const T, 4> views[5];
    View<const float, 3> lse_view;

    explicit OnDevice(const Tensors& from)
        : q(std::span(from.q.values)),
          k(std::span(from.k.values)),
          v(std::span(from.v.values)),
          out(std::span(from.out.values)),
          out_grad(std::span(from.out_grad.values)),
          lse(std::span(from.lse)),
          views{from.q.view(static_cast<const T*>(q.data())),
                from.k.view(static_cast<const T*>(k.data())),
                from.v.view(static_cast<const T*>(v.data())),
                from.out.view(static_cast<const T*>(out.data())),
                from.out_grad.view(static_cast<const T*>(out_grad.data()))},
          lse_view(lse.data(), {from.q.batch, from.q.heads, from.q.rows}) {}
    cuda::BiasGradientInput input() const {
      return {cuda::on_device(views[0]), cuda::on_device(views[1]), cuda::on_device(views[2]),
              cuda::on_device(views[3]), cuda::on_device(lse_view), cuda::on_device(views[4])};
    }
  };
};

// The derivatives of the bias of a pair: body(entry, derivative, magnitude of its terms).
template <typename Body>
void derivatives(const SlopeBias&, std::int64_t, std::int64_t query, std::int64_t key,
                 const Body& body) {
  const double distance = std::fabs(static_cast<double>(key - query));
  body(0, -distance, distance);
}
template <typename Body>
void derivatives(const StripBias& form, std::int64_t, std::int64_t query, std::int64_t key,
                 const Body& body) {
  body(key - query - form.min_distance, 1.0, 1.0);
}
template <typename Body>
void derivatives(const GridBias& form, std::int64_t, std::int64_t query, std::int64_t key,
                 const Body& body) {
  // The entry is the one whose value naive_bias returns.
  GridBias entries{1, form.height, form.width, form.leading, {}};
  entries.values.resize(static_cast<std::size_t>(form.offsets()));
  for (std::size_t n = 0; n < entries.values.size(); ++n)
    entries.values[n] = static_cast<double>(n);
  body(static_cast<std::int64_t>(naive_bias(entries, 0, query, key)), 1.0, 1.0);
}
template <typename Body>
void derivatives(const PiecewiseLogBias& form, std::int64_t h, std::int64_t query,
                 std::int64_t key, const Body& body) {
  const auto psi = [&](double n) { return std::log(form.c * n + 1); };
  const double n = std::fabs(static_cast<double>(key - query));
  const double own = std::max(form.threshold, static_cast<double>(query));
  const double below = psi(own) + form.epsilon, x = psi(n) / below;
  std::int64_t p = 0;
  while (p + 1 < form.pieces() && form.knots[static_cast<std::size_t>(p + 1)] <= x) ++p;
  const double slope = entry(form.slopes, h, form.pieces(), p);
  body(p, 1.0, 1.0);
  body(form.pieces() + p, x, x);
  const double first = n / (form.c * n + 1) / below;
  const double second = x * own / (form.c * own + 1) / below;
  body(2 * form.pieces(), slope * (first - second), std::fabs(slope) * (first + second));
  const bool near = static_cast<double>(query) < form.threshold;
  const double by_threshold = near ? x * form.c / (form.c * own + 1) / below : 0;
  body(2 * form.pieces() + 1, -slope * by_threshold, std::fabs(slope) * by_threshold);
}
template <typename Form, typename Body>
void derivatives(const Form&, std::int64_t, std::int64_t, std::int64_t, const Body&) {}

// values [H, gradient_size]; the sums of P times the derivative of the pairs of each entry; the
// product of the greatest lengths of out_grad and v.
struct Exact {
  std::vector<double> values, weights;
  double lengths = 0;
};

template <typename T>
double greatest_length(const Vectors4<T>& x) {
  double greatest = 0;
  for (std::int64_t b = 0; b < x.batch; ++b)
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t h = 0; h < x.heads; ++h) {
        double squares = 0;
        for (std::int64_t d = 0; d < x.size; ++d)
          squares += x.at(b, r, h, d) * x.at(b, r, h, d);
        greatest = std::max(greatest, std::sqrt(squares));
      }
  return greatest;
}

template <typename T>
Exact exact_gradient(const Case& one, const Tensors<T>& x, const BiasForm& form) {
  const std::int64_t size = gradient_size(form);
  Exact exact;
  exact.values.resize(static_cast<std::size_t>(one.heads * size));
  exact.weights = exact.values;
  exact.lengths = greatest_length(x.out_grad) * greatest_length(x.v);
  std::vector<double> grads(static_cast<std::size_t>(one.keys));
  for_rows(
      one, x.q, x.k, form,
      [&](std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<double>& scores) {
        double sum = 0, mean = 0;
        for (const double score : scores) sum += std::exp(score);
        if (sum == 0) return;
        for (std::size_t j = 0; j < scores.size(); ++j) {
          grads[j] = 0;
          for (std::int64_t d = 0; d < one.value_size; ++d)
            grads[j] += x.out_grad.at(b, i, h, d) * x.v.at(b, static_cast<std::int64_t>(j),
                                                           h / (one.heads / one.key_heads), d);
          mean += std::exp(scores[j]) / sum * grads[j];
        }
        for (std::size_t j = 0; j < scores.size(); ++j) {
          const double p = std::exp(scores[j]) / sum;
          if (p == 0) continue;
          std::visit(
              [&](const auto& bias) {
                derivatives(bias, h, i + one.mask.offset.value_or(0),
                            static_cast<std::int64_t>(j),
                            [&](std::int64_t n, double derivative, double magnitude) {
                              const auto at = static_cast<std::size_t>(h * size + n);
                              exact.values[at] += p * (grads[j] - mean) * derivative;
                              exact.weights[at] += p * magnitude;
                            });
              },
              form);
        }
      });
  return exact;
}

}  // namespace gnomon::testing
