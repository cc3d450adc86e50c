// The Universal Transformer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <iomanip>
#include <sstream>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"
#include "io/temporary.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace universal_test {

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
