#include "src/bias/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gnomon/parallel.h"
#include "gnomon/view.h"
#include "src/core/products.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr int64_t runs = 16;            // runs of inputs, each with its own gradient sums
constexpr int64_t together = 64;        // inputs per matrix product, which fit the cache
constexpr int64_t piece_work = 500000;  // products in a piece of work: some 20 us

View<const double, 2> matrix(const std::vector<double>& numbers, int64_t rows,
                             int64_t columns) {
  return {numbers.data(), {rows, columns}};
}
View<double, 2> matrix(std::vector<double>& numbers, int64_t rows, int64_t columns) {
  return {numbers.data(), {rows, columns}};
}
View<const double, 2> exchanged(const View<const double, 2>& m) {
  return {m.data(), {m.extent(1), m.extent(0)}, {m.stride(1), m.stride(0)}};
}

enum class Keep { outputs = 1, slopes };

// The intermediate values of a batch of inputs. values[l] [inputs, in] is the input of layer l,
// and the last element is the output. slopes[l] is the derivative of the activation that
// computed values[l + 1].
struct Passage {
  std::vector<std::vector<double>> values, slopes;

  Passage(const Network& network, Keep keep) {
    values.emplace_back(to_size(together * network.layers.front().in));
    for (const NetworkLayer& layer : network.layers) {
      values.emplace_back(to_size(together * layer.out));
      if (keep == Keep::slopes) slopes.emplace_back(to_size(together * layer.out));
    }
  }

  void activate(Activation activation, std::size_t layer, int64_t count) {
    double* const value = values[layer + 1].data();
    double* const slope = slopes.empty() ? nullptr : slopes[layer].data();
    if (activation == Activation::relu) {
      if (slope)
        for (int64_t i = 0; i < count; ++i) slope[i] = value[i] > 0 ? 1.0 : 0.0;
      for (int64_t i = 0; i < count; ++i) value[i] = std::max(value[i], 0.0);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      const double z = value[i], sum = 1 + std::exp(-z), sigmoid = 1 / sum;
      value[i] = z / sum;
      if (slope) slope[i] = sigmoid * (1 + z * (1 - sigmoid));
    }
  }
};

// The weights [in, out] of each layer.
std::vector<RightFactor> onwards(const Network& network) {
  std::vector<RightFactor> all;
  for (const NetworkLayer& layer : network.layers)
    all.emplace_back(exchanged(matrix(layer.weight, layer.out, layer.in)));
  return all;
}
// The weights [out, in] of each layer.
std::vector<RightFactor> backwards(const Network& network) {
  std::vector<RightFactor> all;
  for (const NetworkLayer& layer : network.layers)
    all.emplace_back(matrix(layer.weight, layer.out, layer.in));
  return all;
}

void pass(const Network& network, const std::vector<RightFactor>& weights, const double* inputs,
          int64_t count, Passage& passage) {
  std::copy_n(inputs, count * network.layers.front().in, passage.values[0].begin());
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const NetworkLayer& layer = network.layers[l];
    std::vector<double>& to = passage.values[l + 1];
    for (int64_t n = 0; n < count; ++n)
      std::copy(layer.bias.begin(), layer.bias.end(), to.begin() + n * layer.out);
    multiply_add(matrix(std::as_const(passage.values[l]), count, layer.in), weights[l],
                 matrix(to, count, layer.out));
    if (l + 1 < network.layers.size())
      passage.activate(network.activation, l, count * layer.out);
  }
}

int64_t products(const Network& network) {
  int64_t sum = 1;
  for (const NetworkLayer& layer : network.layers) sum += layer.in * layer.out;
  return sum;
}

std::vector<NetworkLayer> zeros(const Network& network) {
  std::vector<NetworkLayer> layers = network.layers;
  for (NetworkLayer& layer : layers) {
    std::fill(layer.weight.begin(), layer.weight.end(), 0.0);
    std::fill(layer.bias.begin(), layer.bias.end(), 0.0);
  }
  return layers;
}

// Adds the gradient of a batch of inputs to `sums`. `grad` contains the gradient of the outputs
// and is overwritten.
void pass_back(const Network& network, const std::vector<RightFactor>& weights,
               const Passage& passage, int64_t count, std::vector<double>& grad,
               std::vector<double>& below, std::vector<NetworkLayer>& sums) {
  for (std::size_t l = network.layers.size(); l-- > 0;) {
    const NetworkLayer& layer = network.layers[l];
    for (int64_t n = 0; n < count; ++n)
      for (int64_t o = 0; o < layer.out; ++o)
        sums[l].bias[to_size(o)] += grad[to_size(n * layer.out + o)];
    const View<const double, 2> of_outputs = matrix(std::as_const(grad), count, layer.out);
    multiply_add(exchanged(of_outputs), RightFactor(matrix(passage.values[l], count, layer.in)),
                 matrix(sums[l].weight, layer.out, layer.in));
    if (l == 0) return;
    below.resize(to_size(count * layer.in));
    multiply(of_outputs, weights[l], matrix(below, count, layer.in));
    for (std::size_t i = 0; i < below.size(); ++i) below[i] *= passage.slopes[l - 1][i];
    std::swap(grad, below);
  }
}

}  // namespace

std::vector<double> apply(const Network& network, std::span<const double> inputs,
                          int64_t count) {
  const int64_t in = network.layers.front().in, out = network.layers.back().out;
  const std::vector<RightFactor> weights = onwards(network);
  std::vector<double> outputs(to_size(count * out));
  const int64_t pieces = (count + together - 1) / together;
  parallel_for(
      pieces, 1 + piece_work / together / products(network), [&](int64_t begin, int64_t end) {
        Passage passage(network, Keep::outputs);
        for (int64_t first = begin * together; first < std::min(count, end * together);
             first += together) {
          const int64_t here = std::min(together, count - first);
          pass(network, weights, inputs.data() + first * in, here, passage);
          std::copy_n(passage.values.back().begin(), here * out, outputs.begin() + first * out);
        }
      });
  return outputs;
}

std::vector<NetworkLayer> apply_backward(const Network& network, std::span<const double> inputs,
                                         int64_t count, std::span<const double> output_grad) {
  const int64_t in = network.layers.front().in, out = network.layers.back().out;
  const std::vector<RightFactor> weights = onwards(network), back = backwards(network);
  const int64_t each = std::max<int64_t>(1, (count + runs - 1) / runs);
  const int64_t pieces = (count + each - 1) / each;
  std::vector<std::vector<NetworkLayer>> sums(to_size(pieces), zeros(network));
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    Passage passage(network, Keep::slopes);
    std::vector<double> grad, below;
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t last = std::min(count, (piece + 1) * each);
      for (int64_t first = piece * each; first < last; first += together) {
        const int64_t here = std::min(together, last - first);
        pass(network, weights, inputs.data() + first * in, here, passage);
        grad.assign(output_grad.begin() + first * out,
                    output_grad.begin() + (first + here) * out);
        pass_back(network, back, passage, here, grad, below, sums[to_size(piece)]);
      }
    }
  });
  std::vector<NetworkLayer> all = zeros(network);
  for (const auto& part : sums)
    for (std::size_t l = 0; l < all.size(); ++l) {
      for (std::size_t i = 0; i < all[l].weight.size(); ++i)
        all[l].weight[i] += part[l].weight[i];
      for (std::size_t i = 0; i < all[l].bias.size(); ++i) all[l].bias[i] += part[l].bias[i];
    }
  return all;
}

}  // namespace gnomon::internal
