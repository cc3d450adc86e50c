#include "apps/lab/answer.h"

#include <gtest/gtest.h>

namespace gnomon::lab {
namespace answer_test {

// Results of assemble_results: encodings with losses at 128 and 1024 bytes. NaN: not
// applicable.
struct Found {
  const char* name;
  const char* title;
  double near, far;
};
Json results_of(const std::vector<Found>& all) {
  Json encodings = Json::array(), runs = Json::array();
  for (const Found& one : all) {
    const bool there = one.far == one.far;
    const double change = one.far / one.near - 1;
    Json near{{"length", 128},         {"applicable", true},
              {"tail_bits", one.near}, {"cut_bits", one.near},
              {"change", 0.0},         {"tail_by_segment", {one.near - 0.1, one.near + 0.1}}};
    Json far{{"length", 1024}, {"applicable", there}};
    if (there)
      far.update({{"tail_bits", one.far},
                  {"cut_bits", one.near},
                  {"change", change},
                  {"tail_by_segment", {one.far - 0.1, one.far + 0.1}}});
    encodings.push_back({{"name", one.name},
                         {"title", one.title},
                         {"seeds", 1},
                         {"holds_to", there && change <= 0.03 ? 1024 : 128},
                         {"lengths", {near, far}}});
    runs.push_back({{"encoding", one.name}, {"lengths", {near, far}}});
  }
  Json results{{"encodings", encodings},
               {"runs_asked", encodings.size()},
               {"texts", {{"byte_frequency_bits", 4.46}}},
               {"settings", {{"eval_lengths", {128, 1024}}}}};
  results["rankings"] = rankings(encodings, runs);
  return results;
}

TEST(Answer, NamesTheBestTheOnesThatHoldAndTheOnesThatBreak) {
  const Json sentences = answer(results_of({{"alibi", "ALiBi", 2.50, 2.51},
                                            {"rotary", "Rotary", 2.40, 2.80},
                                            {"sinusoidal", "Sinusoidal", 2.70, 4.00},
                                            {"learned", "Learned", 2.60, NAN}}));
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(
      sentences[0],
      "At the training length of 128 bytes, Rotary has the lowest loss: 2.40 bits per byte.");
  EXPECT_EQ(
      sentences[1],
      "At 1024 bytes (8 times the training length), ALiBi stays within 3 % of its loss at "
      "the training length; the loss of Rotary (+17 %) increases; Sinusoidal (+48 %) "
      "fails; Learned has no positions.");
  EXPECT_EQ(sentences[2].get<std::string>().rfind(
                "Use Rotary for texts up to 128 bytes, and ALiBi for texts up to 1024.", 0),
            0u)
      << sentences[2];
}

TEST(Answer, CallsADifferenceWithinTwoDeviationsATie) {
  const Json sentences =
      answer(results_of({{"alibi", "ALiBi", 2.42, 2.42}, {"rotary", "Rotary", 2.40, 2.80}}));
  EXPECT_NE(sentences[0].get<std::string>().find(
                "ALiBi is tied with it (within two standard deviations)"),
            std::string::npos);
  EXPECT_NE(sentences[2].get<std::string>().find("Use ALiBi: no other encoding is better"),
            std::string::npos)
      << sentences[2];
}

TEST(Rankings, UseTheSpreadOfPairedSeedsWhereThereIsOne) {
  Json encodings = Json::array(), runs = Json::array();
  const auto add = [&](const char* name, std::vector<double> bits) {
    double sum = 0;
    for (double one : bits) {
      sum += one;
      runs.push_back({{"encoding", name}, {"lengths", {{{"tail_bits", one}}}}});
    }
    encodings.push_back({{"name", name},
                         {"title", name},
                         {"lengths",
                          {{{"length", 128},
                            {"applicable", true},
                            {"tail_bits", sum / static_cast<double>(bits.size())}}}}});
  };
  add("a", {2.00, 2.10, 2.20});
  add("b", {2.05, 2.15, 2.25});  // 0.05 worse with every seed: no tie
  add("c", {2.30, 2.00, 2.15});  // 0.05 worse on average, with a large deviation: a tie
  const Json order = rankings(encodings, runs)[0].at("order");
  const auto tied = [&](const char* name) {
    for (const Json& one : order)
      if (one.at("name") == name) return one.at("tied").get<bool>();
    return false;
  };
  EXPECT_TRUE(tied("a"));
  EXPECT_FALSE(tied("b"));
  EXPECT_TRUE(tied("c"));
}

TEST(Answer, DoubtsModelsThatHaveLearntLittle) {
  const Json sentences = answer(results_of({{"alibi", "ALiBi", 4.30, 4.30}}));
  EXPECT_NE(sentences[0].get<std::string>().find("train longer before you trust"),
            std::string::npos);
}

TEST(Answer, SaysWhenItWasStoppedEarly) {
  Json results = results_of({{"alibi", "ALiBi", 2.42, 2.42}});
  results["runs_asked"] = 6;
  EXPECT_EQ(answer(results)[0],
            "Stopped early: 1 of 6 runs are done, and only they are compared.");
}

}  // namespace answer_test
}  // namespace gnomon::lab
