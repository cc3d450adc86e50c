#include "apps/lab/tasks/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/lab/data/batches.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"
#include "lab/letters.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace tasks_test {

using testing::answer_of;
using testing::with_letters;

// Measures the best guess without reading the prompt: the byte at each place of the answer that
// adds most to the share of right bytes over many examples, and the most frequent whole answer.
TEST(Chance, IsWhatTheBestGuesserReaches) {
  constexpr int rounds = 20000;
  for (const Task* task : with_letters())
    for (const std::int64_t length : {2, 5}) {
      const std::int64_t from = std::max(length, task->shortest);
      Draws draws{7};  // of all parts
      std::vector<std::map<char, double>> at;
      std::map<std::string, int> whole;
      for (int i = 0; i < rounds; ++i) {
        const std::string answer = answer_of(task->letters.draw(from, draws));
        if (at.size() < answer.size()) at.resize(answer.size());
        for (std::size_t p = 0; p < answer.size(); ++p)
          at[p][answer[p]] += 1.0 / static_cast<double>(answer.size());
        ++whole[answer];
      }
      double right = 0;
      for (const auto& shares : at)
        right += std::max_element(shares.begin(), shares.end(), [](auto& a, auto& b) {
                   return a.second < b.second;
                 })->second;
      const Chance by_chance = task->letters.chance(from);
      // The largest of 26 counts is about 2 deviations above their mean.
      EXPECT_NEAR(right / rounds, by_chance.byte, 0.01) << task->name << " " << from;
      if (task->letters.shifted.draw) continue;     // counts single answers
      if (by_chance.whole * rounds < 20) continue;  // the most frequent of rare answers
      const int most = std::max_element(whole.begin(), whole.end(), [](auto& a, auto& b) {
                         return a.second < b.second;
                       })->second;
      EXPECT_NEAR(
          static_cast<double>(most) / rounds, by_chance.whole,
          std::min(0.6 * by_chance.whole, 0.02) + 4 * std::sqrt(by_chance.whole / rounds))
          << task->name;
    }
}

// Every list of three characters, and every polynomial of one term.
TEST(Chance, OfAllPrompts) {
  constexpr int characters = 50;
  std::map<int, int> at[3];
  for (int a = 0; a < characters; ++a)
    for (int b = 0; b < characters; ++b)
      for (int c = 0; c < characters; ++c) {
        ++at[0][std::min({a, b, c})];
        ++at[1][std::max(std::min(a, b), std::min(std::max(a, b), c))];
        ++at[2][std::max({a, b, c})];
      }
  double right = 1;
  for (const auto& counts : at) {
    int most = 0;
    for (const auto& [value, count] : counts) most = std::max(most, count);
    right += most / std::pow(characters, 3);
  }
  EXPECT_NEAR(sort_task.letters.chance(3).byte, right / 4, 1e-12);
  EXPECT_NEAR(sort_task.letters.chance(3).whole, 6 / std::pow(characters, 3), 1e-15);
  // With more items than characters, two of 51 are equal.
  EXPECT_NEAR(sort_task.letters.chance(51).whole /
                  std::exp(std::lgamma(52) - 51 * std::log(characters)),
              0.5, 1e-9);

  std::map<int, int> values;
  for (int x = -2; x <= 2; ++x)
    for (int c = -3; c <= 3; ++c)
      for (int d = 0; d < 4; ++d)
        ++values[(c * static_cast<int>(std::pow(x, d)) % 10 + 10) % 10];
  int most = 0;
  for (const auto& [value, count] : values) most = std::max(most, count);
  EXPECT_NEAR(polynomial_task.letters.chance(1).whole, most / 140.0, 1e-12);
}

TEST(Chance, OfCommandsAndExpressionsByHand) {
  // 48 actions: two actions around a side thrice, in two orders: 8 x 8 x 2 commands, of which
  // two have each answer. Sides and actions alternate.
  EXPECT_DOUBLE_EQ(scan_task.letters.chance(48).whole, 1.0 / 64);
  EXPECT_DOUBLE_EQ(scan_task.letters.chance(48).byte, (24 * 0.5 + 24 * 0.25 + 1) / 49);
  // One function: six in ten keep a string of one letter or remove another one.
  EXPECT_NEAR(pcfg_task.letters.chance(1).whole, 0.6 / 4 / 26, 1e-12);
}

// Every program of two instructions: of 7 kinds, half of them pass.
TEST(Chance, OfAllProgramsOfTwoInstructions) {
  std::map<std::string, double> whole, first;
  const std::pair<std::string, double> kinds[] = {
      {"..", 1.0 / 2},  {"a+", 2.0 / 15}, {"a0", 1.0 / 30}, {"b+", 2.0 / 15},
      {"b0", 1.0 / 30}, {"c+", 2.0 / 15}, {"c0", 1.0 / 30}};
  for (const auto& [x, of_x] : kinds)
    for (const auto& [y, of_y] : kinds) {
      std::map<char, int> value;
      for (const std::string& one : {x, y})
        value[one[0]] = one[1] == '+' ? value[one[0]] + 1 : 0;
      std::string counts;
      for (const char name : {'a', 'b', 'c'}) counts += static_cast<char>('0' + value[name]);
      whole[counts] += of_x * of_y;
      first[counts.substr(0, 1)] += of_x * of_y;
    }
  EXPECT_NEAR(count_task.letters.chance(2).whole, whole["000"], 1e-12);
  EXPECT_NEAR(count_task.letters.chance(2).byte, first["0"], 1e-12);
}

TEST(Chance, OfAllSumsOfTwoDigits) {
  std::map<int, int> sums;
  double carries = 0;
  for (int a = 0; a < 100; ++a)
    for (int b = 0; b < 100; ++b) {
      ++sums[a + b];
      carries += a + b >= 100;
    }
  int most = 0;
  for (const auto& [sum, count] : sums) most = std::max(most, count);
  const Chance by_chance = addition_task.letters.chance(2);
  EXPECT_DOUBLE_EQ(by_chance.whole, most / 1e4);
  EXPECT_DOUBLE_EQ(by_chance.byte, (0.1 + 0.1 + (1 - carries / 1e4) + 1) / 4);
}

TEST(FindTask, ListsTheNames) {
  EXPECT_EQ(&find_task("recall"), &recall_task);
  try {
    find_task("sorting");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "[lab] --task must be one of text, masked, copy, copy-ascii, copy-repeated, "
        "reverse, addition, recall, sum, polynomial, parity, lego, sort, sort-numbers, "
        "scan, pcfg, needle, variables, flipflop, count, translation, dialogue, image, "
        "image-text, graph, classify, got sorting");
  }
}

TEST(TaskList, HasALineForEachTask) {
  const std::string list = task_list();
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), std::ssize(tasks()));
  EXPECT_NE(list.find("\nscan           a command in words, then its actions\n"),
            std::string::npos);
}

// In training, tests and samples.
TEST(SequenceModel, TakesEveryTaskOfLetters) {
  Settings settings = testing::tiny();
  settings.eval_segments = 1;
  settings.encodings = {"learned", "t5@random"};
  const Corpus corpus;
  for (const Task* task : with_letters()) {
    settings.task = task;
    settings.train_length = std::max<std::int64_t>(4, task->shortest);
    settings.eval_lengths = {settings.train_length, 2 * settings.train_length};
    check_settings(settings);
    for (const std::string& name : settings.encodings) {
      const auto model = make_model(settings, corpus, name, 1);
      const LossSum sum = model->loss(Part::train, 1, 0, {0, settings.batch});
      EXPECT_GT(sum.targets, 0);
      EXPECT_TRUE(std::isfinite(sum.nats.item<double>())) << task->name;
      const auto tests = model->evaluate([] { return false; });
      for (const Stretch& one : tests->stretches) {
        EXPECT_TRUE(one.applicable || name == "learned") << task->name;
        EXPECT_EQ(one.chance_score > 0, one.applicable) << task->name;
      }
      RunResult result;
      model->describe(result);
      ASSERT_FALSE(result.samples.empty()) << task->name;
      EXPECT_FALSE(result.samples[0].text.empty()) << task->name;
      EXPECT_EQ(result.samples[0].context, settings.train_length);
    }
    settings.train_length = task->shortest - 1;
    settings.eval_lengths = {settings.train_length};
    EXPECT_THROW(check_settings(settings), std::invalid_argument);
  }
}

TEST(BatchOf, AsksForTheAnswerAlone) {
  const Batch batch = batch_of({{"ab>ab.", {false, false, false, true, true, true}},
                                {"c>c.", {false, false, true, true}}});
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{2, 5}));
  const std::int64_t u = uncounted;
  EXPECT_TRUE(batch.inputs.equal(
      at::tensor({'a', 'b', '>', 'a', 'b', 'c', '>', 'c', '\0', '\0'}, at::kLong)
          .view({2, 5})));
  EXPECT_TRUE(batch.targets.equal(
      at::tensor({u, u, std::int64_t{'a'}, std::int64_t{'b'}, std::int64_t{'.'}, u,
                  std::int64_t{'c'}, std::int64_t{'.'}, u, u},
                 at::kLong)
          .view({2, 5})));
}

TEST(SumOfLosses, CountsWhatCounts) {
  const at::Tensor logits = at::randn({2, 3, 256}),
                   targets = at::tensor({1, -1, 5, -1, -1, 9}, at::kLong);
  const at::Tensor loss = sum_of_losses(logits, targets.view({2, 3}));
  const at::Tensor log = at::log_softmax(logits.view({6, 256}), 1);
  const double expected =
      -(log[0][1].item<double>() + log[2][5].item<double>() + log[5][9].item<double>());
  EXPECT_NEAR(loss.item<double>(), expected, 1e-5);
}

}  // namespace tasks_test
}  // namespace gnomon::lab
