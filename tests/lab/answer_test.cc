#include "apps/lab/statistics/answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "apps/lab/data/numbers.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/ways.h"
#include "lab/invented.h"

namespace gnomon::lab {
namespace answer_test {

using testing::Found;
using testing::results_of;

std::string joined(const std::vector<std::string>& sentences) {
  std::string all;
  for (const std::string& one : sentences) all += one + "\n";
  return all;
}

// The advice as a table of cases. `absent`: no part of the answer.
struct Case {
  const char* name;
  std::vector<Found> found;
  std::vector<std::string> said, absent;
};

class Advice : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    , Advice,
    ::testing::Values(
        Case{
            "TheCutContextIsBest",
            {{"alibi", "ALiBi", 2.65, 2.65, 2.65},
             {"rotary", "Rotary", 2.46, 2.95, 4.43},
             {"sinusoidal", "Sinusoidal", 2.87, 4.60, 5.28}},
            {"At the training length of 128 bytes, Rotary has the lowest loss: 2.46 bits per "
             "byte (1 seed). No encoding gains from a context longer than 128 bytes: at 256 "
             "and 1024 bytes, no loss is measurably below 2.46, the lowest with the context "
             "cut to the last 128 bytes.\n",
             "\nUse Rotary, and cut the context of longer texts to the last 128 bytes. "
             "If the context cannot be cut, the lowest loss with the whole 1024 bytes is 2.65, "
             "that of ALiBi, 0.19 bits above 2.46.",
             "ALiBi stays within 3 % of its loss at the training length",
             "Rotary (+80 %) and Sinusoidal (+84 %) fail."},
            {"Use ALiBi", "Not trained"}},
        Case{"ALongerContextGains",
             {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}},
             {"A longer context gains 0.16 bits: the lowest loss is 2.30, at 1024 bytes, that "
              "of ALiBi with the whole context.",
              "Use at 128 bytes Rotary, at 256 bytes ALiBi with the whole context or Rotary "
              "with its context cut to the last 128 bytes (tied) and at 1024 bytes ALiBi with "
              "the whole context.",
              "the loss of ALiBi (-12 %) decreases; Rotary (+80 %) fails."},
             {"cannot be cut", "No encoding gains", "within 3 %"}},
        Case{
            "TheWholeContextIsNoWorse",
            {{"rotary", "Rotary", 2.40, 2.95, 4.43},
             {"alibi", "ALiBi", 2.46, 2.60, 2.39},
             {"none", "None", 2.50, 2.54, 2.58}},
            {"If the context cannot be cut, the lowest loss with the whole 1024 bytes is 2.39, "
             "that of ALiBi, 0.01 bits below 2.40, which is not measurable.",
             "ALiBi stays within 3 % of its loss at the training length; the loss of None "
             "(+3.2 %) increases; Rotary (+85 %) fails."},
            {"-0.01", "gains 0"}},
        Case{"TheBestLongerContextsAreTied",
             {{"alibi", "ALiBi", 2.60, 2.45, 2.30},
              {"t5", "T5", 2.46, 2.45, 2.31},
              {"rotary", "Rotary", 2.46, 2.95, 4.43}},
             {"that of ALiBi with the whole context, tied with T5 with the whole context.",
              "and at 1024 bytes ALiBi with the whole context or T5 with the whole context "
              "(tied)."},
             {"cannot be cut", "No encoding gains"}},
        Case{"TheLowestLossesOfTheWholeContextAreTied",
             {{"rotary", "Rotary", 2.20, 2.95, 4.43},
              {"alibi", "ALiBi", 2.60, 2.60, 2.60},
              {"t5", "T5", 2.59, 2.59, 2.59}},
             {"the lowest loss with the whole 1024 bytes is 2.59, that of T5 and ALiBi (tied), "
              "0.39 bits above 2.20."},
             {"gains 0"}},
        Case{"OneEncodingIsBestEverywhere",
             {{"alibi", "ALiBi", 2.40, 2.35, 2.30}, {"none", "None", 3.00, 3.00, 3.00}},
             {"A longer context gains 0.10 bits",
              "Use at 128 bytes ALiBi and at 256 and 1024 bytes ALiBi with the whole context."},
             {"tied"}},
        Case{"ATie",
             {{"alibi", "ALiBi", 2.42, 2.42, 2.42},
              {"shaw", "Shaw", 2.40, 2.41, 2.41},
              {"none", "None", 3.00, 3.10, 3.20}},
             {"Shaw and ALiBi are tied for the lowest loss, 2.40 bits per byte (1 seed): the "
              "95 % confidence intervals of their differences contain 0.",
              "Use Shaw or ALiBi (tied; more --seeds can tell them apart). The context of Shaw "
              "need not be cut: the loss with the whole 1024 bytes does not differ measurably.",
              "No encoding gains from a context longer than 128 bytes"},
             {"None are tied", "cannot be cut"}},
        Case{"AllAreTied",
             {{"shaw", "Shaw", 2.40, 2.40, 2.40}, {"alibi", "ALiBi", 2.41, 2.41, 2.41}},
             {"no encoding is measurably better than the others: the 95 % "
              "confidence intervals of the differences of all 2 from the lowest loss, 2.40 "
              "bits per "
              "byte, contain 0 (1 seed).",
              "Use Shaw or ALiBi (tied"},
             {"has the lowest loss"}},
        Case{"AGainWithinTheUncertaintyIsNone",
             {{"alibi", "ALiBi", 2.40, 2.39, 2.38}},
             {"No encoding gains", "There is no other encoding to compare it with.",
              "Use ALiBi. The context of ALiBi need not be cut"},
             {"A longer context gains", "tied", "cannot be cut"}},
        Case{"NothingHolds",
             {{"rotary", "Rotary", 2.46, 2.95, 4.43}, {"learned", "Learned", 2.60, NAN, NAN}},
             {"no encoding stays within 3 % of its loss at the training length",
              "Rotary (+80 %) fails; Learned has no positions.",
              "Use Rotary, and cut the context of longer texts to the last 128 bytes."},
             {"gains 0", "Use Learned"}},
        Case{
            "Unlearnt",
            {{"detr", "DETR's sine", 4.30, 4.30, 4.30}, {"alibi", "ALiBi", 4.40, 4.40, 4.40}},
            {"Not trained enough for advice: the best loss is 4.30 bits per byte, that of byte "
             "frequencies alone is 4.46, and advice requires at least 10 % less. Train about 2 "
             "more minutes: --minutes 4."},
            {"Use"}},
        Case{"NoBetterThanPairsOfBytes",
             {{"alibi", "ALiBi", 3.49, 3.49, 3.49}, {"none", "None", 3.62, 3.62, 3.63}},
             {"Not trained enough for advice: the best loss is 3.49 bits per byte, and a model "
              "that only knows the byte before, without any position, has 3.45. Train about"},
             {"Use"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Advice, IsWhatTheDataSupport) {
  const std::string text = joined(answer(results_of(GetParam().found)));
  for (const std::string& part : GetParam().said)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  for (const std::string& part : GetParam().absent)
    EXPECT_EQ(text.find(part), std::string::npos) << part << "\nis in\n" << text;
}

TEST(Answer, GivesNoAdviceWhileTheLossFallsFast) {
  Results results = results_of(
      {{"alibi", "ALiBi", 2.60, 2.60, 2.60}, {"rotary", "Rotary", 2.40, 2.80, 3.00}});
  results.runs[1].curve = {{300, 0, 3.2}, {400, 0, 2.88}, {500, 0, 2.5}, {600, 0, 2.4}};
  const std::string text = joined(answer(results));
  EXPECT_NE(
      text.find("Not trained enough for advice: the loss of the best model, Rotary, fell by "
                "20 % in the last third of its steps, and advice requires at most 10 %. "
                "Train about 2 more minutes: --minutes 4."),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("Use"), std::string::npos);
  // The other model may still improve.
  results.runs[1].curve = results.runs[0].curve;
  results.runs[0].curve = {{400, 0, 4.0}, {600, 0, 2.6}};
  EXPECT_NE(joined(answer(results)).find("Use Rotary"), std::string::npos);
}

TEST(Answer, ComparesTheWaysOfAnExtensionToo) {
  Results results = results_of(
      {{"alibi", "ALiBi", 2.60, 2.60, 2.60}, {"rotary", "Rotary", 2.46, 2.95, 4.43}});
  results.runs[1].extension = Extension{
      .factor = 4,
      .steps = 30,
      .before = {2.46, 2.95, 4.43},
      .methods = {
          {.method = "yarn", .without = {2.5, 2.6, 3.0}, .after = {2.46, 2.38, 2.35}},
          {.method = "control", .without = {2.46, 2.95, 4.43}, .after = {2.4, 2.5, 2.9}}}};
  results.ways = ways(results.encodings, results.runs);
  results.recommendations = recommendations(results);
  const std::string text = joined(answer(results));
  EXPECT_NE(
      text.find("A longer context gains 0.11 bits: the lowest loss is 2.35, at 1024 bytes, "
                "that of Rotary extended with YaRN and fine-tuned."),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("at 256 and 1024 bytes Rotary extended with YaRN and fine-tuned."),
            std::string::npos)
      << text;
}

TEST(Ways, UseTheSpreadOfPairedSeedsWhereThereIsOne) {
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
    for (const RankedEncoding& one : ranking.order)
      if (one.name == name) return one.tied;
    return false;
  };
  EXPECT_TRUE(tied("a"));
  EXPECT_FALSE(tied("b"));
  EXPECT_TRUE(tied("c"));
}

TEST(Answer, SaysWhenItWasStoppedEarly) {
  Results results = results_of({{"alibi", "ALiBi", 2.42, 2.42, 2.42}});
  results.runs_asked = 6;
  EXPECT_EQ(answer(results)[0],
            "Stopped early: 1 of 6 runs are done, and only they are compared.");
}

}  // namespace answer_test
}  // namespace gnomon::lab
