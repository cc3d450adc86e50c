#include "gnomon/bias/kerple.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/bias/strip.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t kerple_grain = 512;  // distances in a piece of work: some 20 us

void check(const Kerple& kerple) {
  if (kerple.heads < 1) refuse("kerple", "heads must be at least 1", kerple.heads);
  if (kerple.kernel != KerpleKernel::power && kerple.kernel != KerpleKernel::logarithmic)
    refuse("kerple", "kernel must be power or logarithmic", static_cast<int>(kerple.kernel));
}

template <typename T>
void check_shapes(const Kerple& kerple, const KerpleParameters<T>& parameters) {
  check(kerple);
  for (const auto& [name, view] :
       {std::pair{"r1", parameters.r1}, std::pair{"r2", parameters.r2}})
    if (view.extent(0) != kerple.heads)
      refuse("kerple", std::string(name) + " must be [" + std::to_string(kerple.heads) + "]",
             shape_text(view.extents()));
}

void check_values(const KerpleParameters<const float>& parameters) {
  for (const auto& [name, view] :
       {std::pair{"r1", parameters.r1}, std::pair{"r2", parameters.r2}})
    for (std::ptrdiff_t h = 0; h < view.extent(0); ++h)
      if (!std::isfinite(view(h)))
        refuse("kerple", std::string(name) + " must be finite", double{view(h)});
}

// A parameter and its upper bound.
struct Bounded {
  double given, most;
  double value() const { return std::clamp(given, Kerple::least, most); }
  // Returns the gradient of the given parameter from that of the clamped value.
  double passed(double grad) const {
    if (given < Kerple::least && grad > 0) return 0;
    if (given > most && grad < 0) return 0;
    return grad;
  }
};
Bounded first_of(const KerpleParameters<const float>& parameters, int64_t h) {
  return {parameters.r1(h), INFINITY};
}
Bounded second_of(const Kerple& kerple, const KerpleParameters<const float>& parameters,
                  int64_t h) {
  return {parameters.r2(h),
          kerple.kernel == KerpleKernel::power ? Kerple::most_power : INFINITY};
}

}  // namespace

StripBias lower(const Kerple& kerple, const KerpleParameters<const float>& parameters,
                int64_t min_distance, int64_t count) {
  check_shapes(kerple, parameters);
  check_values(parameters);
  StripBias strip = internal::empty_strip("kerple", kerple.heads, min_distance, count);
  parallel_for(kerple.heads * count, kerple_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t h = i / count;
      const double r1 = first_of(parameters, h).value();
      const double r2 = second_of(kerple, parameters, h).value();
      const double distance = std::fabs(static_cast<double>(min_distance + i % count));
      strip.values[static_cast<std::size_t>(i)] = kerple.kernel == KerpleKernel::power
                                                      ? -r1 * std::pow(distance, r2)
                                                      : -r1 * std::log1p(r2 * distance);
    }
  });
  return strip;
}

void lower_backward(const Kerple& kerple, const KerpleParameters<const float>& parameters,
                    std::span<const double> strip_grad, int64_t min_distance, int64_t count,
                    const KerpleParameters<float>& grads) {
  check_shapes(kerple, parameters);
  check_shapes(kerple, grads);
  check_values(parameters);
  internal::check_strip_grad("kerple", strip_grad, kerple.heads, min_distance, count);
  parallel_for(kerple.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const Bounded one = first_of(parameters, h), two = second_of(kerple, parameters, h);
      const double r1 = one.value(), r2 = two.value();
      double by_first = 0, by_second = 0;
      for (int64_t n = 0; n < count; ++n) {
        const double distance = std::fabs(static_cast<double>(min_distance + n));
        const double grad = strip_grad[static_cast<std::size_t>(h * count + n)];
        if (distance == 0) continue;  // the bias is 0 for all r1 and r2
        if (kerple.kernel == KerpleKernel::power) {
          const double power = std::pow(distance, r2);
          by_first -= grad * power;
          by_second -= grad * r1 * power * std::log(distance);
        } else {
          by_first -= grad * std::log1p(r2 * distance);
          by_second -= grad * r1 * distance / (1 + r2 * distance);
        }
      }
      internal::add(grads.r1(h), one.passed(by_first));
      internal::add(grads.r2(h), two.passed(by_second));
    }
  });
}

}  // namespace gnomon
