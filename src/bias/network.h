// A small trained network from a few inputs (a distance, an offset) to one value per head, in
// double. Used by the dynamic position bias and Swin v2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnomon::internal {

enum class Activation { relu = 1, silu };

// y = W x + b.
struct NetworkLayer {
  std::int64_t in = 0, out = 0;
  std::vector<double> weight;  // [out, in]
  std::vector<double> bias;    // [out]
};

// The activation is applied between layers, not after the last layer.
struct Network {
  Activation activation = {};
  std::vector<NetworkLayer> layers;  // at least 1
};

// Returns the outputs [count, out of the last layer] for inputs [count, in of the first layer].
std::vector<double> apply(const Network& network, std::span<const double> inputs,
                          std::int64_t count);

// Returns the gradients of weights and biases, with the shapes of the network, given
// output_grad [count, out]. Inputs are split into at most 16 runs whose sums are added in
// order, so the result does not depend on the number of threads. The derivative of relu at 0 is
// 0.
std::vector<NetworkLayer> apply_backward(const Network& network, std::span<const double> inputs,
                                         std::int64_t count,
                                         std::span<const double> output_grad);

}  // namespace gnomon::internal
