// DroPE: entries with @drope.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "apps/lab/model/candidate.h"
#include "apps/lab/report/report.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"
#include "gnomon/io/file.h"
#include "io/temporary.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace drop_positions_test {

Settings copying() {
  Settings settings = testing::tiny();
  settings.task = &find_task("copy");
  settings.train_length = 4;
  settings.eval_lengths = {4, 8};
  settings.encodings = {"rotary", "rotary@drope"};
  settings.steps = 8;
  settings.eval_segments = 1;
  return settings;
}
at::Tensor bytes() { return at::arange(100, 112).view({1, 12}); }

TEST(DropStep, IsTheLastStepWithTheFullRateUnlessItIsGiven) {
  Settings settings = copying();
  EXPECT_EQ(drop_step(settings), 6);  // 0.8 of 8
  settings.steps = 1;
  EXPECT_EQ(drop_step(settings), 1);
  settings.drop_position = 3;
  EXPECT_EQ(drop_step(settings), 3);
}

// As rotary up to the step, then as a model without position that has its weights.
TEST(DropPositions, TrainsWithThemAndThenWithout) {
  Settings settings = copying();
  settings.drop_position = 5;
  const Corpus corpus;
  const testing::TemporaryFolder folder;
  TrainingRun kept(settings, corpus, "rotary", 1), dropped(settings, corpus, "rotary@drope", 1),
      none(settings, corpus, "none", 1);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(kept.train_step(), dropped.train_step());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(
      kept.transformer()->forward(bytes()).equal(dropped.transformer()->forward(bytes())));
  EXPECT_EQ(dropped.summary().specification.at("kind"), "rotary");
  {
    const at::AutoGradMode with_grad(true);
    dropped.train_step();
  }
  EXPECT_EQ(dropped.summary().specification.at("kind"), "none");
  auto weights = dropped.transformer()->named_parameters();
  for (auto& item : none.transformer()->named_parameters())
    item.value().copy_(weights[item.key()]);
  const at::Tensor without = none.transformer()->forward(bytes());
  EXPECT_TRUE(dropped.transformer()->forward(bytes()).equal(without));

  // A run that is loaded after the step has no position.
  dropped.save(folder / "run");
  TrainingRun loaded(settings, corpus, "rotary@drope", 1);
  loaded.load(folder / "run");
  EXPECT_TRUE(loaded.transformer()->forward(bytes()).equal(without));
  // So does the model of the run.
  dropped.model().save(folder / "model", dropped.summary());
  Transformer stored = load_model(folder / "model").model;
  EXPECT_TRUE(stored->forward(bytes()).equal(without));
}

TEST(DropPositions, IsSaidInTheReport) {
  Results results;
  results.settings = copying();
  results.settings.seeds = {1};
  for (const std::string& name : results.settings.encodings) {
    RunResult& run = results.runs.emplace_back();
    run.encoding = name, run.seed = 1, run.steps = 8;
    run.tests.stretches = length_stretches(results.settings);
    for (Stretch& one : run.tests.stretches)
      one = {one.from, one.to, one.up_to, true, 2, 1, 1, 1, 0.01, 0.1};
  }
  compare_encodings(results);
  const auto shows = [&](const char* text) {
    const testing::TemporaryFolder folder;
    write_report(folder.path(), results);
    return std::string(io::MappedFile(folder / "index.html").text()).find(text) !=
           std::string::npos;
  };
  EXPECT_TRUE(
      shows("Rotary (RoPE), positions dropped: 6 steps with the positions, then 2 steps "
            "of recalibration without them, at the lengths of training"));
  results.settings.encodings.pop_back();
  results.runs.pop_back();
  compare_encodings(results);
  EXPECT_FALSE(shows("Positions dropped"));
}

std::string refusal(const Settings& settings) {
  try {
    check_settings(settings);
    return "accepted";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(CheckSettings, OfDroppedPositionsAndModels) {
  Settings settings = copying();
  EXPECT_EQ(refusal(settings), "accepted");
  settings.drop_position = 8;
  EXPECT_EQ(refusal(settings),
            "[lab] --drop-position must be at least 1 and below --steps, got 8");
  settings.drop_position = 3;
  settings.encodings = {"rotary"};
  EXPECT_EQ(refusal(settings), "[lab] --drop-position requires an entry with @drope, got none");
  settings.drop_position.reset();
  settings.model = universal_model;
  EXPECT_EQ(refusal(settings), "[lab] --ponder-cost requires --model universal, got none");
  settings.ponder_cost = 2;
  EXPECT_EQ(refusal(settings), "[lab] --ponder-cost must be 0 to 1, got 2");
  settings.ponder_cost = 0.1;
  EXPECT_EQ(refusal(settings), "accepted");
  settings.task = &find_task("image");
  settings.encodings = {"none"};
  EXPECT_EQ(refusal(settings).rfind("[lab] --model universal requires --task text, ", 0), 0u)
      << refusal(settings);
  settings.task = &text_task;
  settings.train_length = 8, settings.eval_lengths = {8};
  settings.encodings = {"t5@memory"};
  EXPECT_EQ(refusal(settings), "[lab] @memory requires --model transformer, got universal");

  EXPECT_EQ(unusable("learned@drope", copying(), {}),
            "[lab] @drope requires encodings without parameters, got learned");
}

}  // namespace drop_positions_test
}  // namespace gnomon::lab
