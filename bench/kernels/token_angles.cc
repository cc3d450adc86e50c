#include "gnomon/rotary/token_angles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/kernels/blocks.h"
#include "bench/kernels/kernels.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

constexpr int64_t rotated_heads = 32, rotated_size = 64, rotated_pairs = rotated_size / 2;

// Angles in [-pi, pi], as those of cumulative_angles.
Shared<float, 4> angles_of(int64_t tokens, int64_t angle_heads) {
  const auto angles = random_block<float, 4>({1, tokens, angle_heads, rotated_pairs}, 2);
  for (int64_t i = 0; i < angles->view.size(); ++i) angles->data[at(i)] *= 3.1415926f;
  return angles;
}

template <typename T>
double worst_rotation(View<const T, 4> before, View<const float, 4> angles, Pairing pairing,
                      View<const T, 4> after) {
  const int64_t step = pairing == Pairing::halves ? 1 : 2, half = 2 == step ? 1 : rotated_pairs;
  double worst = 0;
  for (int64_t t = 0; t < before.extent(1); t += std::max<int64_t>(1, before.extent(1) / 61))
    for (int64_t h = 0; h < rotated_heads; h += rotated_heads - 1)
      for (int64_t i = 0; i < rotated_pairs; ++i) {
        const double u = angles(0, t, h * angles.extent(2) / rotated_heads, i);
        const double a = as_double(before(0, t, h, step * i)),
                     b = as_double(before(0, t, h, step * i + half));
        worst = std::max(
            {worst,
             std::fabs(as_double(after(0, t, h, step * i)) - a * std::cos(u) + b * std::sin(u)),
             std::fabs(as_double(after(0, t, h, step * i + half)) - a * std::sin(u) -
                       b * std::cos(u))});
      }
  return worst;
}

template <typename T>
Kernel rotate_kernel(int64_t tokens, Pairing pairing, int64_t angle_heads) {
  const auto x = random_block<T, 4>({1, tokens, rotated_heads, rotated_size});
  const auto angles = angles_of(tokens, angle_heads);
  const TokenRotation rotation{rotated_size, pairing};
  const int64_t bytes = x->view.size() * static_cast<int64_t>(sizeof(T)),
                angle_bytes = angles->view.size() * 4;
  return {"angles",
          fmt::format("rotate {} {} [{}, {}, {}] by [{}, {}, {}]", name(dtype_of<T>),
                      pairing == Pairing::halves ? "halves" : "adjacent", tokens, rotated_heads,
                      rotated_size, tokens, angle_heads, rotated_pairs),
          Roof::memory,
          static_cast<double>(bytes + angle_bytes),
          [=] { rotate_by_angles(x->view, angles->view, rotation); },
          [=] { return touching_and_reading(bytes, angle_bytes); },
          [=] {
            const auto before = random_block<T, 4>(x->view.extents()),
                       after = random_block<T, 4>(x->view.extents());
            rotate_by_angles(after->view, angles->view, rotation);
            return worst_rotation<T>(before->view, angles->view, pairing, after->view);
          }};
}

template <typename T>
Kernel backward_kernel(int64_t tokens) {
  const auto rotated = random_block<T, 4>({1, tokens, rotated_heads, rotated_size});
  const auto grad = random_block<T, 4>({1, tokens, rotated_heads, rotated_size}, 3);
  const auto angles = angles_of(tokens, rotated_heads);
  const auto grad_angles = zeros<float, 4>(angles->view.extents());
  const int64_t bytes = grad->view.size() * static_cast<int64_t>(sizeof(T)),
                angle_bytes = angles->view.size() * 4;
  return {
      "angles",
      fmt::format("gradient {} halves [{}, {}, {}] by [{}, {}, {}]", name(dtype_of<T>), tokens,
                  rotated_heads, rotated_size, tokens, rotated_heads, rotated_pairs),
      Roof::memory,
      static_cast<double>(2 * bytes + 2 * angle_bytes),
      [=] {
        rotate_by_angles_backward(rotated->view, angles->view, {rotated_size, Pairing::halves},
                                  grad->view, grad_angles->view);
      },
      [=] { return touching_and_reading(bytes + angle_bytes, bytes + angle_bytes); },
      {}};
}

Kernel sum_kernel(int64_t tokens, bool backward) {
  const auto increments = random_block<float, 4>({1, tokens, rotated_heads, rotated_pairs});
  const auto out = zeros<float, 4>(increments->view.extents());
  const auto positions = std::make_shared<Positions>(consecutive(tokens));
  const int64_t bytes = out->view.size() * 4;
  return {"angles",
          fmt::format("{} f32 [{}, {}, {}]", backward ? "gradient of sums" : "sums", tokens,
                      rotated_heads, rotated_pairs),
          Roof::memory,
          static_cast<double>(2 * bytes),
          [=] {
            if (backward)
              cumulative_angles_backward(increments->view, *positions, {}, out->view);
            else
              cumulative_angles(increments->view, *positions, {}, {}, out->view);
          },
          [=] { return touching_and_reading(bytes, bytes); },
          {}};
}

}  // namespace

std::vector<KernelMaker> token_angle_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto add = [&](auto make) { all.push_back({"angles", make}); };
  for (const int64_t tokens :
       lengths(only, rotated_heads * (rotated_size + rotated_pairs) * 4)) {
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      add([=] { return rotate_kernel<float>(tokens, pairing, rotated_heads); });
    add([=] { return rotate_kernel<BFloat16>(tokens, Pairing::halves, rotated_heads); });
    add([=] { return rotate_kernel<float>(tokens, Pairing::halves, 1); });
    add([=] { return backward_kernel<float>(tokens); });
    add([=] { return backward_kernel<BFloat16>(tokens); });
    add([=] { return sum_kernel(tokens, false); });
    add([=] { return sum_kernel(tokens, true); });
  }
  return all;
}

}  // namespace gnomon::bench
