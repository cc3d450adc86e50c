#include "apps/lab/statistics/answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "apps/lab/data/numbers.h"
#include "apps/lab/statistics/rankings.h"
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
            {"At the training length of 128 bytes, in bits per byte (600 steps, 5 seeds): "
             "Rotary "
             "(2.46) is the best: better than the next, ALiBi (2.65), by 0.19 ± "
             "0.006 bits, "
             "then Sinusoidal (2.87).\n",
             "At 256 and 1024 bytes, a context longer than 128 bytes gains at most 0.05 bits: ",
             "\nUse at 128 bytes Rotary; at 256 and 1024 bytes Rotary with its context cut to "
             "the "
             "last 128 bytes.\n",
             "within 3 % of the loss at the training length: ALiBi; higher by more than 25 %: "
             "Rotary (+80 %) and Sinusoidal (+84 %)."},
            {"Use ALiBi", "No advice"}},
        Case{"ALongerContextGains",
             {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}},
             {"A longer context gains 0.16 ± 0.006 bits: at 1024 bytes, ALiBi with the whole "
              "context "
              "has 2.30.",
              "Use at 128 bytes Rotary; at 256 bytes ALiBi with the whole context or Rotary "
              "with its "
              "context cut to the last 128 bytes (equivalent within 0.05 bits); at 1024 bytes "
              "ALiBi "
              "with the whole context.",
              ": lower: ALiBi (-12 %); higher by more than 25 %: Rotary (+80 %)."},
             {"within 3 %"}},
        Case{"AGainThatIsNotDecided",
             {{"alibi", "ALiBi", 2.50, 2.40, 2.40, {0, 0.1, -0.1}},
              {"rotary", "Rotary", 2.46, 2.95, 4.43, {0.1, -0.1, 0}}},
             {"At 256 and 1024 bytes, whether a context longer than 128 bytes gains is not "
              "decided.",
              "No advice for 128, 256 and 1024 bytes: which encoding is best is not decided.",
              "lower: ALiBi (-4.0 %); higher by more than 25 %: Rotary (+80 %)."},
             {"gains at most"}},
        Case{"EquivalentEncodings",
             {{"alibi", "ALiBi", 2.42, 2.42, 2.42},
              {"shaw", "Shaw", 2.41, 2.41, 2.41},
              {"none", "None", 3.00, 3.10, 3.20}},
             {"Shaw (2.41) and ALiBi (2.42) are equivalent within 0.05 bits; None (3.00) is "
              "worse, by "
              "0.59 ± 0.0",
              "Use at 128, 256 and 1024 bytes Shaw or ALiBi (equivalent within 0.05 bits)."},
             {"not decided", "No advice"}},
        Case{"UndecidedEncodings",
             {{"alibi", "ALiBi", 2.42, 2.42, 2.42, {0.1, 0, -0.1}},
              {"shaw", "Shaw", 2.40, 2.40, 2.40, {-0.05, 0, 0.05}},
              {"none", "None", 3.20, 3.20, 3.20, {0, 0.05, -0.05}}},
             {"which is best is not decided between Shaw (2.40), ALiBi (2.42) and None (3.20); "
              "the "
              "first two differ by 0.020 ± 0.42 bits.",
              "No advice for 128, 256 and 1024 bytes: which encoding is best is not decided."},
             {"Use", "equivalent"}},
        Case{"OneSeedIsDescribed",
             {{"alibi", "ALiBi", 2.60, 2.60, 2.60, {0}},
              {"rotary", "Rotary", 2.40, 2.80, 3.00, {0}}},
             {"No advice from 1 seed: results differ between seeds, and at least 3 seeds show "
              "by how "
              "much. For advice: --seeds 5, about 10 minutes here.\n",
              "(600 steps, 1 seed): in this order, which other seeds may change: Rotary (2.40) "
              "and "
              "ALiBi (2.60).",
              "8 times the training length (1 seed): within 3 % of the loss at the training "
              "length: "
              "ALiBi; higher by more than 25 %: Rotary (+25 %)."},
             {"Use", "better", "worse"}},
        Case{"TwoSeedsAreDescribed",
             {{"alibi", "ALiBi", 2.60, 2.60, 2.60, {0, 0.1}},
              {"rotary", "Rotary", 2.40, 2.80, 3.00, {0, 0.1}}},
             {"No advice from 2 seeds"},
             {"Use", "better", "worse"}},
        Case{
            "OneEncoding",
            {{"alibi", "ALiBi", 2.40, 2.40, 2.40}},
            {"ALiBi (2.40), and no other takes part.", "Use at 128, 256 and 1024 bytes ALiBi."},
            {"better", "worse"}},
        Case{"NothingHolds",
             {{"rotary", "Rotary", 2.46, 2.95, 4.43}, {"learned", "Learned", 2.60, NAN, NAN}},
             {"Use at 128 bytes Rotary; at 256 and 1024 bytes Rotary with its context cut to "
              "the last "
              "128 bytes.",
              "higher by more than 25 %: Rotary (+80 %); no positions: Learned."},
             {"Use Learned"}},
        Case{"AtChance",
             {{"detr", "DETR's sine", 4.30, 4.30, 4.30}, {"alibi", "ALiBi", 4.40, 4.40, 4.40}},
             {"No advice: no encoding is trained enough. Train longer: --steps 1200, about 20 "
              "minutes "
              "here.\n",
              "Not ranked, because not trained enough: DETR's sine and ALiBi (not below 3.28 "
              "bits: little more than the frequencies of byte pairs is learned)."},
             {"Use"}},
        Case{"SomeAreAtChance",
             {{"alibi", "ALiBi", 2.60, 2.60, 2.60},
              {"rotary", "Rotary", 2.80, 2.80, 2.80},
              {"none", "None", 3.43, 3.43, 3.43}},
             {"Not ranked, because not trained enough: None (not below 3.28 bits: ",
              "ALiBi (2.60) is the best: better than the next, Rotary (2.80), by "},
             {"No advice"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Advice, IsWhatTheDataSupport) {
  const std::string text = joined(answer(results_of(GetParam().found)));
  for (const std::string& part : GetParam().said)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  for (const std::string& part : GetParam().absent)
    EXPECT_EQ(text.find(part), std::string::npos) << part << "\nis in\n" << text;
}

TEST(Answer, LeavesOutAnEncodingWhoseLossFallsFast) {
  Results results = results_of({{"alibi", "ALiBi", 2.60, 2.60, 2.60},
                                {"rotary", "Rotary", 2.40, 2.80, 3.00},
                                {"t5", "T5", 2.70, 2.70, 2.70}});
  for (RunResult& run : results.runs)
    if (run.encoding == "t5") run.curve = {{240, 0, 3.1}, {480, 0, 2.8}, {600, 0, 2.7}};
  judge_training(results);
  rank(results);
  results.recommendations = recommendations(results);
  const std::string text = joined(answer(results));
  EXPECT_NE(
      text.find("Not ranked, because not trained enough: T5 (0.30 bits) (with twice the steps, "
                "the loss would fall by about the number in parentheses, which would change "
                "the order)."),
      std::string::npos)
      << text;
  EXPECT_EQ(results.rankings[0].order.back().name, "t5");
  // A fall that changes no place: rotary leads by more.
  for (RunResult& run : results.runs)
    if (run.encoding == "t5") run.curve = {{240, 0, 2.9}, {480, 0, 2.8}, {600, 0, 2.7}};
  judge_training(results);
  for (const EncodingResult& one : results.encodings)
    EXPECT_EQ(one.training, Training::enough) << one.name;
  // The best may fall as it likes.
  for (RunResult& run : results.runs)
    if (run.encoding == "rotary") run.curve = {{240, 0, 3.1}, {480, 0, 2.8}, {600, 0, 2.4}};
  judge_training(results);
  EXPECT_EQ(results.encodings[1].training, Training::enough);
}

TEST(Answer, ComparesTheWaysOfAnExtensionToo) {
  Results results = results_of(
      {{"alibi", "ALiBi", 2.60, 2.60, 2.60}, {"rotary", "Rotary", 2.46, 2.95, 4.43}});
  for (RunResult& run : results.runs)
    if (run.encoding == "rotary")
      run.extension = Extension{
          .factor = 4,
          .steps = 30,
          .before = {2.46, 2.95, 4.43},
          .methods = {
              {.method = "yarn", .without = {2.5, 2.6, 3.0}, .after = {2.46, 2.38, 2.35}},
              {.method = "control", .without = {2.46, 2.95, 4.43}, .after = {2.4, 2.5, 2.9}}}};
  rank(results);
  results.recommendations = recommendations(results);
  const std::string text = joined(answer(results));
  for (const char* part : {"A longer context gains 0.11 ± 0.006 bits: at 1024 bytes, Rotary "
                           "extended with YaRN and "
                           "fine-tuned has 2.35.",
                           "at 256 and 1024 bytes Rotary extended with YaRN and fine-tuned."})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Answer, SaysWhenItWasStoppedEarly) {
  Results results = results_of({{"alibi", "ALiBi", 2.42, 2.42, 2.42}});
  results.runs_asked = 6;
  EXPECT_EQ(answer(results)[0],
            "Stopped early: 5 of 6 runs are done, and only they are compared.");
}

}  // namespace answer_test
}  // namespace gnomon::lab
