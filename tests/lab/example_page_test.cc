// The page of tasks with examples, from invented scores: its claims about noise, about scores
// that are not finite, and by depth.
#include "apps/lab/report/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/results.h"
#include "gnomon/io/file.h"
#include "io/temporary.h"

namespace gnomon::lab {
namespace example_page_test {

// Each example of each seed is right with a probability. Two encodings.
template <typename Share>
Results results_of(const char* task, Share&& share) {
  Results results;
  Settings& s = results.settings;
  s.task = &find_task(task);
  s.encodings = {"rotary", "alibi"};
  s.train_length = 16;
  s.eval_lengths = {16, 32};
  s.steps = 600;
  s.seeds = {1, 2, 3};
  results.runs_asked = 6;
  results.metric = {std::string(s.task->score), std::string(s.task->what), "a guess"};
  Draws draws{1};
  for (const std::int64_t seed : s.seeds)
    for (const std::string& encoding : s.encodings) {
      RunResult& run = results.runs.emplace_back();
      run.encoding = encoding, run.seed = seed, run.steps = s.steps;
      run.specification = {{"kind", encoding}};
      run.curve = {{240, 1, 1}, {480, 1, 1}, {600, 1, 1}};
      run.tests.stretches = length_stretches(s);
      for (Stretch& one : run.tests.stretches) {
        one.applicable = true, one.examples = 96, one.bits = 1;
        const Chance chance = s.task->letters.chance(one.to);
        one.chance_score = chance.whole, one.chance_second = chance.byte;
        for (std::int64_t i = 0; i < one.examples; ++i)
          for (auto* list : {&one.scores, &one.seconds})
            list->push_back(static_cast<double>(draws.below(1000)) <
                                    1000 * share(encoding, i, list == &one.seconds, chance)
                                ? 1
                                : 0);
        one.score = mean(one.scores), one.second = mean(one.seconds);
      }
    }
  return results;
}

std::string page_of(const Results& results) {
  const testing::TemporaryFolder folder;
  write_report(folder.path(), results);
  std::string html(io::MappedFile(folder / "index.html").text());
  for (const auto& [begin, end] : {std::pair{"<script", "</script>"}, {"<style", "</style>"}})
    for (std::size_t at = 0; (at = html.find(begin, at)) != html.npos;)
      html.erase(at, html.find(end, at) - at);
  return html;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

constexpr const char* names[] = {"flipflop", "count", "needle"};

TEST(ExamplePage, AdvisesNothingOnNoise) {
  for (const char* name : names) {
    Results results = results_of(
        name, [](const std::string&, std::int64_t, bool second, const Chance& chance) {
          return second ? chance.byte : chance.whole;
        });
    compare_encodings(results);
    EXPECT_TRUE(results.recommendations.empty()) << name;
    ASSERT_FALSE(results.answer.empty());
    EXPECT_EQ(results.answer[0].rfind("No advice: no encoding is trained enough.", 0), 0u)
        << name << results.answer[0];
    const std::string page = page_of(results);
    EXPECT_TRUE(has(page, "as in training, not above chance")) << name;
    for (const char* claim : {"is better", "is worse", "recommended"})
      EXPECT_FALSE(has(page, claim)) << name << claim;
  }
}

// An encoding that reads all bits, also far ones, and one that guesses the far ones.
TEST(ExamplePage, SaysWhatIsReadFarAway) {
  Results results = results_of(
      "flipflop", [](const std::string& encoding, std::int64_t, bool second, const Chance&) {
        return encoding == "rotary" && second ? 0.5 : 1;
      });
  compare_encodings(results);
  const std::string page = page_of(results);
  EXPECT_TRUE(has(page,
                  "Right reads with few writes at 5 to 16 instructions (by chance 50 %): "
                  "ALiBi (100 %) and Rotary (RoPE) (4") ||
              has(page, "ALiBi (100 %) and Rotary (RoPE) (5"))
      << page.substr(0, 3000);
  EXPECT_TRUE(has(page, "Right reads with few writes by instructions"));
}

TEST(ExamplePage, ShowsNoNumberThatIsNotFinite) {
  for (const char* name : names)
    for (const double bad : {NAN, INFINITY}) {
      Results results = results_of(
          name, [](const std::string&, std::int64_t, bool, const Chance&) { return 1; });
      Stretch& one = results.runs[0].tests.stretches[1];
      one.bits = bad, one.score = bad, one.scores[1] = bad;
      compare_encodings(results);
      EXPECT_EQ(results.encodings[0].training, Training::diverged);
      const std::string page = page_of(results);
      EXPECT_TRUE(has(page, "diverged"));
      for (const char* number : {">nan", " nan", "(nan", ">inf", " inf ", "(inf"})
        EXPECT_FALSE(has(page, number)) << name << number;
    }
}

// Every third of four depths is not found.
TEST(ExamplePage, ComparesDepths) {
  Results results = results_of("needle", [](const std::string&, std::int64_t i, bool,
                                            const Chance&) { return i % 4 == 2 ? 0 : 1; });
  compare_encodings(results);
  const plot::Table table = depth_table(results);
  ASSERT_EQ(table.rows.size(), 8u);
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(table.rows[row][0].text, "Rotary (RoPE)");
    EXPECT_EQ(table.rows[row][1].text,
              std::to_string(25 * row) + " to " + std::to_string(25 * row + 25));
    for (std::size_t range = 2; range < 4; ++range)
      EXPECT_EQ(table.rows[row][range].text.rfind(row == 2 ? "0.0 (0 to " : "100.0 (", 0), 0u)
          << table.rows[row][range].text;
  }
  EXPECT_TRUE(has(page_of(results), "by the depth of the answer in the prompt"));
  EXPECT_EQ(to_json(results)["encodings"][0]["depths"].size(), 4u);
  results = results_of("count",
                       [](const std::string&, std::int64_t, bool, const Chance&) { return 1; });
  compare_encodings(results);
  EXPECT_TRUE(depth_table(results).rows.empty());
  EXPECT_FALSE(to_json(results)["encodings"][0].contains("depths"));
}

}  // namespace example_page_test
}  // namespace gnomon::lab
