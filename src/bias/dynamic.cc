#include "gnomon/bias/dynamic.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/bias/network.h"
#include "src/bias/strip.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const DynamicBias& dynamic) {
  if (dynamic.heads < 1) refuse("dynamic", "heads must be at least 1", dynamic.heads);
  if (dynamic.hidden < 1) refuse("dynamic", "hidden must be at least 1", dynamic.hidden);
  if (dynamic.depth < 1 || dynamic.depth > 1024)
    refuse("dynamic", "depth must be 1 to 1024", dynamic.depth);
  if (dynamic.scale != DynamicScale::linear && dynamic.scale != DynamicScale::logarithmic)
    refuse("dynamic", "scale must be linear or logarithmic", static_cast<int>(dynamic.scale));
}

template <typename T>
void check_shapes(const DynamicBias& dynamic, std::span<const DynamicLayer<T>> layers) {
  check(dynamic);
  if (static_cast<int64_t>(layers.size()) != dynamic.depth + 1)
    refuse("dynamic", "layers must be depth + 1, " + std::to_string(dynamic.depth + 1),
           static_cast<int64_t>(layers.size()));
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const bool last = l + 1 == layers.size();
    const std::array<std::int64_t, 2> weight = {last ? dynamic.heads : dynamic.hidden,
                                                l ? dynamic.hidden : 1};
    const std::array<std::int64_t, 1> bias = {weight[0]};
    if (layers[l].weight.extents() != weight)
      refuse("dynamic",
             "the weight of layer " + std::to_string(l) + " must be " + shape_text(weight),
             shape_text(layers[l].weight.extents()));
    if (layers[l].bias.extents() != bias)
      refuse("dynamic",
             "the bias of layer " + std::to_string(l) + " must be " + shape_text(bias),
             shape_text(layers[l].bias.extents()));
  }
}

double finite(const char* what, float value) {
  if (!std::isfinite(value))
    refuse("dynamic", std::string(what) + " must be finite", double{value});
  return value;
}

internal::Network network_of(std::span<const DynamicLayer<const float>> layers) {
  internal::Network network{.activation = internal::Activation::silu, .layers = {}};
  for (const auto& [weight, bias] : layers) {
    internal::NetworkLayer layer{
        .in = weight.extent(1), .out = weight.extent(0), .weight = {}, .bias = {}};
    for (int64_t o = 0; o < layer.out; ++o) {
      layer.bias.push_back(finite("biases", bias(o)));
      for (int64_t i = 0; i < layer.in; ++i)
        layer.weight.push_back(finite("weights", weight(o, i)));
    }
    network.layers.push_back(std::move(layer));
  }
  return network;
}

std::vector<double> inputs_of(const DynamicBias& dynamic, int64_t min_distance, int64_t count) {
  std::vector<double> inputs;
  inputs.reserve(static_cast<std::size_t>(count));
  for (int64_t n = 0; n < count; ++n) {
    const auto back = -static_cast<double>(min_distance + n);
    inputs.push_back(dynamic.scale == DynamicScale::linear
                         ? back
                         : std::copysign(std::log1p(std::fabs(back)), back));
  }
  return inputs;
}

}  // namespace

StripBias lower(const DynamicBias& dynamic, std::span<const DynamicLayer<const float>> layers,
                int64_t min_distance, int64_t count) {
  check_shapes(dynamic, layers);
  StripBias strip = internal::empty_strip("dynamic", dynamic.heads, min_distance, count);
  const std::vector<double> outputs =
      internal::apply(network_of(layers), inputs_of(dynamic, min_distance, count), count);
  for (int64_t h = 0; h < dynamic.heads; ++h)
    for (int64_t n = 0; n < count; ++n)
      strip.values[static_cast<std::size_t>(h * count + n)] =
          outputs[static_cast<std::size_t>(n * dynamic.heads + h)];
  return strip;
}

void lower_backward(const DynamicBias& dynamic,
                    std::span<const DynamicLayer<const float>> layers,
                    std::span<const double> strip_grad, int64_t min_distance, int64_t count,
                    std::span<const DynamicLayer<float>> grads) {
  check_shapes(dynamic, layers);
  check_shapes(dynamic, grads);
  internal::check_strip_grad("dynamic", strip_grad, dynamic.heads, min_distance, count);
  std::vector<double> output_grad(strip_grad.size());
  for (int64_t h = 0; h < dynamic.heads; ++h)
    for (int64_t n = 0; n < count; ++n)
      output_grad[static_cast<std::size_t>(n * dynamic.heads + h)] =
          strip_grad[static_cast<std::size_t>(h * count + n)];
  const auto sums = internal::apply_backward(
      network_of(layers), inputs_of(dynamic, min_distance, count), count, output_grad);
  for (std::size_t l = 0; l < sums.size(); ++l)
    for (int64_t o = 0; o < sums[l].out; ++o) {
      internal::add(grads[l].bias(o), sums[l].bias[static_cast<std::size_t>(o)]);
      for (int64_t i = 0; i < sums[l].in; ++i)
        internal::add(grads[l].weight(o, i),
                      sums[l].weight[static_cast<std::size_t>(o * sums[l].in + i)]);
    }
}

}  // namespace gnomon
