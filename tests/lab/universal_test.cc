// The Universal Transformer: the rule of halting against its definition, and the model.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/halting.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"
#include "io/temporary.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace universal_test {

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
      // The ponder cost falls with each probability before the last step of the token.
      EXPECT_EQ(probabilities[n].grad()[0][t].item<double>(),
                static_cast<std::int64_t>(n) + 1 < right.steps ? -1 : 0);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(steps));
}

std::string two_decimals(double number) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << number;
  return text.str();
}

Settings universal() {
  Settings settings = testing::tiny();
  settings.model = universal_model;
  settings.ponder_cost = 0.01;
  settings.layers = 4;
  settings.encodings = {"rotary"};
  return settings;
}
Transformer made(const char* name, std::int64_t seed = 1) {
  Transformer model = transformer_for(universal(), find_candidate(name), 32, seed);
  const at::NoGradGuard no_grad;
  for (at::Tensor& weight : model->parameters()) weight.mul_(2);
  // Tokens that halt after one step, and tokens that do not halt.
  auto parameters = model->named_parameters();
  parameters["halting.weight"].normal_(0, 2, seeded_generator(3));
  parameters["halting.bias"].zero_();
  return model;
}
double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}
at::Tensor bytes() { return at::arange(100, 112).view({1, 12}); }

TEST(Universal, HasTheParametersOfOneLayer) {
  Settings one = universal();
  one.model.clear();
  one.layers = 1;
  const auto layer = transformer_for(one, find_candidate("t5"), 32, 1);
  EXPECT_EQ(parameter_count(*made("t5")), parameter_count(*layer) + one.width + 1);
}

// The signal of a step is added before each step: a model of one step differs from one layer
// by it, and `universal` has the positions of `sinusoidal`.
TEST(Universal, AddsPositionsAndSteps) {
  const at::NoGradGuard no_grad;
  EXPECT_LT(
      difference(made("universal")->forward(bytes()), made("sinusoidal")->forward(bytes())),
      1e-4);
  EXPECT_GT(difference(made("universal")->forward(bytes()), made("none")->forward(bytes())),
            1e-2);
  Transformer model = made("none");
  model->named_parameters()["halting.bias"].fill_(-1e4);  // all steps
  Ponder ponder;
  const at::Tensor all = model->forward(bytes(), {.ponder = &ponder});
  EXPECT_TRUE(ponder.steps.eq(4).all().item<bool>());
  EXPECT_TRUE(ponder.remainder.eq(1).all().item<bool>());
  model->named_parameters()["halting.bias"].fill_(1e4);
  EXPECT_GT(difference(all, model->forward(bytes(), {.ponder = &ponder})), 1e-3);
  EXPECT_TRUE(ponder.steps.eq(1).all().item<bool>());
}

// Tokens halt at different steps, and the cache has the states of all steps.
TEST(Universal, DecodesFromACacheAsInOnePass) {
  const at::NoGradGuard no_grad;
  for (const char* name : {"rotary", "learned", "t5"}) {
    Transformer model = made(name);
    Ponder ponder;
    const at::Tensor whole = model->forward(bytes(), {.ponder = &ponder});
    EXPECT_GT(ponder.steps.max().item<double>(), ponder.steps.min().item<double>()) << name;
    KeyValues cache;
    std::vector<at::Tensor> parts;
    for (const auto& [begin, count] : {std::pair{0, 5}, {5, 1}, {6, 6}})
      parts.push_back(model->forward(bytes().narrow(1, begin, count), {.cache = &cache}));
    EXPECT_LT(difference(at::cat(parts, 1), whole), 1e-4) << name;
    std::vector<at::Tensor> weights;
    EXPECT_LT(difference(model->forward(bytes(), {.weights = &weights}), whole), 1e-5);
    EXPECT_EQ(weights.size(), 4u);
  }
}

TEST(Universal, ResumesPondersAndReportsItsSteps) {
  Settings settings = universal();
  settings.task = &find_task("flipflop");
  settings.steps = 4;
  const Corpus corpus;
  const testing::TemporaryFolder folder;
  TrainingRun whole(settings, corpus, "rotary", 1), first(settings, corpus, "rotary", 1),
      second(settings, corpus, "rotary", 1);
  const LossSum sum = whole.model().loss(Part::train, 1, 0, {0, settings.batch});
  const double cost = sum.penalty.item<double>() / (0.01 * static_cast<double>(sum.targets));
  EXPECT_GT(cost, 1);  // the number of steps and the remainder
  EXPECT_LT(cost, 5);
  EXPECT_NEAR((sum.objective() - sum.nats).item<double>(), sum.penalty.item<double>(), 1e-4);
  for (int step = 0; step < 2; ++step) first.train_step();
  first.save(folder / "run");
  second.load(folder / "run");
  while (!whole.trained()) whole.train_step();
  while (!second.trained()) second.train_step();
  const auto a = whole.transformer()->parameters(), b = second.transformer()->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;

  RunResult run = whole.summary();
  run.tests = *whole.model().evaluate([] { return false; });
  for (const Stretch& one : run.tests.stretches) {
    EXPECT_GE(one.steps.value(), 1);
    EXPECT_LE(one.steps.value(), 4);
  }
  Results results;
  results.settings = settings;
  results.runs = {run};
  compare_encodings(results);
  const plot::Table table = step_table(results);
  ASSERT_EQ(table.rows.size(), 1u);
  ASSERT_EQ(table.rows[0].size(), 3u);
  EXPECT_EQ(table.rows[0][1].text,
            two_decimals(ranges_of(run.tests.stretches)[0].steps.value()));
  results.runs[0].tests.stretches.back().steps = NAN;
  EXPECT_EQ(step_table(results).rows[0][2].text, "diverged");

  whole.model().save(folder / "model", run);
  const TrainedModel trained = load_model(folder / "model");
  EXPECT_EQ(trained.config.model_type, "gnomon-lab-universal");
  const at::NoGradGuard no_grad;
  Transformer loaded = trained.model;
  EXPECT_TRUE(loaded->forward(bytes()).equal(whole.transformer()->forward(bytes())));
}

}  // namespace universal_test
}  // namespace gnomon::lab
