// The error bounds of attention_backward in attention.h, and a check of gradients against them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <variant>

#include "attention/backward_pass.h"
#include "attention/bounds.h"
#include "gnomon/isa.h"

namespace gnomon::testing {

// The additional error of gradients of q and v by rounding to bfloat16; twice that of k.
template <typename T>
double rounding_of_pairs(const AttentionCase& c) {
  return std::is_same_v<T, BFloat16> && c.plan.softmax.rounds_weights ? 0x1p-8 : 0;
}

// The greatest errors of the gradients over all instruction sets.
struct GradientErrors {
  double q = 0, k = 0, v = 0;
};

template <typename T>
GradientErrors expect_gradients_within_bounds(const Sample& s) {
  const ScopedThreads one(1);
  const AttentionCase& c = s.c;
  BackwardPass<T> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const auto out_grad = run.out_grad.numbers();
  const auto exact = oracle_backward(c, x, out_grad);
  const double weight = heaviest(c, exact.weights);
  const double sums = std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18;
  const double stored = sizeof(T) == 2 ? 2 * half_ulp<T> : 0;
  const double tiny = sizeof(T) == 2 ? 0x1p-24 : 0;
  const double e = sums + stored, product = longest(out_grad) * longest(x.v);
  const double pairs = rounding_of_pairs<T>(c);
  GradientErrors most;
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(c);
    const GradientErrors errors{worst(run.q_grad.numbers().values, exact.q.values),
                                worst(run.k_grad.numbers().values, exact.k.values),
                                worst(run.v_grad.numbers().values, exact.v.values)};
    EXPECT_LE(errors.q, (e + pairs) * c.scale() * product * longest(x.k) + tiny);
    EXPECT_LE(errors.k, (e + 2 * pairs) * c.scale() * product * longest(x.q) * weight + tiny);
    EXPECT_LE(errors.v, (e + pairs) * greatest(out_grad.values) * weight + tiny);
    most = {std::max(most.q, errors.q), std::max(most.k, errors.k), std::max(most.v, errors.v)};
    EXPECT_TRUE(run.q_grad.gaps_intact() && run.k_grad.gaps_intact() &&
                run.v_grad.gaps_intact());
    EXPECT_EQ(run.sinks.size(), exact.sinks.size());
    for (std::size_t n = 0; n < exact.sinks.size(); ++n)
      EXPECT_NEAR(run.sinks[n], exact.sinks[n], e * product * exact.sinks_weight[n]);
    if (run.bias.dense.data()) {
      EXPECT_LE(worst({run.dense.values.begin(), run.dense.values.end()}, exact.scores.values),
                (e + 0x1p-24) * product);
      EXPECT_TRUE(run.bias.values.empty());
      continue;
    }
    EXPECT_EQ(run.bias.values.size(), exact.numbers.size());
    for (std::size_t n = 0; n < exact.numbers.size(); ++n)
      EXPECT_NEAR(run.bias.values[n], exact.numbers[n], e * product * exact.weight[n]);
  }
  return most;
}

}  // namespace gnomon::testing
