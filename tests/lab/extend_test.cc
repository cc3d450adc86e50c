#include "apps/lab/extend.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "apps/lab/evaluate.h"
#include "apps/lab/run.h"

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
    const at::Tensor weight = run.model()->parameters()[0].clone();
    tested_ = evaluate(run.model(), settings, corpus, never);
    found_ = extend(run.model(), settings, corpus, 1, never);
    again_ = extend(run.model(), settings, corpus, 1, never);
    unchanged_ = weight.equal(run.model()->parameters()[0]);
  }
  static const Json& method(const std::string& name) {
    for (const Json& one : found_.at("methods"))
      if (one.at("method") == name) return one;
    throw std::out_of_range(name);
  }

  inline static Json tested_, found_, again_;
  inline static bool unchanged_ = false;
};

TEST_F(Extended, HasEveryMethodAndAControl) {
  std::vector<std::string> names;
  for (const Json& one : found_.at("methods")) names.push_back(one.at("method"));
  EXPECT_EQ(names, (std::vector<std::string>{"linear", "ntk", "dynamic-ntk", "yarn", "drope",
                                             "control"}));
  EXPECT_EQ(found_.at("steps"), 2);  // a twentieth of 40
  EXPECT_EQ(method("yarn").at("tune_length"), 64);
  EXPECT_EQ(method("drope").at("tune_length"), 16);
  EXPECT_EQ(method("yarn").at("specification").at("scaling").at("type"), "yarn");
  EXPECT_EQ(method("drope").at("specification").at("kind"), "none");
}

TEST_F(Extended, StartsFromTheTrainedModelAndLeavesIt) {
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(found_.at("before")[i], tested_.at("lengths")[i].at("tail_bits"));
  EXPECT_EQ(method("control").at("without"), found_.at("before"));
  EXPECT_NE(method("control").at("after"), found_.at("before"));
  EXPECT_TRUE(unchanged_);
  EXPECT_EQ(found_, again_);
}

TEST_F(Extended, DynamicScalingLeavesTheTrainedLengthAlone) {
  EXPECT_EQ(method("dynamic-ntk").at("without")[0], found_.at("before")[0]);
  EXPECT_NE(method("dynamic-ntk").at("without")[1], found_.at("before")[1]);
  EXPECT_NE(method("linear").at("without")[0], found_.at("before")[0]);
}

TEST_F(Extended, IsSummedUpOverSeeds) {
  const Json lengths = Json::array({Json{{"length", 16}}, Json{{"length", 64}}});
  const Json encodings =
      Json::array({Json{{"name", "rotary"}, {"title", "Rotary"}, {"lengths", lengths}}});
  const Json runs = Json::array({Json{{"encoding", "rotary"}, {"extension", found_}}});
  const Json all = extension_results(encodings, runs);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("rows").size(), 1u + 2 * 5 + 1);
  EXPECT_EQ(all[0].at("rows")[0].at("bits"), found_.at("before"));
  const Json sentences = extension_answer(all);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_EQ(sentences[0].get<std::string>().rfind("Rotary at 64 bytes: ", 0), 0u);
}

TEST(Extend, StopsWhenAsked) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "rotary", 1);
  EXPECT_TRUE(extend(run.model(), settings, corpus, 1, [] { return true; }).is_null());
}

}  // namespace extend_test
}  // namespace gnomon::lab
