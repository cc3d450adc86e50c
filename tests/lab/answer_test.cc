#include "apps/lab/answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "apps/lab/statistics.h"
#include "apps/lab/ways.h"

namespace gnomon::lab {
namespace answer_test {

// Losses at 128, 256 and 1024 bytes. NaN: not applicable.
struct Found {
  const char* name;
  const char* title;
  double at_128, at_256, at_1024;
};

Results results_of(const std::vector<Found>& all) {
  Results results;
  results.settings.eval_lengths = {128, 256, 1024};
  results.settings.steps = 600;
  results.texts.byte_frequency_bits = 4.46;
  results.texts.byte_pair_bits = 3.45;
  results.runs_asked = std::ssize(all);
  results.machine.cores = 2;
  for (const Found& one : all) {
    EncodingResult& encoding = results.encodings.emplace_back();
    RunResult& run = results.runs.emplace_back();
    encoding.name = run.encoding = one.name;
    encoding.title = one.title;
    encoding.seeds = 1;
    run.steps = 600;
    run.train_seconds = 120;
    run.curve = {{400, 0, one.at_128 * 1.05}, {600, 0, one.at_128}};
    for (const auto& [length, bits] :
         {std::pair{128, one.at_128}, {256, one.at_256}, {1024, one.at_1024}}) {
      LengthMean& mean = encoding.lengths.emplace_back();
      mean.length = length;
      mean.applicable = bits == bits;
      mean.tail_bits = bits;
      mean.cut_bits = one.at_128;
      mean.change = bits / one.at_128 - 1;
      if (mean.change <= 0.03) encoding.holds_to = length;
      run.tests.lengths.push_back({.length = length,
                                   .applicable = mean.applicable,
                                   .tail_bits = bits,
                                   .tail_by_segment = {bits - 0.1, bits + 0.1}});
    }
  }
  results.rankings = rankings(results.encodings, results.runs);
  results.ways = ways(results.encodings, results.runs);
  return results;
}

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
             "and "
             "1024 bytes, no loss is measurably below 2.46, the lowest with the context cut to "
             "the last 128 bytes.\n",
             "\nUse Rotary, and cut the context of longer texts to the last 128 bytes. "
             "If the context cannot be cut, the lowest loss with the whole 1024 bytes is 2.65, "
             "that of ALiBi, 0.19 bits above 2.46.",
             "ALiBi stays within 3 % of its loss at the training length",
             "Rotary (+80 %) and Sinusoidal (+84 %) fail."},
            {"Use ALiBi", "Not trained"}},
        Case{"ALongerContextGains",
             {{"alibi", "ALiBi", 2.60, 2.45, 2.30}, {"rotary", "Rotary", 2.46, 2.95, 4.43}},
             {"A longer context gains 0.16 bits: the lowest loss is 2.30, at 1024 bytes, that "
              "of "
              "ALiBi with the whole context.",
              "Use at 128 bytes Rotary, at 256 bytes Rotary with its context cut to the last "
              "128 "
              "bytes and at 1024 bytes ALiBi with the whole context."},
             {"cannot be cut", "No encoding gains"}},
        Case{"OneEncodingIsBestEverywhere",
             {{"alibi", "ALiBi", 2.40, 2.35, 2.30}, {"none", "None", 3.00, 3.00, 3.00}},
             {"A longer context gains 0.10 bits",
              "Use at 128 bytes ALiBi and at 256 and 1024 bytes ALiBi with the whole context."},
             {"tied"}},
        Case{"ATie",
             {{"alibi", "ALiBi", 2.42, 2.42, 2.42},
              {"shaw", "Shaw", 2.40, 2.41, 2.41},
              {"none", "None", 3.00, 3.10, 3.20}},
             {"Shaw and ALiBi are tied for the lowest loss, 2.40 bits per byte (1 seed): their "
              "differences are within two standard deviations.",
              "Use Shaw or ALiBi (tied; more --seeds can tell them apart). The context of Shaw "
              "need not be cut: the loss with the whole 1024 bytes does not differ measurably.",
              "No encoding gains from a context longer than 128 bytes"},
             {"None are tied", "cannot be cut"}},
        Case{"AllAreTied",
             {{"shaw", "Shaw", 2.40, 2.40, 2.40}, {"alibi", "ALiBi", 2.41, 2.41, 2.41}},
             {"no encoding is measurably better than the others: the loss of all 2 is within "
              "two "
              "standard deviations of the lowest, 2.40 bits per byte (1 seed).",
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
    for (const Place& one : ranking.order)
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
