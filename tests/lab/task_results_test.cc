#include "apps/lab/task_results.h"

#include <gtest/gtest.h>

#include "apps/lab/cost.h"

namespace gnomon::lab {
namespace task_results_test {

// Two stretches of training lengths and two beyond. Stretches with -1 in `whole` are not
// applicable.
Json run_of(const std::string& name, const std::vector<double>& whole) {
  Json stretches = Json::array();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto from = static_cast<std::int64_t>(10 * i + 1);
    Json one{{"from", from}, {"to", from + 9}, {"up_to", i < 2 ? 20 : 40}};
    one["applicable"] = whole[i] >= 0;
    if (whole[i] >= 0)
      one.update({{"examples", 100},
                  {"whole", whole[i]},
                  {"byte", 0.5 + 0.5 * whole[i]},
                  {"bits", 1.0},
                  {"chance_whole", 1e-3},
                  {"chance_byte", 0.1}});
    stretches.push_back(one);
  }
  return {{"encoding", name}, {"stretches", stretches}};
}

Json encoding_of(const std::string& name, const std::vector<const Json*>& runs) {
  Json one{{"name", name}, {"title", name}};
  one.update(example_lengths(runs));
  return one;
}

TEST(ExampleLengths, JoinStretchesAndSeeds) {
  const Json a = run_of("t5", {1, 0.9, 0.5, 0.1}), b = run_of("t5", {1, 0.94, 0.7, 0.1});
  const Json found = example_lengths({&a, &b});
  EXPECT_EQ(found.at("stretches").size(), 4u);
  EXPECT_EQ(found.at("answered_to"), 20);
  const Json& ranges = found.at("ranges");
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].at("from"), 1);
  EXPECT_EQ(ranges[0].at("to"), 20);
  EXPECT_EQ(ranges[1].at("examples"), 200);
  EXPECT_DOUBLE_EQ(ranges[0].at("whole"), 0.96);
  EXPECT_DOUBLE_EQ(ranges[1].at("whole"), 0.35);
  EXPECT_NEAR(ranges[1].at("whole_deviation").get<double>(), 0.0707, 1e-3);  // 0.3, 0.4
}

TEST(ExampleRankings, SortTieAndLeaveOutWhatHasNoPosition) {
  const Json none = run_of("none", {1, 1, 0.6, 0.0}), t5 = run_of("t5", {1, 1, 0.58, 0.0}),
             rotary = run_of("rotary", {0.9, 0.8, 0.1, 0}),
             learned = run_of("learned", {1, 1, -1, -1});
  const Json runs = Json::array({none, t5, rotary, learned});
  const Json encodings =
      Json::array({encoding_of("rotary", {&rotary}), encoding_of("learned", {&learned}),
                   encoding_of("t5", {&t5}), encoding_of("none", {&none})});
  const Json rankings = example_rankings(encodings, runs);
  ASSERT_EQ(rankings.size(), 2u);
  EXPECT_EQ(rankings[0].at("order").size(), 4u);
  const Json& beyond = rankings[1].at("order");
  ASSERT_EQ(beyond.size(), 3u);
  EXPECT_EQ(beyond[0].at("name"), "none");
  EXPECT_EQ(beyond[1].at("name"), "t5");
  EXPECT_TRUE(beyond[1].at("tied"));
  EXPECT_FALSE(beyond[2].at("tied"));

  const Json answer = example_answer(
      {{"encodings", encodings}, {"rankings", rankings}, {"settings", {{"task", "copy"}}}});
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(answer[0],
            "Copy, up to the training length of 20 letters (chance: 0.1 % of whole answers and "
            "10 % of bytes): learned, t5 and none get at least 95 % right; "
            "less: rotary (85 %).");
  EXPECT_EQ(
      answer[1],
      "At lengths 21 to 40, the best is none (30 %), tied with t5 (29 %); then rotary (5 %).");
}

TEST(CostResults, CompareWithNoPosition) {
  const auto memory = [](double near, double far) {
    return Json::array(
        {Json{{"tokens", 1024}, {"bytes", near}}, Json{{"tokens", 4096}, {"bytes", far}}});
  };
  const Json measured = Json::array(
      {Json{{"encoding", "none"}, {"step_seconds", 0.2}, {"memory", memory(100, 400)}},
       Json{{"encoding", "t5"}, {"step_seconds", 0.25}, {"memory", memory(110, 440)}}});
  const Json encodings =
      Json::array({Json{{"name", "t5"}, {"title", "T5 bias"}, {"position_parameters", 128}}});
  const Json cost = cost_results(measured, encodings);
  ASSERT_EQ(cost.size(), 1u);
  EXPECT_EQ(cost[0].at("position_parameters"), 128);
  EXPECT_DOUBLE_EQ(cost[0].at("relative_step"), 1.25);
  EXPECT_DOUBLE_EQ(cost[0].at("memory")[1].at("extra_bytes"), 40);
  EXPECT_TRUE(cost_results(Json::array(), encodings).empty());
}

}  // namespace task_results_test
}  // namespace gnomon::lab
