#include "apps/lab/tasks/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "apps/lab/data/batches.h"

namespace gnomon::lab {
namespace tasks_test {

const Task* const with_examples[] = {&copy_task, &reverse_task, &addition_task, &recall_task};

std::string answer_of(const Example& one) {
  std::string answer;
  for (std::size_t i = 0; i < one.bytes.size(); ++i)
    if (one.answer[i]) answer += one.bytes[i];
  return answer;
}
std::string prompt_of(const Example& one) { return one.bytes.substr(0, one.bytes.find('>')); }

// The answer to a prompt. For recall: with the keys in the order of the prompt.
std::string right_answer(const Task& task, const Example& one) {
  const std::string prompt = prompt_of(one);
  if (&task == &copy_task) return prompt + '.';
  if (&task == &reverse_task) return std::string(prompt.rbegin(), prompt.rend()) + '.';
  if (&task == &addition_task) {
    const std::size_t n = prompt.size() / 2;
    EXPECT_EQ(prompt[n], '+');
    const auto value = [](std::string digits) {
      std::reverse(digits.begin(), digits.end());
      return std::stoll(digits);
    };
    std::string sum = std::to_string(value(prompt.substr(0, n)) + value(prompt.substr(n + 1)));
    sum.insert(0, n + 1 - sum.size(), '0');
    return std::string(sum.rbegin(), sum.rend()) + '.';
  }
  std::map<char, char> pairs;
  for (std::size_t i = 0; i < prompt.size(); i += 2) {
    EXPECT_TRUE(pairs.emplace(prompt[i], prompt[i + 1]).second) << "a key twice";
    EXPECT_TRUE(prompt[i + 1] >= 'a' && prompt[i + 1] <= 'z');
    EXPECT_LT(prompt[i], 0) << "a key that is a letter";
  }
  std::string answer;
  std::set<char> asked;
  for (std::size_t i = prompt.size() + 1; i < one.bytes.size(); i += 2) {
    EXPECT_TRUE(asked.insert(one.bytes[i]).second);
    answer += pairs.at(one.bytes[i]);
  }
  EXPECT_EQ(asked.size(), pairs.size());
  return answer;
}

TEST(Example, HasTheAnswerThatItsPromptAsksFor) {
  for (const Task* task : with_examples)
    for (const std::int64_t length : {1, 2, 3, 7, 17})
      for (std::uint64_t number = 0; number < 50; ++number) {
        const Example one = example(*task, length, Part::train, 1, number);
        EXPECT_EQ(static_cast<std::int64_t>(one.bytes.size()), task->letters.bytes(length));
        ASSERT_EQ(one.answer.size(), one.bytes.size());
        EXPECT_EQ(answer_of(one), right_answer(*task, one)) << one.bytes;
      }
}

TEST(Example, IsAFunctionOfItsArguments) {
  for (const Task* task : with_examples) {
    const Example one = example(*task, 12, Part::train, 1, 5);
    EXPECT_EQ(one.bytes, example(*task, 12, Part::train, 1, 5).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::train, 2, 5).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::train, 1, 6).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::test, 1, 5).bytes);
  }
}

TEST(Example, NoPromptThatTrainsTests) {
  for (const Task* task : with_examples)
    for (const std::int64_t length : {1, 2, 3}) {
      std::set<std::string> parts[3];
      for (std::uint64_t number = 0; number < 2000; ++number)
        for (const Part part : {Part::train, Part::validation, Part::test})
          parts[static_cast<int>(part) - 1].insert(
              prompt_of(example(*task, length, part, 3, number)));
      for (const std::string& prompt : parts[0]) {
        EXPECT_EQ(parts[1].count(prompt), 0u);
        EXPECT_EQ(parts[2].count(prompt), 0u);
      }
    }
}

// Measures the best guess without reading the prompt: the most frequent byte at each place of
// the answer over many examples, and the most frequent whole answer.
TEST(Chance, IsWhatTheBestGuesserReaches) {
  constexpr int rounds = 40000;
  for (const Task* task : with_examples)
    for (const std::int64_t length : {2, 5}) {
      std::mt19937_64 random(7);
      std::vector<std::map<char, int>> at;
      std::map<std::string, int> whole;
      for (int i = 0; i < rounds; ++i) {
        const std::string answer = answer_of(example(*task, length, Part::train, 9, random()));
        at.resize(answer.size());
        for (std::size_t p = 0; p < answer.size(); ++p) ++at[p][answer[p]];
        ++whole[answer];
      }
      double right = 0;
      for (const auto& counts : at)
        right += std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
                   return a.second < b.second;
                 })->second;
      const Chance by_chance = task->letters.chance(length);
      // The largest of 26 counts is about 2 deviations above their mean.
      EXPECT_NEAR(right / rounds / static_cast<double>(at.size()), by_chance.byte, 0.01)
          << task->name;
      if (length > 2) continue;
      const int most = std::max_element(whole.begin(), whole.end(), [](auto& a, auto& b) {
                         return a.second < b.second;
                       })->second;
      EXPECT_NEAR(static_cast<double>(most) / rounds, by_chance.whole,
                  0.6 * by_chance.whole + 4 * std::sqrt(by_chance.whole / rounds));
    }
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
    find_task("sort");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "[lab] --task must be one of text, masked, copy, reverse, addition, recall, "
                 "translation, dialogue, image, image-text, graph, classify, got sort");
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
