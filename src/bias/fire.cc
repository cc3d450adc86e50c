#include "gnomon/bias/fire.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const Fire& fire) {
  if (fire.heads < 1) refuse("fire", "heads must be at least 1", fire.heads);
  if (fire.hidden < 1) refuse("fire", "hidden must be at least 1", fire.hidden);
  if (!(fire.threshold > 0) || !std::isfinite(fire.threshold))
    refuse("fire", "threshold must be positive and finite", fire.threshold);
  if (!(fire.epsilon >= 0) || !std::isfinite(fire.epsilon))
    refuse("fire", "epsilon must be finite and not negative", fire.epsilon);
}

template <typename T>
void check_shapes(const Fire& fire, const FireParameters<T>& parameters) {
  check(fire);
  internal::check_shape<1>("fire", "w1", parameters.w1.extents(), {fire.hidden});
  internal::check_shape<1>("fire", "b1", parameters.b1.extents(), {fire.hidden});
  internal::check_shape<2>("fire", "w2", parameters.w2.extents(), {fire.heads, fire.hidden});
  internal::check_shape<1>("fire", "b2", parameters.b2.extents(), {fire.heads});
  internal::check_shape<1>("fire", "c", parameters.c.extents(), {1});
  internal::check_shape<1>("fire", "multiplier", parameters.multiplier.extents(), {1});
}

void check_values(const FireParameters<const float>& parameters) {
  const auto check_each = [](const char* name, View<const float, 1> view) {
    for (std::ptrdiff_t i = 0; i < view.extent(0); ++i)
      if (!std::isfinite(view(i)))
        refuse("fire", std::string(name) + " must be finite", double{view(i)});
  };
  check_each("w1", parameters.w1);
  check_each("b1", parameters.b1);
  check_each("b2", parameters.b2);
  for (std::ptrdiff_t h = 0; h < parameters.w2.extent(0); ++h)
    for (std::ptrdiff_t u = 0; u < parameters.w2.extent(1); ++u)
      if (!std::isfinite(parameters.w2(h, u)))
        refuse("fire", "w2 must be finite", double{parameters.w2(h, u)});
  for (const auto& [name, value] :
       {std::pair{"c", parameters.c(0)}, std::pair{"multiplier", parameters.multiplier(0)}})
    if (value == 0 || !std::isfinite(value))
      refuse("fire", std::string(name) + " must be finite and not 0", double{value});
}

// The x at which the input of each unit changes its sign, and the pieces between them.
struct Pieces {
  const FireParameters<const float>& parameters;
  std::vector<double> kinks;  // [U]; NaN if w1[u] is 0
  std::vector<double> knots;  // [P]

  Pieces(const Fire& fire, const FireParameters<const float>& of) : parameters(of), knots{0} {
    for (int64_t u = 0; u < fire.hidden; ++u) {
      kinks.push_back(of.w1(u) == 0 ? NAN : -double{of.b1(u)} / double{of.w1(u)});
      if (kinks.back() > 0) knots.push_back(kinks.back());
    }
    std::sort(knots.begin(), knots.end());
    knots.erase(std::unique(knots.begin(), knots.end()), knots.end());
  }
  // Returns whether the input of unit u is positive inside piece p.
  bool active(int64_t u, std::size_t p) const {
    const float slope = parameters.w1(u);
    if (slope == 0) return parameters.b1(u) > 0;
    const bool beyond = knots[p] >= kinks[static_cast<std::size_t>(u)];
    return slope > 0 ? beyond : !beyond;
  }
};

void add(float& to, double value) { to = static_cast<float>(double{to} + value); }

}  // namespace

PiecewiseLogBias lower(const Fire& fire, const FireParameters<const float>& parameters) {
  check_shapes(fire, parameters);
  check_values(parameters);
  const Pieces pieces(fire, parameters);
  const std::size_t count = pieces.knots.size();
  PiecewiseLogBias bias{
      .heads = fire.heads,
      .c = std::abs(double{parameters.c(0)}),
      .threshold = std::abs(double{parameters.multiplier(0)}) * fire.threshold,
      .epsilon = fire.epsilon,
      .knots = pieces.knots,
      .offsets = {},
      .slopes = {}};
  for (int64_t h = 0; h < fire.heads; ++h)
    for (std::size_t p = 0; p < count; ++p) {
      double offset = parameters.b2(h), slope = 0;
      for (int64_t u = 0; u < fire.hidden; ++u)
        if (pieces.active(u, p)) {
          offset += double{parameters.w2(h, u)} * double{parameters.b1(u)};
          slope += double{parameters.w2(h, u)} * double{parameters.w1(u)};
        }
      bias.offsets.push_back(offset);
      bias.slopes.push_back(slope);
    }
  return bias;
}

void lower_backward(const Fire& fire, const FireParameters<const float>& parameters,
                    std::span<const double> bias_grad, const FireParameters<float>& grads) {
  check_shapes(fire, parameters);
  check_shapes(fire, grads);
  check_values(parameters);
  const Pieces pieces(fire, parameters);
  const std::size_t count = pieces.knots.size(), width = 2 * count + 2;
  if (bias_grad.size() != static_cast<std::size_t>(fire.heads) * width)
    refuse("fire",
           "the gradient of the bias must have heads x (2 pieces + 2) values, " +
               std::to_string(static_cast<std::size_t>(fire.heads) * width),
           static_cast<int64_t>(bias_grad.size()));
  std::vector<double> w1(static_cast<std::size_t>(fire.hidden)), b1(w1.size());
  double c = 0, threshold = 0;
  for (int64_t h = 0; h < fire.heads; ++h) {
    const auto of_head = bias_grad.subspan(static_cast<std::size_t>(h) * width, width);
    double b2 = 0;
    for (std::size_t p = 0; p < count; ++p) b2 += of_head[p];
    for (int64_t u = 0; u < fire.hidden; ++u) {
      double offset = 0, slope = 0;  // sums over the pieces in which the unit is active
      for (std::size_t p = 0; p < count; ++p)
        if (pieces.active(u, p)) offset += of_head[p], slope += of_head[count + p];
      const double weight = parameters.w2(h, u);
      b1[static_cast<std::size_t>(u)] += weight * offset;
      w1[static_cast<std::size_t>(u)] += weight * slope;
      add(grads.w2(h, u), offset * double{parameters.b1(u)} + slope * double{parameters.w1(u)});
    }
    add(grads.b2(h), b2);
    c += of_head[2 * count];
    threshold += of_head[2 * count + 1];
  }
  for (int64_t u = 0; u < fire.hidden; ++u) {
    add(grads.w1(u), w1[static_cast<std::size_t>(u)]);
    add(grads.b1(u), b1[static_cast<std::size_t>(u)]);
  }
  add(grads.c(0), c * std::copysign(1.0, double{parameters.c(0)}));
  add(grads.multiplier(0),
      threshold * std::copysign(fire.threshold, double{parameters.multiplier(0)}));
}

}  // namespace gnomon
