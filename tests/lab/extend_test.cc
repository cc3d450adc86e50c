#include "apps/lab/statistics/answer.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "apps/lab/model/evaluate.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/runs/run.h"

namespace gnomon::lab {
namespace extend_test {

Settings tiny() {
  Settings settings;
  settings.encodings = {"rotary"};
  settings.extend = {"linear", "ntk", "dynamic-ntk", "yarn", "drope"};
  settings.train_length = 16;
  settings.eval_lengths = {16, 64};
  settings.layers = 2;
  settings.width = 16;
  settings.heads = 2;
  settings.steps = 40;
  settings.batch = 4;
  settings.eval_segments = 2;
  return settings;
}
const auto never = [] { return false; };

class Extended : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Settings settings = tiny();
    const Corpus corpus = load_corpus(settings);
    TrainingRun run(settings, corpus, "rotary", 1);
    for (int step = 0; step < 20; ++step) run.train_step();
    const at::Tensor weight = run.transformer()->parameters()[0].clone();
    tested_ = *evaluate(run.transformer(), settings, corpus, never);
    found_ = *extend(run.transformer(), settings, corpus, 1, never);
    again_ = *extend(run.transformer(), settings, corpus, 1, never);
    unchanged_ = weight.equal(run.transformer()->parameters()[0]);
  }
  static const ExtensionMethod& method(const std::string& name) {
    for (const ExtensionMethod& one : found_.methods)
      if (one.method == name) return one;
    throw std::out_of_range(name);
  }

  inline static Evaluation tested_;
  inline static Extension found_, again_;
  inline static bool unchanged_ = false;
};

TEST_F(Extended, HasEveryMethodAndAControl) {
  std::vector<std::string> names;
  for (const ExtensionMethod& one : found_.methods) names.push_back(one.method);
  EXPECT_EQ(names, (std::vector<std::string>{"linear", "ntk", "dynamic-ntk", "yarn", "drope",
                                             "control"}));
  EXPECT_EQ(found_.steps, 2);  // a twentieth of 40
  EXPECT_EQ(method("yarn").tune_length, 64);
  EXPECT_EQ(method("drope").tune_length, 16);
  EXPECT_EQ(method("yarn").specification.at("scaling").at("type"), "yarn");
  EXPECT_EQ(method("drope").specification.at("kind"), "none");
}

TEST_F(Extended, StartsFromTheTrainedModelAndLeavesIt) {
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found_.before[i], tested_.lengths[i].tail_bits);
  EXPECT_EQ(method("control").without, found_.before);
  EXPECT_NE(method("control").after, found_.before);
  EXPECT_TRUE(unchanged_);
  EXPECT_EQ(found_, again_);
}

TEST_F(Extended, DynamicScalingLeavesTheTrainedLengthAlone) {
  EXPECT_EQ(method("dynamic-ntk").without[0], found_.before[0]);
  EXPECT_NE(method("dynamic-ntk").without[1], found_.before[1]);
  EXPECT_NE(method("linear").without[0], found_.before[0]);
}

TEST_F(Extended, IsSummedUpOverSeeds) {
  EncodingResult rotary;
  rotary.name = "rotary";
  rotary.title = "Rotary";
  rotary.lengths = {{.length = 16}, {.length = 64}};
  RunResult run{.encoding = "rotary"};
  run.extension = found_;
  const auto all = extension_results({rotary}, {run});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].rows.size(), 1u + 2 * 5 + 1);
  EXPECT_EQ(all[0].rows[0].bits, found_.before);
  const auto sentences = extension_answer(all, "bytes");
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_EQ(sentences[0].rfind("Rotary at 64 bytes: ", 0), 0u);
}

TEST(Extend, StopsWhenAsked) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "rotary", 1);
  EXPECT_FALSE(extend(run.transformer(), settings, corpus, 1, [] { return true; }));
}

TEST(ExtensionTable, SpeaksOnlyOfMethodsOfTheSession) {
  ExtensionResult one{.factor = 4, .steps = 30, .lengths = {128}};
  one.rows = {{"yarn", "YaRN", Stage::without, {2.5}}};
  const auto says = [&] {
    return extension_table(Results(), one).caption.find("without positions") !=
           std::string::npos;
  };
  EXPECT_FALSE(says());
  one.rows.push_back({"drope", "DroPE", Stage::without, {2.5}});
  EXPECT_TRUE(says());
}

}  // namespace extend_test
}  // namespace gnomon::lab
