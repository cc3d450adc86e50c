// The properties that the entries declare, measured for each encoding of the list: order, left
// and right, absolute position, decay, linearity in the parameters; and keys from a cache.
#include "gnomon/analysis/invariance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/model/encoding.h"
#include "testing.h"

namespace gnomon::model {
namespace model_invariance_test {

constexpr Shape shape{.width = 32, .heads = 4, .length = 64};
constexpr analysis::OrderContent content{.tokens = 12, .heads = 4, .head_dim = 8};
// FIRE is symmetric up to its threshold, 16 tokens.
constexpr analysis::OrderContent longer{.tokens = 32, .heads = 4, .head_dim = 8};
constexpr std::int64_t offset = 50;  // positions 50 to 61

// An encoding of the list with random parameters.
struct Trained {
  Encoding encoding;
  std::vector<testing::Tensor<float, 2>> matrices;

  explicit Trained(const EncodingInfo& info) : encoding(info.usual(shape)) {
    unsigned seed = 3;
    for (const Parameter& one : parameters(encoding)) {
      matrices.push_back(testing::random_tensor<float, 2>({one.rows, one.columns}, seed++));
      if (one.initial_deviation == 0 && one.initial_mean != 0)
        std::fill(matrices.back().values.begin(), matrices.back().values.end(),
                  static_cast<float>(one.initial_mean));
    }
  }
  LayerPlan at(std::int64_t queries, std::int64_t keys) const {
    std::vector<View<const float, 2>> values;
    for (const auto& matrix : matrices) values.push_back(matrix.view());
    return lower(encoding, {.queries = queries, .keys = keys}, values);
  }

  // Returns the numbers of the plan and the gates at the parameters m + factor * r: m the
  // matrices, r the same numbers in reverse order. Parameters that must be positive remain so.
  std::vector<double> numbers(float factor) const {
    std::vector<testing::Tensor<float, 2>> mixed = matrices;
    for (std::size_t i = 0; i < mixed.size(); ++i)
      for (std::size_t j = 0; j < mixed[i].values.size(); ++j)
        mixed[i].values[j] +=
            factor * *(matrices[i].values.rbegin() + static_cast<std::ptrdiff_t>(j));
    std::vector<View<const float, 2>> values;
    for (const auto& matrix : mixed) values.push_back(matrix.view());
    const LayerPlan plan =
        lower(encoding, {.queries = content.tokens, .keys = content.tokens}, values);
    std::vector<double> all = plan.cosine;
    const auto append = [&](const auto& more) {
      all.insert(all.end(), std::begin(more), std::end(more));
    };
    if (plan.table) append(plan.table->values);
    for (const auto* part : {&plan.relative.keys, &plan.relative.queries, &plan.relative.values,
                             &plan.relative.projected})
      for (const RelativeVectors& vectors : *part) append(vectors.values);
    append(plan.relative.shift);
    if (plan.polar) append(plan.polar->phases);
    append(trained_values(plan));
    if (heads(plan.bias) > 0) {
      testing::Tensor<double, 3> bias({heads(plan.bias), content.tokens, content.tokens});
      dense(plan.bias, 0, bias.view());
      append(bias.values);
    }
    if (TermArrays terms = term_arrays({encoding}, 1, content.tokens); !terms.arrays.empty()) {
      const auto x = testing::random_tensor<float, 3>({1, content.tokens, shape.width}, 9);
      compute_terms({encoding}, values, x.view(), terms.terms<Tensor>());
      for (const TermArrays::Array& one : terms.arrays) append(one.values);
    }
    return all;
  }
};

// Deviations of outputs: those that an encoding makes, and rounding.
constexpr double visible = 1e-3, double_rounding = 1e-14;
constexpr double table_rounding = 2e-6;  // rotations have float tables

TEST(Invariance, OnlyWithoutPositionOrderCannotBeTold) {
  for (const EncodingInfo& one : encodings()) {
    const LayerPlan lowered = Trained(one).at(content.tokens, content.tokens);
    const double deviation = analysis::permutation_deviation(content, lowered);
    if (one.enters == Place::nowhere)
      EXPECT_LE(deviation, double_rounding);
    else
      EXPECT_GT(deviation, visible) << one.name;
  }
}

TEST(Invariance, ReversalHasTheDeclaredEffect) {
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    const LayerPlan lowered = trained.at(longer.tokens, longer.tokens);
    const double deviation = analysis::reversal_deviation(longer, lowered);
    if (properties(trained.encoding).reversal == Effect::none)
      EXPECT_LE(deviation, double_rounding) << one.name;
    else
      EXPECT_GT(deviation, visible) << one.name;
  }
}

TEST(Invariance, ShiftHasTheDeclaredEffect) {
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    const LayerPlan here = trained.at(content.tokens, content.tokens);
    const LayerPlan there = trained.at(content.tokens, offset + content.tokens);
    const double deviation = analysis::shift_deviation(content, here, there, offset);
    if (properties(trained.encoding).shift == Effect::none)
      EXPECT_LE(deviation, table_rounding) << one.name;
    else
      EXPECT_GT(deviation, visible) << one.name;
  }
}

TEST(Invariance, MonotonicDecayMakesNearerKeysScoreHigher) {
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    if (properties(trained.encoding).decay != Decay::monotonic) continue;
    const LayerPlan lowered = trained.at(content.tokens, content.tokens);
    ASSERT_GT(heads(lowered.bias), 0) << one.name;
    testing::Tensor<double, 3> bias({heads(lowered.bias), content.tokens, content.tokens});
    dense(lowered.bias, 0, bias.view());
    for (std::int64_t h = 0; h < bias.view().extent(0); ++h)
      for (std::int64_t q = 0; q < content.tokens; ++q)
        for (std::int64_t k = 1; k < content.tokens; ++k) {
          const double step = bias.view()(h, q, k) - bias.view()(h, q, k - 1);
          EXPECT_GT(k <= q ? step : -step, 0) << one.name << ' ' << h << ' ' << q << ' ' << k;
        }
  }
}

TEST(Invariance, OnlyTokenTermsMakeALinearPlanNonlinear) {
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    const Properties& facts = properties(encoding);
    EXPECT_TRUE(facts.plan_linearity == facts.linearity || !token_terms({encoding}).empty())
        << one.name;
  }
}

TEST(Invariance, ParametersEnterAsDeclared) {
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    if (trained.matrices.empty()) continue;
    const auto low = trained.numbers(0), middle = trained.numbers(1), high = trained.numbers(2);
    double largest = 0, deviation = 0;
    for (std::size_t i = 0; i < middle.size(); ++i) {
      largest = std::max(largest, std::abs(middle[i]));
      deviation = std::max(deviation, std::abs(low[i] + high[i] - 2 * middle[i]));
    }
    if (properties(trained.encoding).linearity == Linearity::linear) {
      EXPECT_LE(deviation, table_rounding * (1 + largest)) << one.name;
    } else if (one.name != "relative-logits" && one.name != "comrope-axial") {
      // These have linear terms, or a linear setting of a nonlinear spec.
      EXPECT_GT(deviation, visible) << one.name;
    }
  }
}

TEST(Invariance, ACacheRepeatsTheFullPass) {
  constexpr std::int64_t counts[] = {5, 6, 1};
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    const LayerPlan whole = trained.at(content.tokens, content.tokens);
    std::vector<LayerPlan> lowered;
    std::vector<analysis::CachedPiece> pieces;
    std::int64_t keys = 0;
    for (const std::int64_t count : counts) lowered.push_back(trained.at(count, keys += count));
    for (std::size_t i = 0; i < lowered.size(); ++i) pieces.push_back({counts[i], lowered[i]});
    EXPECT_LE(analysis::cache_deviation(content, whole, pieces), 0x1p-16) << one.name;
  }
}

}  // namespace model_invariance_test
}  // namespace gnomon::model
