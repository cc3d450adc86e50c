#include "gnomon/rotary/pope.h"

#include <algorithm>
#include <numbers>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

constexpr double widest_phase = 2 * std::numbers::pi;

void check_biases(const Pope& pope, View<const float, 2> b) {
  frequencies(pope);
  if (b.extent(0) != pope.heads || b.extent(1) != pope.head_dim)
    refuse(
        "pope",
        "b must be [" + std::to_string(pope.heads) + ", " + std::to_string(pope.head_dim) + "]",
        shape_text(b.extents()));
}

}  // namespace

RotaryFrequencies frequencies(const Pope& pope) {
  if (pope.heads < 1) refuse("pope", "heads must be at least 1", pope.heads);
  if (pope.head_dim < 1 || pope.head_dim > (std::int64_t{1} << 30))
    refuse("pope", "head_dim must be 1 to 2^30", pope.head_dim);
  return lower(
      Rotary{.rotary_dim = 2 * pope.head_dim, .pairing = Pairing::halves, .base = pope.base});
}

PolarForm lower(const Pope& pope, View<const float, 2> b) {
  check_biases(pope, b);
  PolarForm form{pope.heads, pope.head_dim, {}};
  form.phases.reserve(internal::to_size(b.size()));
  for (std::int64_t h = 0; h < pope.heads; ++h)
    for (std::int64_t n = 0; n < pope.head_dim; ++n)
      form.phases.push_back(std::clamp(double{b(h, n)}, -widest_phase, 0.0));
  return form;
}

void lower_backward(const Pope& pope, View<const float, 2> b, const std::vector<double>& phases,
                    View<float, 2> b_grad) {
  check_biases(pope, b), check_biases(pope, b_grad);
  if (static_cast<std::int64_t>(phases.size()) != b.size())
    refuse("pope",
           "the gradient of the phases must have " + std::to_string(b.size()) + " elements",
           static_cast<std::int64_t>(phases.size()));
  for (std::int64_t h = 0; h < pope.heads; ++h)
    for (std::int64_t n = 0; n < pope.head_dim; ++n)
      if (b(h, n) >= -static_cast<float>(widest_phase) && b(h, n) <= 0)
        b_grad(h, n) += static_cast<float>(phases[internal::to_size(h * pope.head_dim + n)]);
}

}  // namespace gnomon
