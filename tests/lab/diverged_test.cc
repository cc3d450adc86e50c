// Results with numbers that are not finite: every field of a run in turn, and the sentences.
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/training.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "apps/lab/data/task.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/report/report.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/compare.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results.h"
#include "gnomon/io/file.h"
#include "io/temporary.h"
#include "lab/invented.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace diverged_test {

namespace fs = std::filesystem;

constexpr double not_finite[] = {NAN, INFINITY, -INFINITY};

TEST(IsLower, PutsWhatIsNotFiniteLast) {
  EXPECT_TRUE(is_lower(1, 2));
  EXPECT_FALSE(is_lower(2, 2));
  for (const double bad : not_finite) {
    EXPECT_TRUE(is_lower(1e300, bad));
    EXPECT_FALSE(is_lower(bad, -1e300));
    for (const double other : not_finite) EXPECT_FALSE(is_lower(bad, other));
    EXPECT_EQ(number_or_diverged("{:.1f}", bad), "diverged");
  }
  EXPECT_EQ(number_or_diverged("{:.1f}", 2.25), "2.2");
}

// The visible text of a page.
std::string visible(std::string html) {
  for (const auto& [begin, end] : {std::pair{"<script", "</script>"}, {"<style", "</style>"}})
    for (std::size_t at = 0; (at = html.find(begin, at)) != html.npos;)
      html.erase(at, html.find(end, at) - at);
  return html;
}

// The first number in a text that is not finite, with the text around it; empty if all are.
std::string shown_number(const std::string& text) {
  const auto letter = [&](std::size_t at) {
    return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at]));
  };
  for (const char* number : {"nan", "inf"})
    for (std::size_t at = 0; (at = text.find(number, at)) != text.npos; at += 3)
      if (!letter(at - 1) && !letter(at + 3)) return text.substr(at < 60 ? 0 : at - 60, 120);
  return {};
}

RunResult text_run(const std::string& encoding, const Settings& settings, double bits) {
  RunResult run{.encoding = encoding, .seed = 1, .specification = {{"kind", encoding}}};
  run.steps = settings.steps;
  run.train_seconds = 3, run.tokens_per_second = 1000, run.test_seconds = 1;
  run.curve = {{100, bits + 2, bits + 1}, {300, bits, bits}, {600, bits, bits}};
  for (const std::int64_t length : settings.eval_lengths)
    run.tests.lengths.push_back({length, true, bits, bits, 0.5, 4, {bits - 0.1, bits + 0.1}});
  run.tests.by_position = PositionLoss{256, {1, 2.5}, {bits, bits}};
  run.picture.table = run.picture.initial_table = SampledMatrix{1, 2, {{1, 2}, {3, 4}}};
  run.picture.similarity = SampledMatrix{1, 1, {{1, 0.5, 0}, {0.5, 1, 0.5}, {0, 0.5, 1}}};
  run.picture.rotary = RotaryDecay{{0, 1, 2}, {1, 0.5, 0.25}};
  run.picture.bias = run.picture.initial_bias = BiasByDistance{{0, 1}, {{0, -1}}};
  run.samples = {{128, "It is", "a truth", ""}};
  run.attention = TrainedAttention{.distances = {0, 1},
                                   .shares = {0.5, 1},
                                   .text = "It is",
                                   .maps = {{0, 0, {{1, 0}, {0.5, 0.5}}}},
                                   .range_ends = {0, 1},
                                   .heads = {{0, 0, 0.5, {0.5, 0.5}}, {0, 1, 1, {0, 1}}}};
  if (encoding == "rotary")
    run.extension = Extension{4,
                              1,
                              {bits, bits + 1},
                              {{"yarn",
                                512,
                                {{"kind", "scaled"}},
                                {bits, bits},
                                {bits, bits},
                                {{bits}, {bits}},
                                {{bits}, {bits}}},
                               {"control",
                                512,
                                {{"kind", "rotary"}},
                                {bits, 5},
                                {bits, 5},
                                {{bits}, {5}},
                                {{bits}, {5}}}}};
  return run;
}

Results text_results() {
  Results results;
  Settings& settings = results.settings;
  settings.encodings = {"rotary", "alibi", "t5"};
  settings.extend = {"yarn"};
  settings.eval_lengths = {128, 256};
  settings.steps = 600;
  results.metric = {"bits per byte", "the mean loss", "8 bits"};
  results.texts.byte_frequency_bits = 4.46;
  results.texts.byte_pair_bits = 3.45;
  settings.seeds = {1, 2, 3};
  results.runs_asked = 9;
  for (const std::int64_t seed : settings.seeds)
    for (const auto& [name, bits] : {std::pair{"rotary", 2.0}, {"alibi", 2.5}, {"t5", 3.0}}) {
      results.runs.push_back(
          text_run(name, settings, bits + 0.001 * static_cast<double>(seed)));
      results.runs.back().seed = seed;
    }
  return results;
}

Results example_results() {
  Results results;
  Settings& settings = results.settings;
  settings.task = &find_task("copy");
  settings.encodings = {"rotary", "alibi", "t5"};
  settings.train_length = 4;
  settings.eval_lengths = {4, 8};
  settings.steps = 2400;
  results.metric = {"right whole answers", "the share", "a guess"};
  settings.seeds = {1, 2, 3};
  results.runs_asked = 9;
  for (const std::int64_t seed : settings.seeds) {
    double score = 0.9;
    for (const std::string& encoding : settings.encodings) {
      RunResult& run = results.runs.emplace_back();
      run.encoding = encoding, run.seed = seed, run.steps = settings.steps;
      run.specification = {{"kind", encoding}};
      run.curve = {{2400, 1, 1}};
      run.tests.stretches = length_stretches(settings);
      for (Stretch& one : run.tests.stretches)
        one = {one.from, one.to, one.up_to, true, 400, score, score, 1, 0.01, 0.1};
      run.samples = {{4, "abcd>", "abcd.", "abcd."}};
      score -= 0.2;
    }
  }
  return results;
}

class EveryField : public ::testing::TestWithParam<Results (*)()> {
 protected:
  void expect_no_number(const Results& results, const std::string& where) {
    EXPECT_EQ(shown_number(terminal_summary(results, Colour::never)), "") << where;
    EXPECT_EQ(shown_number(outcome(results.runs[0])), "") << where;
  }
  void expect_no_number_on_page(const Results& results, const std::string& where) {
    write_report(folder_.path(), results);
    const io::MappedFile page(folder_ / "index.html");
    EXPECT_EQ(shown_number(visible(std::string(page.text()))), "") << where;
  }

 private:
  testing::TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(, EveryField, ::testing::Values(text_results, example_results),
                         [](const auto& info) {
                           return info.index == 0 ? "Text" : "Examples";
                         });

TEST_P(EveryField, ThatIsNotFiniteIsRefusedOrDiverged) {
  const Json whole = to_json(GetParam()());
  Results sound = read_results(whole);
  compare_encodings(sound);
  ASSERT_EQ(sound.recommendations.at(0).choices.at(0).name, "rotary");
  expect_no_number(sound, "sound");
  expect_no_number_on_page(sound, "sound");
  int refused = 0, read = 0, diverged = 0;
  const Json flat = whole.flatten();
  for (const auto& [path, value] : flat.items()) {
    const bool measured = path.starts_with("/runs/0/") || path.starts_with("/texts/") ||
                          path.starts_with("/settings/") || path.starts_with("/machine/");
    if (!value.is_number() || !measured) continue;
    for (const double bad : not_finite) {
      Json changed = whole;
      changed[Json::json_pointer(path)] = bad;
      Results results;
      try {
        results = read_results(changed);
      } catch (const std::invalid_argument&) {
        ++refused;
        continue;
      }
      ++read;
      compare_encodings(results);
      expect_no_number(results, path);
      if (std::isnan(bad)) expect_no_number_on_page(results, path);  // 10 ms each
      for (const auto& [a, b] : {std::pair{&results, &sound}, {&sound, &results}})
        EXPECT_EQ(shown_number(comparison_text(compare(*a, *b, Texts::same))), "") << path;
      // A number from which the rankings follow.
      for (std::size_t i = 0; i < results.rankings.size(); ++i) {
        const std::vector<Way>& order = results.rankings[i].order;
        for (const Way& one : order)
          if (!std::isfinite(one.value)) {
            ++diverged;
            EXPECT_EQ(&one, &order.back()) << path;
            EXPECT_EQ(one.name, "rotary") << path;
            EXPECT_FALSE(may_be_best(one.verdict)) << path;
            EXPECT_NE(terminal_summary(results, Colour::never).find("diverged"),
                      std::string::npos)
                << path;
            if (i > 0) continue;
            for (const Choice& choice : results.recommendations.at(0).choices)
              EXPECT_NE(choice.name, "rotary") << path;
          }
      }
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(read, 20);
  EXPECT_GE(diverged,
            16);  // at two lengths; an infinite tail_bits is not the mean of its segments
}

TEST(StoredResults, ScoresAreShares) {
  for (const char* number : {"score", "second", "chance_score", "chance_second"})
    for (const double bad : {-0.5, 1.5, 1e308}) {
      Json changed = to_json(example_results());
      changed["runs"][1]["stretches"][0][number] = bad;
      EXPECT_THROW(read_results(changed), std::invalid_argument) << number << " " << bad;
    }
}

// Seeds with curves of unequal sizes, and a run without attention.
TEST(StoredResults, OfUnequalCurvesHaveAPage) {
  const testing::TemporaryFolder folder;
  Results results = text_results();
  results.settings.seeds = {1, 2};
  RunResult& first = results.runs[0];
  RunResult second = first;
  second.seed = 2;
  first.curve = {};
  first.attention.reset();
  first.tests.by_position = PositionLoss{256, {1}, {2}};
  results.runs.push_back(second);
  Results found = read_results(to_json(results));
  compare_encodings(found);
  write_report(folder.path(), found);
  EXPECT_GT(fs::file_size(folder / "index.html"), 10'000u);
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string all;
  for (const std::string& one : sentences) all += one + "\n";
  return all;
}

TEST(Diverged, EncodingsAreNamedAndNotRecommended) {
  const Results one = testing::results_of({{"t5", "T5", INFINITY, INFINITY, INFINITY},
                                           {"alibi", "ALiBi", 2.42, 2.42, 2.42},
                                           {"rotary", "Rotary", 2.62, 2.62, INFINITY}});
  const std::string text = joined(answer(one));
  for (const char* part :
       {"ALiBi (2.42) is the best: better than the next, Rotary (2.62)",
        "Diverged: T5 and Rotary (at 1024 bytes). A result that is not a finite number ranks "
        "last and is never recommended.\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  EXPECT_EQ(one.rankings[0].order.back().name, "t5");
  for (const Recommendation& each : one.recommendations)
    for (const Choice& choice : each.choices) EXPECT_EQ(choice.name, "alibi");

  const Results other = testing::results_of(
      {{"t5", "T5", INFINITY, INFINITY, INFINITY}, {"alibi", "ALiBi", 2.42, 2.42, 2.42}});
  EXPECT_EQ(other.recommendations.at(0).confidence, "no other encoding takes part; 5 seeds");

  const Results all = testing::results_of(
      {{"t5", "T5", INFINITY, INFINITY, INFINITY}, {"alibi", "ALiBi", INFINITY, 2, 2}});
  EXPECT_EQ(joined(answer(all)),
            "No advice: every encoding diverged, so that no result as in training is a finite "
            "number. Train with a --learning-rate below 0.002.\n");
  EXPECT_TRUE(all.recommendations.empty());
}

TEST(Diverged, ARunWithANullLossHasAPage) {
  Results results = text_results();
  for (RunResult& run : results.runs)
    for (LengthLoss& at : run.tests.lengths) at.tail_bits = NAN;
  compare_encodings(results);
  EXPECT_TRUE(results.recommendations.empty());
  EXPECT_EQ(results.answer.at(0).find("No advice: every encoding diverged"), 0u);
  EXPECT_EQ(shown_number(terminal_summary(results, Colour::never)), "");
}

// Weights that are not finite: the tests, samples and pictures of the model.
TEST(Diverged, AModelIsTestedAndShown) {
  const testing::TemporaryFolder folder;
  SessionResult session;
  session.settings = testing::tiny();
  session.settings.encodings = {"learned", "t5"};
  const Corpus corpus = load_corpus(session.settings);
  for (const std::string& encoding : session.settings.encodings) {
    TrainingRun run(session.settings, corpus, encoding, 1);
    while (!run.trained()) run.train_step();
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& one : run.transformer()->parameters()) one.fill_(NAN);
    }
    RunResult found = run.summary();
    found.unfinished = false;
    found.tests = *run.model().evaluate([] { return false; });
    run.model().describe(found);
    session.runs.push_back(found);
  }
  const Results results = assemble_results(session, corpus);
  EXPECT_TRUE(all_diverged(results)) << terminal_summary(results, Colour::never);
  write_report(folder.path(), results);
  const io::MappedFile page(folder / "index.html");
  EXPECT_EQ(shown_number(visible(std::string(page.text()))), "");
  EXPECT_EQ(shown_number(terminal_summary(results, Colour::never)), "");
}

}  // namespace diverged_test
}  // namespace gnomon::lab
