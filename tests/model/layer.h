// Attention layer in double, written from the papers: the oracle for converted weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/model/conversion.h"
#include "testing.h"

namespace gnomon::testing {

using std::int64_t;
using Numbers = std::vector<double>;

inline std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }

struct Layer {
  model::AttentionSizes sizes;
  std::map<std::string, std::pair<std::vector<int64_t>, Numbers>> tensors;

  void add(const std::string& name, std::vector<int64_t> shape, unsigned seed) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    tensors[name] = {shape, random_numbers(at(count), seed)};
  }
  // W x + b, [rows].
  Numbers project(const std::string& module, const Numbers& x) const {
    const auto& [shape, weight] = tensors.at(module + ".weight");
    Numbers y(at(shape[0]));
    const auto bias = tensors.find(module + ".bias");
    for (std::size_t row = 0; row < y.size(); ++row) {
      y[row] = bias == tensors.end() ? 0.0 : bias->second.second[row];
      for (std::size_t c = 0; c < x.size(); ++c) y[row] += weight[row * x.size() + c] * x[c];
    }
    return y;
  }
  // RMS norm with weights per head or for all of them.
  void normalise(const std::string& module, Numbers& y) const {
    const auto found = tensors.find(module + ".weight");
    if (found == tensors.end()) return;
    const Numbers& weight = found->second.second;
    for (std::size_t begin = 0; begin < y.size(); begin += weight.size()) {
      double squares = 0;
      for (std::size_t i = 0; i < weight.size(); ++i) squares += y[begin + i] * y[begin + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(weight.size()) + 1e-6);
      for (std::size_t i = 0; i < weight.size(); ++i) y[begin + i] *= scale * weight[i];
    }
  }
};

// RoFormer, equation 34, for one head.
inline void turn(double* head, const model::AttentionSizes& s, Pairing pairing,
                 double position) {
  const int64_t half = s.rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double t = position * std::pow(10000.0, -2.0 * static_cast<double>(i) /
                                                      static_cast<double>(s.rotary_dim));
    double& a = head[s.head_offset + (pairing == Pairing::adjacent ? 2 * i : i)];
    double& b = head[s.head_offset + (pairing == Pairing::adjacent ? 2 * i + 1 : i + half)];
    const double turned = a * std::cos(t) - b * std::sin(t);
    b = a * std::sin(t) + b * std::cos(t);
    a = turned;
  }
}

// Scores of each query head with its key.
inline Numbers scores(const Layer& layer, Pairing pairing, const std::string& prefix) {
  const model::AttentionSizes& s = layer.sizes;
  const Numbers x = random_numbers(12, 71), z = random_numbers(12, 72);
  Numbers q = layer.project(prefix + "q_proj", x), k = layer.project(prefix + "k_proj", z);
  layer.normalise(prefix + "q_norm", q);
  layer.normalise(prefix + "k_norm", k);
  for (int64_t h = 0; h < s.heads; ++h) turn(&q[at(h * s.head_dim)], s, pairing, 17);
  for (int64_t h = 0; h < s.key_heads; ++h) turn(&k[at(h * s.head_dim)], s, pairing, 5);
  Numbers all;
  for (int64_t h = 0; h < s.heads; ++h) {
    const int64_t key = h / (s.heads / s.key_heads);
    double sum = 0;
    for (int64_t i = 0; i < s.head_dim; ++i)
      sum += q[at(h * s.head_dim + i)] * k[at(key * s.head_dim + i)];
    all.push_back(sum);
  }
  return all;
}

// The same for latent attention (DeepSeek-V2, section 2.1). Each head has a key part of D - R
// elements, and all heads share R elements. Both are from one projection. Values have head
// dimension D.
inline Numbers latent_scores(const Layer& layer, Pairing pairing, const std::string& prefix,
                             const std::string& query) {
  const model::AttentionSizes& s = layer.sizes;
  Numbers q = layer.project(prefix + query, random_numbers(12, 8));
  const Numbers all_k = layer.project(prefix + "kv_a_proj_with_mqa", random_numbers(12, 9));
  const auto end_of_latent = all_k.begin() + s.kv_lora_rank;
  const Numbers kv = layer.project(prefix + "kv_b_proj", {all_k.begin(), end_of_latent});
  const int64_t wide = s.head_offset + s.head_dim;  // width of a head's key part and value
  Numbers all;
  for (int64_t h = 0; h < s.heads; ++h) {
    Numbers k(kv.begin() + h * wide, kv.begin() + h * wide + s.head_offset);
    k.insert(k.end(), end_of_latent, all_k.end());
    turn(k.data(), s, pairing, 3);
    turn(&q[at(h * s.head_dim)], s, pairing, 11);
    all.push_back(std::inner_product(k.begin(), k.end(), q.begin() + h * s.head_dim, 0.0));
  }
  return all;
}

}  // namespace gnomon::testing
