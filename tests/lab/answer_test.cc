#include "apps/lab/answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "apps/lab/statistics.h"

namespace gnomon::lab {
namespace answer_test {

// Results with losses at 128 and 1024 bytes. NaN: not applicable.
struct Found {
  const char* name;
  const char* title;
  double near, far;
};
Results results_of(const std::vector<Found>& all) {
  Results results;
  results.settings.eval_lengths = {128, 1024};
  results.texts.byte_frequency_bits = 4.46;
  results.runs_asked = std::ssize(all);
  for (const Found& one : all) {
    EncodingResult& encoding = results.encodings.emplace_back();
    RunResult& run = results.runs.emplace_back();
    encoding.name = run.encoding = one.name;
    encoding.title = one.title;
    encoding.seeds = 1;
    for (const auto& [length, bits] : {std::pair{128, one.near}, {1024, one.far}}) {
      LengthMean& mean = encoding.lengths.emplace_back();
      mean.length = length;
      mean.applicable = bits == bits;
      mean.tail_bits = bits;
      mean.cut_bits = one.near;
      mean.change = bits / one.near - 1;
      if (mean.change <= 0.03) encoding.holds_to = length;
      run.tests.lengths.push_back({.length = length,
                                   .applicable = mean.applicable,
                                   .tail_bits = bits,
                                   .tail_by_segment = {bits - 0.1, bits + 0.1}});
    }
  }
  results.rankings = rankings(results.encodings, results.runs);
  return results;
}

TEST(Answer, NamesTheBestTheOnesThatHoldAndTheOnesThatBreak) {
  const auto sentences = answer(results_of({{"alibi", "ALiBi", 2.50, 2.51},
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
  EXPECT_EQ(sentences[2].rfind(
                "Use Rotary for texts up to 128 bytes, and ALiBi for texts up to 1024.", 0),
            0u)
      << sentences[2];
}

TEST(Answer, CallsADifferenceWithinTwoDeviationsATie) {
  const auto sentences =
      answer(results_of({{"alibi", "ALiBi", 2.42, 2.42}, {"rotary", "Rotary", 2.40, 2.80}}));
  EXPECT_NE(sentences[0].find("ALiBi is tied with it (within two standard deviations)"),
            std::string::npos);
  EXPECT_NE(sentences[2].find("Use ALiBi: no other encoding is better"), std::string::npos)
      << sentences[2];
}

TEST(Rankings, UseTheSpreadOfPairedSeedsWhereThereIsOne) {
  std::vector<EncodingResult> encodings;
  std::vector<RunResult> runs;
  const auto add = [&](const char* name, std::vector<double> bits) {
    EncodingResult& encoding = encodings.emplace_back();
    encoding.name = name;
    encoding.lengths.push_back({.length = 128, .applicable = true, .tail_bits = mean(bits)});
    for (const double one : bits) {
      RunResult& run = runs.emplace_back();
      run.encoding = name;
      run.tests.lengths.push_back({.length = 128, .applicable = true, .tail_bits = one});
    }
  };
  add("a", {2.00, 2.10, 2.20});
  add("b", {2.05, 2.15, 2.25});  // 0.05 worse with every seed: no tie
  add("c", {2.30, 2.00, 2.15});  // 0.05 worse on average, with a large deviation: a tie
  const Ranking ranking = rankings(encodings, runs)[0];
  const auto tied = [&](const char* name) {
    for (const Place& one : ranking.order)
      if (one.name == name) return one.tied;
    return false;
  };
  EXPECT_TRUE(tied("a"));
  EXPECT_FALSE(tied("b"));
  EXPECT_TRUE(tied("c"));
}

TEST(Answer, DoubtsModelsThatHaveLearntLittle) {
  const auto sentences = answer(results_of({{"alibi", "ALiBi", 4.30, 4.30}}));
  EXPECT_NE(sentences[0].find("train longer before you trust"), std::string::npos);
}

TEST(Answer, SaysWhenItWasStoppedEarly) {
  Results results = results_of({{"alibi", "ALiBi", 2.42, 2.42}});
  results.runs_asked = 6;
  EXPECT_EQ(answer(results)[0],
            "Stopped early: 1 of 6 runs are done, and only they are compared.");
}

}  // namespace answer_test
}  // namespace gnomon::lab
