#include "gnomon/bias/swin_v2.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/bias/network.h"
#include "src/bias/strip.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr double range = 16;  // the bias is between 0 and this

void check(const SwinV2& swin) {
  constexpr int64_t most = 1 << 15;
  if (swin.heads < 1) refuse("swin_v2", "heads must be at least 1", swin.heads);
  if (swin.height < 1 || swin.height >= most)
    refuse("swin_v2", "height must be 1 to 32767", swin.height);
  if (swin.width < 1 || swin.width >= most)
    refuse("swin_v2", "width must be 1 to 32767", swin.width);
  if (swin.hidden < 1) refuse("swin_v2", "hidden must be at least 1", swin.hidden);
  const int64_t before[] = {swin.pretrained_height, swin.pretrained_width};
  if (before[0] == 0 && before[1] == 0) return;
  for (const int64_t size : before)
    if (size < 2)
      refuse("swin_v2", "pretrained_height and pretrained_width must be at least 2, or both 0",
             size);
}

template <typename T>
void check_shapes(const SwinV2& swin, const SwinV2Parameters<T>& parameters) {
  check(swin);
  internal::check_shape<2>("swin_v2", "w1", parameters.w1.extents(), {swin.hidden, 2});
  internal::check_shape<1>("swin_v2", "b1", parameters.b1.extents(), {swin.hidden});
  internal::check_shape<2>("swin_v2", "w2", parameters.w2.extents(), {swin.heads, swin.hidden});
}

double finite_parameter(const char* name, float value) {
  if (!std::isfinite(value))
    refuse("swin_v2", std::string(name) + " must be finite", double{value});
  return value;
}

internal::Network network_of(const SwinV2& swin,
                             const SwinV2Parameters<const float>& parameters) {
  internal::NetworkLayer first{2, swin.hidden, {}, {}}, second{swin.hidden, swin.heads, {}, {}};
  for (int64_t u = 0; u < swin.hidden; ++u) {
    first.bias.push_back(finite_parameter("b1", parameters.b1(u)));
    for (int64_t i = 0; i < 2; ++i)
      first.weight.push_back(finite_parameter("w1", parameters.w1(u, i)));
  }
  second.bias.assign(static_cast<std::size_t>(swin.heads), 0.0);
  for (int64_t h = 0; h < swin.heads; ++h)
    for (int64_t u = 0; u < swin.hidden; ++u)
      second.weight.push_back(finite_parameter("w2", parameters.w2(h, u)));
  return {internal::Activation::relu, {std::move(first), std::move(second)}};
}

double spaced(int64_t offset, int64_t own, int64_t before) {
  const int64_t size = before ? before : own;
  if (size == 1) return 0;
  const double x = 8 * static_cast<double>(offset) / static_cast<double>(size - 1);
  return std::copysign(std::log2(1 + std::fabs(x)) / 3, x);
}

// [N, 2]
std::vector<double> inputs_of(const SwinV2& swin) {
  std::vector<double> inputs;
  for (int64_t dy = 1 - swin.height; dy < swin.height; ++dy)
    for (int64_t dx = 1 - swin.width; dx < swin.width; ++dx) {
      inputs.push_back(spaced(dy, swin.height, swin.pretrained_height));
      inputs.push_back(spaced(dx, swin.width, swin.pretrained_width));
    }
  return inputs;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

GridBias lower(const SwinV2& swin, const SwinV2Parameters<const float>& parameters) {
  check_shapes(swin, parameters);
  GridBias grid{.heads = swin.heads,
                .height = swin.height,
                .width = swin.width,
                .leading = 0,
                .values = {}};
  const int64_t offsets = grid.offsets();
  const std::vector<double> outputs =
      internal::apply(network_of(swin, parameters), inputs_of(swin), offsets);
  grid.values.reserve(outputs.size());
  for (int64_t h = 0; h < swin.heads; ++h)
    for (int64_t n = 0; n < offsets; ++n)
      grid.values.push_back(range *
                            sigmoid(outputs[static_cast<std::size_t>(n * swin.heads + h)]));
  return grid;
}

void lower_backward(const SwinV2& swin, const SwinV2Parameters<const float>& parameters,
                    std::span<const double> grid_grad, const SwinV2Parameters<float>& grads) {
  check_shapes(swin, parameters);
  check_shapes(swin, grads);
  const int64_t offsets = (2 * swin.height - 1) * (2 * swin.width - 1);
  if (static_cast<int64_t>(grid_grad.size()) != swin.heads * offsets)
    refuse("swin_v2",
           "the gradient of the grid must have heads x offsets values, " +
               std::to_string(swin.heads * offsets),
           static_cast<int64_t>(grid_grad.size()));
  const internal::Network network = network_of(swin, parameters);
  const std::vector<double> inputs = inputs_of(swin);
  std::vector<double> output_grad = internal::apply(network, inputs, offsets);
  for (int64_t n = 0; n < offsets; ++n)
    for (int64_t h = 0; h < swin.heads; ++h) {
      double& at = output_grad[static_cast<std::size_t>(n * swin.heads + h)];
      const double share = sigmoid(at);
      at = range * share * (1 - share) * grid_grad[static_cast<std::size_t>(h * offsets + n)];
    }
  const auto sums = internal::apply_backward(network, inputs, offsets, output_grad);
  for (int64_t u = 0; u < swin.hidden; ++u) {
    internal::add(grads.b1(u), sums[0].bias[static_cast<std::size_t>(u)]);
    for (int64_t i = 0; i < 2; ++i)
      internal::add(grads.w1(u, i), sums[0].weight[static_cast<std::size_t>(2 * u + i)]);
    for (int64_t h = 0; h < swin.heads; ++h)
      internal::add(grads.w2(h, u),
                    sums[1].weight[static_cast<std::size_t>(h * swin.hidden + u)]);
  }
}

namespace {
const double most_logit_scale = std::log(100.0);
}

std::vector<double> cosine_scales(View<const float, 1> logit_scale) {
  std::vector<double> scales;
  for (std::ptrdiff_t h = 0; h < logit_scale.extent(0); ++h)
    scales.push_back(
        std::exp(std::min(finite_parameter("logit_scale", logit_scale(h)), most_logit_scale)));
  return scales;
}

void cosine_scales_backward(View<const float, 1> logit_scale,
                            std::span<const double> scale_grad, View<float, 1> grad) {
  const std::vector<double> scales = cosine_scales(logit_scale);
  if (scale_grad.size() != scales.size())
    refuse("swin_v2",
           "the gradient of the scales must have one value per head, " +
               std::to_string(scales.size()),
           static_cast<int64_t>(scale_grad.size()));
  internal::check_shape<1>("swin_v2", "the gradient of logit_scale", grad.extents(),
                           {logit_scale.extent(0)});
  for (std::ptrdiff_t h = 0; h < grad.extent(0); ++h)
    if (double{logit_scale(h)} <= most_logit_scale)
      internal::add(grad(h), scale_grad[static_cast<std::size_t>(h)] *
                                 scales[static_cast<std::size_t>(h)]);
}

}  // namespace gnomon
