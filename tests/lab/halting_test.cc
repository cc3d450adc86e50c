// The rule of halting against its definition.
#include "apps/lab/model/halting.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "apps/lab/data/draws.h"

namespace gnomon::lab {
namespace halting_test {

// One token, by the sums of halting.h, in double.
struct Token {
  std::int64_t steps = 0;
  double remainder = 0, output = 0;
  std::vector<double> states = {};  // after each step
};
Token halted(const std::vector<double>& p, const std::vector<double>& s) {
  const std::size_t last = p.size() - 1;
  std::size_t n = 0;
  for (double sum = p[0]; n < last && sum <= 0.99;) sum += p[++n];
  Token token{.steps = static_cast<std::int64_t>(n) + 1, .remainder = 1};
  for (std::size_t i = 0; i < n; ++i) {
    token.remainder -= p[i];
    token.output += p[i] * s[i];
  }
  token.output += token.remainder * s[n];
  for (std::size_t i = 0; i <= last; ++i) token.states.push_back(s[std::min(i, n)]);
  return token;
}

TEST(Halting, IsItsDefinition) {
  constexpr std::int64_t tokens = 400, steps = 5;
  Draws draws{1};
  const auto uniform = [&] { return static_cast<double>(draws.below(1 << 20)) / (1 << 20); };
  std::vector<std::vector<double>> p(tokens), s(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    // Some tokens halt at once, some reach the last step, and one exceeds 0.99 exactly.
    const double most = t % 4 == 0 ? 1 : t % 4 == 1 ? 0.1 : 0.6;
    for (std::int64_t n = 0; n < steps; ++n) {
      p[t].push_back(t == 2 ? 0.495 : most * uniform());
      s[t].push_back(uniform() - 0.5);
    }
  }
  const auto at_step = [&](const std::vector<std::vector<double>>& all, std::size_t n) {
    std::vector<double> row;
    for (const auto& one : all) row.push_back(one[n]);
    return at::tensor(row, at::kDouble).view({1, tokens});
  };
  at::Tensor x = at::zeros({1, tokens, 1}, at::kDouble);
  Halting halting(x, steps);
  std::vector<at::Tensor> probabilities, states;
  bool ended = false;
  for (std::size_t n = 0; n < steps; ++n) {
    ended = halting.ended();
    EXPECT_FALSE(ended);
    probabilities.push_back(at_step(p, n).requires_grad_(true));
    x = halting.step(x, at_step(s, n).unsqueeze(2), probabilities.back());
    states.push_back(x);
  }
  EXPECT_TRUE(halting.ended());
  (halting.ponder().steps + halting.ponder().remainder).sum().backward();
  std::set<std::int64_t> seen;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const Token right = halted(p[at], s[at]);
    seen.insert(right.steps);
    EXPECT_EQ(halting.ponder().steps[0][t].item<double>(), static_cast<double>(right.steps));
    EXPECT_NEAR(halting.ponder().remainder[0][t].item<double>(), right.remainder, 1e-12);
    EXPECT_NEAR(halting.output()[0][t][0].item<double>(), right.output, 1e-12);
    for (std::size_t n = 0; n < steps; ++n) {
      EXPECT_EQ(states[n][0][t][0].item<double>(), right.states[n]);
      // The ponder cost falls with each probability before the last step of the token. That of
      // the last step of all has no effect.
      const at::Tensor gradient = probabilities[n].grad();
      EXPECT_EQ(gradient.defined() ? gradient[0][t].item<double>() : 0,
                static_cast<std::int64_t>(n) + 1 < right.steps ? -1 : 0);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(steps));
}

}  // namespace halting_test
}  // namespace gnomon::lab
