// DAPE by its formula, in long double: no tile, no block, no float.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "attention/oracle.h"
#include "gnomon/attention/dape.h"
#include "testing.h"

namespace gnomon {
namespace dape_test {

using std::int64_t;
using testing::as_double;
using testing::AttentionCase;
using testing::random_tensor;
using testing::Tensor;

struct Network {
  Dape dape;
  Tensor<float, 2> first{{}}, second{{}};
  Tensor<float, 1> first_bias{{}}, second_bias{{}};

  Network(int64_t heads, int64_t hidden, int64_t kernel)
      : dape{.hidden = hidden, .negative_slope = 0.1, .kernel = kernel},
        first(random_tensor<float, 2>({hidden, 2 * heads * kernel}, 11)),
        second(random_tensor<float, 2>({heads, hidden * kernel}, 12)),
        first_bias(random_tensor<float, 1>({hidden}, 13)),
        second_bias(random_tensor<float, 1>({heads}, 14)) {
    for (auto* one : {&first.values, &second.values})
      for (float& number : *one) number *= kernel > 1 ? 0.25F : 0.4F;
  }
  DapeNetwork<const float> views() const {
    return {first.view(), first_bias.view(), second.view(), second_bias.view()};
  }
};

template <typename T>
struct Rows {
  Tensor<T, 4> q, k, v, out_grad;
};

// One call, as the oracle of attention describes it.
struct Case {
  AttentionCase c;
  Network network;

  explicit Case(int64_t queries, int64_t keys, int64_t kernel = 1) : network(4, 5, kernel) {
    c.batch = 2, c.queries = queries, c.keys = keys, c.heads = 4, c.key_heads = 2;
    c.size = 8, c.values = 6;
    c.plan = {.mask = {.visibility = Visibility::causal, .offset = keys - queries},
              .softmax = {.scale = 0.4}};
  }
  template <typename T>
  Rows<T> rows() const {
    return {random_tensor<T, 4>({c.batch, c.queries, c.heads, c.size}, 1),
            random_tensor<T, 4>({c.batch, c.keys, c.key_heads, c.size}, 2),
            random_tensor<T, 4>({c.batch, c.keys, c.key_heads, c.values}, 3),
            random_tensor<T, 4>({c.batch, c.queries, c.heads, c.values}, 4)};
  }
};

struct Naive {
  Tensor<long double, 4> out;
  Tensor<long double, 3> lse;
};

// The inputs and hidden units of one query, with any number of any key.
template <typename T>
class Pairs {
 public:
  Pairs(const AttentionCase& c, const Network& n, const Rows<T>& x, int64_t b, int64_t i)
      : c_(c), n_(n), x_(x), b_(b), i_(i) {
    int64_t first = 0;  // of the sequence
    while (c.plan.keys && first < c.keys &&
           c.plan.keys->sequences[static_cast<std::size_t>(first)] !=
               c.plan.queries->sequences[static_cast<std::size_t>(i)])
      ++first;
    for (int64_t j = 0; j < c.keys; ++j) inputs_.push_back(inputs_of(j));
    for (int64_t j = -(n.dape.kernel / 2); j < c.keys + n.dape.kernel / 2; ++j)
      units_.push_back(units_of(j, first));
  }
  std::vector<long double> inputs(int64_t j) const {
    if (j < 0 || j >= c_.keys)
      return std::vector<long double>(static_cast<std::size_t>(2 * c_.heads));
    return inputs_[static_cast<std::size_t>(j)];
  }
  std::vector<long double> units(int64_t j) const {
    return units_[static_cast<std::size_t>(j + n_.dape.kernel / 2)];
  }

 private:
  std::vector<long double> inputs_of(int64_t j) const {
    const auto heads = static_cast<std::size_t>(c_.heads);
    std::vector<long double> all(2 * heads);
    if (!testing::sees(c_, b_, i_, j)) return all;
    for (int64_t h = 0; h < c_.heads; ++h) {
      long double product = 0;
      for (int64_t d = 0; d < c_.size; ++d)
        product += static_cast<long double>(as_double(x_.q.view()(b_, i_, h, d))) *
                   as_double(x_.k.view()(b_, j, h / (c_.heads / c_.key_heads), d));
      all[static_cast<std::size_t>(h)] = product * *c_.plan.softmax.scale;
      all[heads + static_cast<std::size_t>(h)] = testing::bias(c_, b_, h, i_, j);
    }
    return all;
  }
  std::vector<long double> units_of(int64_t j, int64_t first) const {
    std::vector<long double> all(static_cast<std::size_t>(n_.dape.hidden));
    if (j < first) return all;
    for (int64_t m = 0; m < n_.dape.hidden; ++m)
      all[static_cast<std::size_t>(m)] = n_.first_bias.view()(m);
    for (int64_t t = 0; t < n_.dape.kernel; ++t) {
      const std::vector<long double> of = inputs(j + t - n_.dape.kernel / 2);
      for (int64_t m = 0; m < n_.dape.hidden; ++m)
        for (int64_t r = 0; r < 2 * c_.heads; ++r)
          all[static_cast<std::size_t>(m)] +=
              n_.first.view()(m, r * n_.dape.kernel + t) * of[static_cast<std::size_t>(r)];
    }
    for (long double& u : all) u = u < 0 ? n_.dape.negative_slope * u : u;
    return all;
  }

  const AttentionCase& c_;
  const Network& n_;
  const Rows<T>& x_;
  int64_t b_, i_;
  std::vector<std::vector<long double>> inputs_, units_;
};

template <typename T>
Naive naive_dape(const AttentionCase& c, const Network& n, const Rows<T>& x) {
  Naive result{Tensor<long double, 4>({c.batch, c.queries, c.heads, c.values}),
               Tensor<long double, 3>({c.batch, c.heads, c.queries})};
  const auto heads = static_cast<std::size_t>(c.heads);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<std::vector<long double>> sums(
          heads, std::vector<long double>(static_cast<std::size_t>(c.values)));
      std::vector<long double> total(heads);
      for (std::size_t h = 0; h < heads && !c.plan.softmax.sinks.empty(); ++h)
        total[h] = std::exp(static_cast<long double>(c.plan.softmax.sinks[h]));
      const Pairs pairs(c, n, x, b, i);
      for (int64_t j = 0; j < c.keys; ++j) {
        if (!testing::sees(c, b, i, j)) continue;
        const std::vector<long double> inputs = pairs.inputs(j);
        std::vector<long double> outputs(heads);
        for (int64_t t = 0; t < n.dape.kernel; ++t) {
          const std::vector<long double> units = pairs.units(j + t - n.dape.kernel / 2);
          for (std::size_t h = 0; h < heads; ++h)
            for (int64_t m = 0; m < n.dape.hidden; ++m)
              outputs[h] += n.second.view()(static_cast<int64_t>(h), m * n.dape.kernel + t) *
                            units[static_cast<std::size_t>(m)];
        }
        for (std::size_t h = 0; h < heads; ++h) {
          const auto head = static_cast<int64_t>(h);
          const long double score =
              inputs[h] + inputs[heads + h] + outputs[h] + n.second_bias.view()(head);
          const long double weight = std::exp(score);
          total[h] += weight;
          for (int64_t d = 0; d < c.values; ++d)
            sums[h][static_cast<std::size_t>(d)] +=
                weight * as_double(x.v.view()(b, j, head / (c.heads / c.key_heads), d));
        }
      }
      for (int64_t h = 0; h < c.heads; ++h) {
        const long double all = total[static_cast<std::size_t>(h)];
        result.lse.view()(b, h, i) = std::log(all);
        for (int64_t d = 0; d < c.values; ++d)
          result.out.view()(b, i, h, d) =
              all > 0 ? sums[static_cast<std::size_t>(h)][static_cast<std::size_t>(d)] / all
                      : 0;
      }
    }
  return result;
}

}  // namespace dape_test
}  // namespace gnomon
