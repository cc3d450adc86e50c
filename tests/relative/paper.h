// Attention of one sequence from the formulas of a paper: the score, and the vector added to a
// value, are functions of a pair of positions. And helpers to compare it with a lowering.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "attention/oracle.h"
#include "testing.h"

namespace gnomon::testing {

// Returns the part of the oracle's gradients that belongs to the form.
inline RelativeGradient relative_gradient(const AttentionGradients& grad) {
  return {grad.met_keys.vectors, grad.met_queries.vectors, grad.met_values.vectors, grad.shift};
}

// Queries [T, H, D], keys [S, H, D], values [S, H, Dv]. Query i has position offset + i. A
// query sees every key or, if `causal`, the keys up to its own position.
struct Paper {
  std::int64_t queries, keys, heads, head_dim, values;
  std::int64_t offset = 0;
  bool causal = false;
  double scale = 1;
  Tensor<double, 3> q{{}}, k{{}}, v{{}}, out_grad{{}};

  void draw(unsigned seed = 1) {
    q = random_tensor<double, 3>({queries, heads, head_dim}, seed);
    k = random_tensor<double, 3>({keys, heads, head_dim}, seed + 1);
    v = random_tensor<double, 3>({keys, heads, values}, seed + 2);
    out_grad = random_tensor<double, 3>({queries, heads, values}, seed + 3);
  }
  bool sees(std::int64_t i, std::int64_t j) const { return !causal || j <= offset + i; }
  double dot(std::int64_t h, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t d = 0; d < head_dim; ++d) sum += q.view()(i, h, d) * k.view()(j, h, d);
    return sum;
  }

  // Returns the sum of out x out_grad. score(h, i, j): the whole score. extra(h, i, j, d): the
  // element that is added to the value.
  template <typename Score, typename Extra>
  double loss(Score score, Extra extra) const {
    double total = 0;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < queries; ++i) {
        double sum = 0, met = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          if (!sees(i, j)) continue;
          const double weight = std::exp(score(h, i, j));
          sum += weight;
          for (std::int64_t d = 0; d < values; ++d)
            met += weight * (v.view()(j, h, d) + extra(h, i, j, d)) * out_grad.view()(i, h, d);
        }
        total += met / sum;
      }
    return total;
  }

  // The same attention with a lowered form and a bias.
  AttentionCase lowered(const RelativeForm& form, const BiasForm& bias = {}) const {
    AttentionCase c;
    c.queries = queries, c.keys = keys, c.heads = c.key_heads = heads;
    c.size = head_dim, c.values = values, c.plan.softmax.scale = scale;
    c.plan.mask = {.visibility = causal ? Visibility::causal : Visibility::bidirectional,
                   .offset = offset};
    c.plan.relative = form;
    c.plan.bias = bias;
    return c;
  }
  AttentionTensors tensors() const {
    AttentionTensors x{Tensor<double, 4>({1, queries, heads, head_dim}),
                       Tensor<double, 4>({1, keys, heads, head_dim}),
                       Tensor<double, 4>({1, keys, heads, values})};
    x.q.values = q.values, x.k.values = k.values, x.v.values = v.values;
    return x;
  }
  AttentionGradients backward(const RelativeForm& form, const BiasForm& bias = {}) const {
    Tensor<double, 4> grad({1, queries, heads, values});
    grad.values = out_grad.values;
    return oracle_backward(lowered(form, bias), tensors(), grad);
  }
  double lowered_loss(const RelativeForm& form, const BiasForm& bias = {}) const {
    return weighed(oracle(lowered(form, bias), tensors()).out);
  }
  // The same attention with the kernels.
  double attention_loss(const AttentionCase& c) const {
    const AttentionTensors x = tensors();
    Tensor<double, 4> out({1, queries, heads, values});
    attention({.q = x.q.view(), .k = x.k.view(), .v = x.v.view(), .terms = {.gates = c.gates}},
              c.plan, out.view());
    return weighed(out);
  }
  double attention_loss(const RelativeForm& form, const BiasForm& bias = {}) const {
    return attention_loss(lowered(form, bias));
  }
  double weighed(const Tensor<double, 4>& out) const {
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += out.values[n] * out_grad.values[n];
    return sum;
  }
};

// Random doubles that float represents exactly, so that an oracle in double and a lowering get
// the same values.
inline std::vector<double> float_numbers(std::size_t count, unsigned seed) {
  std::vector<double> numbers = random_numbers(count, seed);
  for (double& number : numbers) number = static_cast<double>(static_cast<float>(number));
  return numbers;
}

// A float matrix of parameters.
inline Tensor<float, 2> float_matrix(std::int64_t rows, std::int64_t columns,
                                     const std::vector<double>& numbers) {
  Tensor<float, 2> matrix({rows, columns});
  EXPECT_EQ(matrix.values.size(), numbers.size());
  for (std::size_t n = 0; n < numbers.size(); ++n)
    matrix.values[n] = static_cast<float>(numbers[n]);
  return matrix;
}

// Expects `computed` to equal the derivatives of loss() with respect to `numbers`, by central
// differences in double, up to a rounding to float.
inline void expect_gradient(const std::vector<float>& computed, std::vector<double>& numbers,
                            const std::function<double()>& loss, const char* what) {
  ASSERT_EQ(computed.size(), numbers.size()) << what;
  double moved = 0;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const double kept = numbers[n], step = 1e-4;
    numbers[n] = kept + step;
    const double above = loss();
    numbers[n] = kept - step;
    const double below = loss();
    numbers[n] = kept;
    const double expected = (above - below) / (2 * step);
    EXPECT_NEAR(computed[n], expected, 1e-6 * (1 + std::fabs(expected))) << what << " " << n;
    moved += std::fabs(expected);
  }
  EXPECT_GT(moved, 1e-3) << what << " changes nothing";
}

}  // namespace gnomon::testing
