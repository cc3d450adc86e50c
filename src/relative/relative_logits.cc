#include "gnomon/relative/relative_logits.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/token_projection.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr double clip_epsilon = 1e-6;  // Inkling2L2Clip

void check(const RelativeLogits& logits) {
  constexpr int64_t most = int64_t{1} << 30;  // rows of a form are 32-bit
  for (const auto& [name, value] : {std::pair("heads", logits.heads),
                                    {"width", logits.width},
                                    {"rank", logits.rank},
                                    {"extent", logits.extent}})
    if (value < 1 || value > most)
      refuse("relative_logits", std::string(name) + " must be 1 to " + std::to_string(most),
             value);
  if (!(logits.clip >= 0 && std::isfinite(logits.clip)))
    refuse("relative_logits", "clip must be finite and not negative", logits.clip);
}

template <typename T>
void check_projection(const RelativeLogits& s, const RelativeProjection<T>& projection) {
  const int64_t rows =
      internal::checked_product("relative_logits", "heads x rank", {s.heads, s.rank});
  internal::check_shape<2>("relative_logits", "projection", projection.weight.extents(),
                           {rows, s.width});
  if (s.clip > 0)
    internal::check_shape<2>("relative_logits", "scale", projection.scale.extents(),
                             {s.heads, s.rank});
}

void check_input(const RelativeLogits& s, View<const float, 3> x, const char* name,
                 View<const float, 4> out) {
  internal::check_shape<3>("relative_logits", "x", x.extents(),
                           {x.extent(0), x.extent(1), s.width});
  internal::check_shape<4>("relative_logits", name, out.extents(),
                           {x.extent(0), x.extent(1), s.heads, s.rank});
}

template <typename T>
void check_table(const RelativeLogits& s, View<T, 2> table) {
  internal::check_shape<2>("relative_logits", "table", table.extents(), {s.rank, s.extent});
}

// Calls body(numbers of r, b, t, h) for each token and head.
template <typename Body>
void for_vectors(const RelativeLogits& s, View<const float, 3> x, std::vector<double>& r,
                 const Body& body) {
  double* at = r.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < s.heads; ++h, at += s.rank) body(at, b, t, h);
}

}  // namespace

RelativeForm lower(const RelativeLogits& logits, View<const float, 2> table) {
  check(logits), check_table(logits, table);
  RelativeVectors vectors{
      .heads = 1, .head_dim = logits.rank, .min_distance = 1 - logits.extent};
  for (int64_t away = logits.extent - 1; away >= 0; --away) {
    vectors.rows.push_back(static_cast<std::int32_t>(logits.extent - 1 - away));
    for (int64_t n = 0; n < logits.rank; ++n)
      vectors.values.push_back(static_cast<double>(table(n, away)));
  }
  RelativeForm form;
  form.projected.push_back(std::move(vectors));
  return form;
}

void lower_backward(const RelativeLogits& logits, const RelativeGradient& grad,
                    View<float, 2> table_grad) {
  check(logits), check_table(logits, table_grad);
  if (grad.projected.size() != 1 ||
      std::ssize(grad.projected[0]) != logits.extent * logits.rank)
    refuse("relative_logits",
           "the gradient must have one table of " +
               std::to_string(logits.extent * logits.rank) + " numbers",
           static_cast<int64_t>(grad.projected.size()));
  const double* from = grad.projected[0].data();
  for (int64_t away = logits.extent - 1; away >= 0; --away)
    for (int64_t n = 0; n < logits.rank; ++n, ++from)
      table_grad(n, away) =
          static_cast<float>(static_cast<double>(table_grad(n, away)) + *from);
}

void relative_queries(const RelativeLogits& logits,
                      const RelativeProjection<const float>& projection, View<const float, 3> x,
                      View<float, 4> out) {
  check(logits), check_projection(logits, projection), check_input(logits, x, "out", out);
  std::vector<double> r = internal::project_tokens(x, projection.weight);
  for_vectors(logits, x, r, [&](double* at, std::int64_t b, std::int64_t t, auto h) {
    double factor = 1, squares = 0;
    for (int64_t n = 0; n < logits.rank && logits.clip > 0; ++n) {
      at[n] *= static_cast<double>(projection.scale(h, n));
      squares += at[n] * at[n];
    }
    if (logits.clip > 0)
      factor = std::min(1.0, logits.clip / (std::sqrt(squares) + clip_epsilon));
    for (int64_t n = 0; n < logits.rank; ++n)
      out(b, t, h, n) = static_cast<float>(factor * at[n]);
  });
}

void relative_queries_backward(const RelativeLogits& logits,
                               const RelativeProjection<const float>& projection,
                               View<const float, 3> x, View<const float, 4> out_grad,
                               View<float, 3> x_grad, const RelativeProjection<float>& grads) {
  check(logits), check_projection(logits, projection);
  check_input(logits, x, "out_grad", out_grad);
  if (grads.weight.data()) check_projection(logits, grads);
  if (x_grad.data())
    internal::check_shape<3>("relative_logits", "x_grad", x_grad.extents(), x.extents());
  std::vector<double> r;
  if (logits.clip > 0)
    r = internal::project_tokens(x, projection.weight);
  else
    r.resize(static_cast<std::size_t>(out_grad.size()));
  std::vector<double> scale_grad(static_cast<std::size_t>(logits.heads * logits.rank));
  for_vectors(logits, x, r, [&](double* at, std::int64_t b, std::int64_t t, auto h) {
    const auto grad = [&](int64_t n) { return static_cast<double>(out_grad(b, t, h, n)); };
    if (logits.clip == 0) {
      for (int64_t n = 0; n < logits.rank; ++n) at[n] = grad(n);
      return;
    }
    // y = f s r with f = clip / (|s r| + epsilon), if that is below 1.
    const auto scale = [&](int64_t n) { return static_cast<double>(projection.scale(h, n)); };
    double squares = 0, along = 0;
    for (int64_t n = 0; n < logits.rank; ++n) {
      const double scaled = scale(n) * at[n];
      squares += scaled * scaled, along += scaled * grad(n);
    }
    const double length = std::sqrt(squares), whole = length + clip_epsilon;
    const bool clipped = logits.clip < whole;
    const double factor = clipped ? logits.clip / whole : 1;
    for (int64_t n = 0; n < logits.rank; ++n) {
      double of_scaled = factor * grad(n);
      if (clipped) of_scaled -= factor * along * scale(n) * at[n] / (length * whole);
      scale_grad[static_cast<std::size_t>(h * logits.rank + n)] += of_scaled * at[n];
      at[n] = of_scaled * scale(n);
    }
  });
  internal::project_tokens_backward(x, projection.weight, r, x_grad, grads.weight);
  if (!grads.scale.data() || logits.clip == 0) return;
  for (int64_t h = 0; h < logits.heads; ++h)
    for (int64_t n = 0; n < logits.rank; ++n)
      grads.scale(h, n) =
          static_cast<float>(static_cast<double>(grads.scale(h, n)) +
                             scale_grad[static_cast<std::size_t>(h * logits.rank + n)]);
}

}  // namespace gnomon
