#include "gnomon/relative/transformer_xl.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/error.h"
#include "src/core/wide.h"
#include "src/relative/numbers.h"
#include "src/relative/project.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

void check(const TransformerXl& xl) {
  if (xl.heads < 1) refuse("transformer_xl", "heads must be at least 1", xl.heads);
  if (xl.head_dim < 1) refuse("transformer_xl", "head_dim must be at least 1", xl.head_dim);
  if (xl.width < 2 || xl.width % 2)
    refuse("transformer_xl", "width must be even and at least 2", xl.width);
  if (xl.sinusoid != XlSinusoid::half_split && xl.sinusoid != XlSinusoid::interleaved)
    refuse("transformer_xl", "sinusoid must be half_split or interleaved",
           static_cast<int>(xl.sinusoid));
  if (xl.clamp && *xl.clamp < 1)
    refuse("transformer_xl", "clamp must be at least 1", *xl.clamp);
  if (!(xl.base > 1 && std::isfinite(xl.base)))
    refuse("transformer_xl", "base must be greater than 1 and finite", xl.base);
}

template <typename T>
void check_weights(const TransformerXl& xl, const View<T, 2>& w, const View<T, 2>& u,
                   const View<T, 2>& v) {
  internal::check_matrix(
      "transformer_xl", "w", w,
      internal::checked_product("transformer_xl", "heads x head_dim", {xl.heads, xl.head_dim}),
      xl.width);
  internal::check_matrix("transformer_xl", "u", u, xl.heads, xl.head_dim);
  internal::check_matrix("transformer_xl", "v", v, xl.heads, xl.head_dim);
}

// The distances that have a vector: lowest to lowest + vectors - 1.
struct RelativeRows {
  int64_t lowest, vectors;
};

int64_t clamped(const TransformerXl& xl, int64_t distance) {
  return xl.clamp ? std::clamp(distance, -*xl.clamp, *xl.clamp) : distance;
}

RelativeRows rows_of(const TransformerXl& xl, int64_t min_distance, int64_t count) {
  internal::check_vector_distances("transformer_xl", min_distance, count);
  const int64_t lowest = clamped(xl, min_distance),
                highest = clamped(xl, min_distance + count - 1);
  constexpr int64_t farthest = int64_t{1} << 31;  // limit of fill_cos_sin
  for (const int64_t distance : {lowest, highest})
    if (distance < -farthest || distance > farthest)
      refuse("transformer_xl", "distances must be at most 2^31 in magnitude", distance);
  return {lowest, highest - lowest + 1};
}

// Returns r(i - j) for the distances j - i of `reach`, [vectors, C].
std::vector<double> sinusoids(const TransformerXl& xl, const RelativeRows& reach) {
  const int64_t pairs = xl.width / 2;
  const std::vector<double> frequencies =
      internal::powers(xl.base, internal::Wide(-2) / static_cast<double>(xl.width), pairs);
  std::vector<int64_t> back(to_size(reach.vectors));
  for (int64_t n = 0; n < reach.vectors; ++n) back[to_size(n)] = -(reach.lowest + n);
  std::vector<double> table(
      internal::checked_size("transformer_xl", "distances x width", {reach.vectors, xl.width}));
  const bool halves = xl.sinusoid == XlSinusoid::half_split;
  const auto columns = [&](int64_t column) {
    return View<double, 2>(table.data() + column, {reach.vectors, pairs},
                           {xl.width, halves ? 1 : 2});
  };
  fill_cos_sin(std::span<const int64_t>(back), std::span<const double>(frequencies),
               columns(halves ? pairs : 1), columns(0));
  return table;
}

// Returns scale (v - u), [H D].
std::vector<double> differences(const XlWeights& weights, double scale) {
  std::vector<double> all = internal::as_doubles(weights.v);
  const std::vector<double> u = internal::as_doubles(weights.u);
  for (std::size_t n = 0; n < all.size(); ++n) all[n] = scale * (all[n] - u[n]);
  return all;
}

// Returns scale (v - u) . K, [H, vectors].
std::vector<double> beside(const TransformerXl& xl, const XlWeights& weights,
                           const RelativeRows& reach, const std::vector<double>& vectors,
                           double scale) {
  const std::vector<double> shifts = differences(weights, scale);
  std::vector<double> numbers(
      internal::checked_size("transformer_xl", "heads x distances", {xl.heads, reach.vectors}));
  for (int64_t h = 0; h < xl.heads; ++h)
    internal::multiply(
        internal::of_head(vectors.data(), h, reach.vectors, xl.head_dim),
        internal::RightFactor(internal::of_head(shifts.data(), h, xl.head_dim, 1)),
        internal::of_head(numbers.data(), h, reach.vectors, 1));
  return numbers;
}

void check_scale(double scale) {
  if (!(scale > 0 && std::isfinite(scale)))
    refuse("transformer_xl", "softmax_scale must be positive and finite", scale);
}

}  // namespace

TransformerXlPlan lower(const TransformerXl& xl, const XlWeights& weights, int64_t min_distance,
                        int64_t count, double softmax_scale) {
  check(xl);
  check_weights(xl, weights.w, weights.u, weights.v);
  check_scale(softmax_scale);
  const RelativeRows reach = rows_of(xl, min_distance, count);
  TransformerXlPlan plan{.form = {}, .min_distance = min_distance, .strip = {}};
  RelativeVectors keys{
      .heads = xl.heads, .head_dim = xl.head_dim, .min_distance = min_distance};
  keys.values = internal::project(xl.heads, weights.w, {}, sinusoids(xl, reach));
  keys.rows.reserve(to_size(count));
  for (int64_t n = 0; n < count; ++n)
    keys.rows.push_back(
        static_cast<std::int32_t>(clamped(xl, min_distance + n) - reach.lowest));
  const std::vector<double> numbers = beside(xl, weights, reach, keys.values, softmax_scale);
  plan.strip.reserve(
      internal::checked_size("transformer_xl", "heads x distances", {xl.heads, count}));
  for (int64_t h = 0; h < xl.heads; ++h)
    for (const std::int32_t row : keys.rows)
      plan.strip.push_back(numbers[to_size(h * reach.vectors + row)]);
  plan.form.shift = internal::as_doubles(weights.u);
  plan.form.keys.push_back(std::move(keys));
  return plan;
}

void lower_backward(const TransformerXl& xl, const XlWeights& weights, int64_t min_distance,
                    int64_t count, double softmax_scale, const RelativeGradient& grad,
                    std::span<const double> strip_grad, const XlGradients& weights_grad) {
  check(xl);
  check_weights(xl, weights.w, weights.u, weights.v);
  check_weights(xl, weights_grad.w, weights_grad.u, weights_grad.v);
  check_scale(softmax_scale);
  const RelativeRows reach = rows_of(xl, min_distance, count);
  const int64_t wide = xl.heads * xl.head_dim, channels = xl.width;
  const std::vector<double>& of_keys =
      internal::only("transformer_xl", "keys", grad.keys, wide * reach.vectors);
  if (grad.shift.size() != to_size(wide))
    refuse("transformer_xl",
           "the gradient of the shift must have " + std::to_string(wide) + " numbers",
           static_cast<int64_t>(grad.shift.size()));
  if (strip_grad.size() !=
      internal::checked_size("transformer_xl", "heads x distances", {xl.heads, count}))
    refuse("transformer_xl",
           "the gradient of the strip must have heads x distances values, " +
               std::to_string(xl.heads * count),
           static_cast<int64_t>(strip_grad.size()));
  const std::vector<double> r = sinusoids(xl, reach);
  // The gradient of the strip, summed by vector and multiplied by the scale.
  std::vector<double> strip(to_size(xl.heads * reach.vectors));
  for (int64_t h = 0; h < xl.heads; ++h)
    for (int64_t n = 0; n < count; ++n)
      strip[to_size(h * reach.vectors + clamped(xl, min_distance + n) - reach.lowest)] +=
          softmax_scale * strip_grad[to_size(h * count + n)];
  // The strip depends on the vectors K, on u and on v. The gradient of v is sum_n strip[n] K(n)
  // = W sum_n strip[n] r(n), which does not require K.
  std::vector<double> of_vectors = of_keys, of_v(to_size(wide)),
                      met(to_size(xl.heads * channels));
  internal::multiply(internal::as_matrix(strip, reach.vectors),
                     internal::RightFactor(internal::as_matrix(r, channels)),
                     internal::of_head(met.data(), 0, xl.heads, channels));
  const std::vector<double> shifts = differences(weights, 1);
  for (int64_t h = 0; h < xl.heads; ++h) {
    const View<const float, 2> w = weights.w.slice(0, h * xl.head_dim, xl.head_dim);
    internal::multiply(internal::of_head(std::as_const(met).data(), h, 1, channels),
                       internal::RightFactor(internal::exchanged(w)),
                       internal::of_head(of_v.data(), h, 1, xl.head_dim));
    internal::multiply_add(
        internal::of_head(std::as_const(strip).data(), h, reach.vectors, 1),
        internal::RightFactor(internal::of_head(shifts.data(), h, 1, xl.head_dim)),
        internal::of_head(of_vectors.data(), h, reach.vectors, xl.head_dim));
  }
  std::vector<double> of_u = grad.shift;
  for (std::size_t n = 0; n < of_u.size(); ++n) of_u[n] -= of_v[n];
  internal::add_rounded(internal::project_backward(xl.heads, wide, channels, r, of_vectors),
                        weights_grad.w);
  internal::add_rounded(of_u, weights_grad.u);
  internal::add_rounded(of_v, weights_grad.v);
}

}  // namespace gnomon
