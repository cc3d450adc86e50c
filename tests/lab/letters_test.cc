// Examples of the tasks with texts of letters, and their answers, computed from the prompts.
#include "apps/lab/tasks/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "apps/lab/data/batches.h"
#include "lab/letters.h"

namespace gnomon::lab {
namespace letters_test {

using testing::answer_of;
using testing::prompt_of;
using testing::with_letters;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string repeated(const std::string& prompt) {
  const std::string token = prompt.substr(0, 2);
  std::string all;
  while (all.size() < prompt.size()) all += token;
  return all + '.';
}

std::string sum_of_numbers(const std::string& prompt) {
  std::string text = prompt;
  std::reverse(text.begin(), text.end());
  const std::size_t n = text.size() / 2;
  EXPECT_EQ(text[n], '+');
  std::string sum =
      std::to_string(std::stoll(text.substr(0, n)) + std::stoll(text.substr(n + 1)));
  sum.insert(0, n + 1 - sum.size(), '0');
  return std::string(sum.rbegin(), sum.rend()) + '.';
}

std::string last_digit_of_sum(const std::string& prompt) {
  int sum = 0;
  for (const std::string& digit : split(prompt, '+')) {
    EXPECT_TRUE(digit.size() == 1 && digit != "0") << prompt;
    sum += std::stoi(digit);
  }
  return std::to_string(sum).substr(sum < 10 ? 0 : std::to_string(sum).size() - 1);
}

std::string value_of_polynomial(const std::string& prompt) {
  int x = 0, used = 0;
  EXPECT_EQ(std::sscanf(prompt.c_str(), "x=%d,%n", &x, &used), 1);
  EXPECT_LE(std::abs(x), 2);
  double sum = 0;
  for (const char* at = prompt.c_str() + used; *at; at += used) {
    int coefficient = 0, degree = 0;
    if (std::sscanf(at, "%dx%1d%n", &coefficient, &degree, &used) != 2) {
      ADD_FAILURE() << prompt;
      break;
    }
    EXPECT_TRUE(std::abs(coefficient) <= 3 && degree >= 0 && degree <= 3);
    sum += coefficient * std::pow(x, degree);
  }
  return std::to_string(std::lround(sum - 10 * std::floor(sum / 10)));
}

// Follows the clauses from the variable that is asked for back to the first one.
std::string sign_of_variable(const std::string& prompt) {
  std::map<char, std::pair<char, char>> clauses;
  const std::size_t question = prompt.find('?');
  for (const std::string& one : split(prompt.substr(0, question), ','))
    EXPECT_TRUE(one.size() == 4 && clauses.insert({one[0], {one[2], one[3]}}).second) << one;
  int minus = 0, steps = 0;
  for (char name = prompt.at(question + 1); name != '1'; ++steps) {
    const auto [sign, source] = clauses.at(name);
    minus += sign == '-';
    name = source;
  }
  EXPECT_GT(2 * steps, static_cast<int>(clauses.size())) << "not in the second half";
  return minus % 2 ? "-" : "+";
}

std::string sorted_characters(const std::string& prompt) {
  const std::multiset<char> all(prompt.begin(), prompt.end());
  return std::string(all.begin(), all.end()) + '.';
}

std::string sorted_numbers(const std::string& prompt) {
  std::multiset<int> all;
  for (const std::string& one : split(prompt, ',')) all.insert(std::stoi(one));
  EXPECT_GE(*all.begin(), 100);
  EXPECT_LE(*all.rbegin(), 999);
  std::string text;
  for (const int one : all) text += std::to_string(one) + ',';
  text.back() = '.';
  return text;
}

// The actions of words [begin, end), by the rules of Lake and Baroni 2018.
std::string actions_of(const std::vector<std::string>& words, std::size_t begin,
                       std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (words[i] == "and") return actions_of(words, begin, i) + actions_of(words, i + 1, end);
  for (std::size_t i = begin; i < end; ++i)
    if (words[i] == "after") return actions_of(words, i + 1, end) + actions_of(words, begin, i);
  const std::string& last = words[end - 1];
  if (last == "twice" || last == "thrice") {
    const std::string once = actions_of(words, begin, end - 1);
    return last == "twice" ? once + once : once + once + once;
  }
  static const std::map<std::string, std::string> known{
      {"walk", "W"}, {"look", "L"}, {"run", "R"},  {"jump", "J"},
      {"turn", ""},  {"left", "l"}, {"right", "r"}};
  const std::string action = known.at(words[begin]);
  if (end - begin == 1) return action;
  const std::string side = known.at(last);
  if (end - begin == 2) return side + action;
  if (words[begin + 1] == "opposite") return side + side + action;
  EXPECT_EQ(words[begin + 1], "around");
  return side + action + side + action + side + action + side + action;
}

// The value of the expression at `at`, which is moved behind it.
std::string value_of_expression(const std::string& text, std::size_t& at) {
  if (std::islower(static_cast<unsigned char>(text.at(at)))) {
    std::string letters;
    while (at < text.size() && std::islower(static_cast<unsigned char>(text[at])))
      letters += text[at++];
    return letters;
  }
  const char function = text[at++];
  const std::string x = value_of_expression(text, at);
  std::string y;
  if (std::string("AP12").find(function) != std::string::npos) {
    EXPECT_EQ(text.at(at), ',');
    y = value_of_expression(text, ++at);
  }
  const std::size_t n = x.size();
  if (function == 'C' || function == '2') return x;
  if (function == '1') return y;
  if (function == 'A') return x + y;
  if (function == 'P') return y + x;
  if (function == 'R') return {x.rbegin(), x.rend()};
  if (function == 'S') return x.substr(1) + x[0];
  if (function == 'T') return x + x;
  if (function == 'E') return x + x[n - 1];
  EXPECT_EQ(function, 'X');
  return n == 1 ? x : x[n - 1] + x.substr(1, n - 2) + x[0];
}
std::string value_of_expression(const std::string& prompt) {
  std::size_t at = 0;
  const std::string value = value_of_expression(prompt, at);
  EXPECT_EQ(at, prompt.size());
  EXPECT_LE(value.size(), 60u);
  return value + '.';
}

std::string value_of_key(const std::string& prompt) {
  const std::string key = prompt.substr(prompt.rfind('?') + 1);
  const std::size_t at = prompt.find(key);
  EXPECT_LT(at, prompt.rfind('?'));
  EXPECT_EQ(prompt.find(key, at + 1), prompt.rfind('?') + 1) << "a key twice";
  return prompt.substr(at + key.size(), 3);
}

// The names in the order of the text whose chain of assignments ends in the value.
std::string names_of_value(const std::string& prompt) {
  const std::size_t question = prompt.rfind('?');
  std::map<char, std::string> sources;
  std::string order, names;
  for (const std::string& word : split(prompt.substr(0, question), ' '))
    if (word.size() > 1 && word[1] == '=') {
      EXPECT_TRUE(sources.insert({word[0], word.substr(2)}).second) << "a name twice";
      order += word[0];
    }
  for (const char name : order) {
    std::string source(1, name);
    while (source.size() == 1) source = sources.at(source[0]);
    if (source == prompt.substr(question + 1)) names += name;
  }
  return names;
}

// The letters of the keys in the order in which they are asked for.
std::string recalled(const Example& one) {
  const std::string prompt = prompt_of(one);
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

// Executes the instructions of a prompt, in which a read has no bit.
std::string bits_read(const std::string& prompt) {
  EXPECT_EQ(prompt.front(), 'w');
  EXPECT_EQ(prompt.back(), 'r');
  std::string memory, read;
  for (std::size_t at = 0; at < prompt.size();) {
    const char instruction = prompt[at++];
    if (instruction == 'r') {
      read += memory;
      continue;
    }
    EXPECT_TRUE(prompt.at(at) == '0' || prompt[at] == '1') << prompt;
    if (instruction == 'w')
      memory = prompt[at];
    else
      EXPECT_EQ(instruction, 'i');
    ++at;
  }
  return read;
}

// Looks back from the end of the program for the last time that each variable was set.
std::string counts_of_variables(const Example& one) {
  const std::string prompt = prompt_of(one);
  std::string answer, asked;
  for (std::size_t i = prompt.size() + 1; i < one.bytes.size(); i += 2) {
    asked += one.bytes[i];
    int count = 0;
    for (std::size_t at = prompt.size(); at >= 2; at -= 2) {
      if (prompt[at - 2] != asked.back()) continue;
      if (prompt[at - 1] == '0') break;
      EXPECT_EQ(prompt[at - 1], '+');
      ++count;
    }
    EXPECT_LE(count, 9) << prompt;
    answer += static_cast<char>('0' + count);
  }
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, "abc");
  return answer;
}

std::string right_answer(const Task& task, const Example& one) {
  const std::string prompt = prompt_of(one);
  if (&task == &recall_task) return recalled(one);
  if (&task == &flipflop_task) return bits_read(prompt);
  if (&task == &count_task) return counts_of_variables(one);
  if (&task == &copy_task || &task == &copy_ascii_task) return prompt + '.';
  if (&task == &copy_repeated_task) return repeated(prompt);
  if (&task == &reverse_task) return std::string(prompt.rbegin(), prompt.rend()) + '.';
  if (&task == &addition_task) return sum_of_numbers(prompt);
  if (&task == &sum_task) return last_digit_of_sum(prompt);
  if (&task == &polynomial_task) return value_of_polynomial(prompt);
  if (&task == &parity_task)
    return std::count(prompt.begin(), prompt.end(), '1') % 2 ? "1" : "0";
  if (&task == &lego_task) return sign_of_variable(prompt);
  if (&task == &sort_task) return sorted_characters(prompt);
  if (&task == &sort_numbers_task) return sorted_numbers(prompt);
  if (&task == &scan_task) {
    const auto words = split(prompt, ' ');
    return actions_of(words, 0, words.size()) + '.';
  }
  if (&task == &pcfg_task) return value_of_expression(prompt);
  if (&task == &needle_task) return value_of_key(prompt);
  if (&task == &variables_task) return names_of_value(prompt);
  ADD_FAILURE() << "no oracle for " << task.name;
  return "";
}

TEST(Example, HasTheAnswerThatItsPromptAsksFor) {
  for (const Task* task : with_letters())
    for (const std::int64_t length : {1, 2, 3, 7, 17}) {
      if (length < task->shortest) continue;
      const bool varies = task == &scan_task || task == &pcfg_task;
      for (std::uint64_t number = 0; number < 50; ++number) {
        const Example one = example(*task, length, Part::train, 1, number);
        const std::int64_t most = task->letters.bytes(length);
        EXPECT_LE(std::ssize(one.bytes), most) << one.bytes;
        EXPECT_TRUE(varies || std::ssize(one.bytes) == most) << one.bytes;
        ASSERT_EQ(one.answer.size(), one.bytes.size());
        EXPECT_EQ(answer_of(one), right_answer(*task, one)) << task->name << " " << one.bytes;
        EXPECT_EQ(one.bytes.find('\0'), std::string::npos);
        if (!task->letters.shifted.draw) continue;
        const Example other = example(*task, length, Part::test, 1, number, {.shifted = true});
        EXPECT_EQ(answer_of(other), right_answer(*task, other)) << other.bytes;
        EXPECT_EQ(other.bytes.size(), one.bytes.size());
      }
      EXPECT_GE(task->letters.bytes(length + 1), task->letters.bytes(length));
    }
}

// A length counts what the table of docs/lab/length-tasks.md says.
TEST(Example, HasItsLength) {
  const auto count = [](const Example& one, const char* of) {
    const std::string prompt = prompt_of(one);
    return std::count_if(prompt.begin(), prompt.end(),
                         [&](char c) { return std::string(of).find(c) != std::string::npos; });
  };
  for (std::uint64_t number = 0; number < 50; ++number) {
    const auto of = [&](const Task& task) { return example(task, 9, Part::train, 2, number); };
    EXPECT_EQ(count(of(pcfg_task), "CRSXTEAP12"), 9);
    EXPECT_EQ(answer_of(of(scan_task)).size(), 9u + 1);
    EXPECT_EQ(count(of(lego_task), "="), 9);
    EXPECT_EQ(count(of(polynomial_task), "x"), 9 + 1);
    EXPECT_EQ(count(of(sum_task), "+"), 9 - 1);
    EXPECT_EQ(count(of(sort_numbers_task), ","), 9 - 1);
    EXPECT_EQ(prompt_of(of(copy_repeated_task)).size(), 2u * 9);
    EXPECT_EQ(count(of(needle_task), " "), 9 + 4);
    EXPECT_EQ(count(of(variables_task), " "), 9 + 6);
    EXPECT_EQ(count(of(flipflop_task), "wri"), 9);
    EXPECT_EQ(prompt_of(of(count_task)).size(), 2u * 9);
  }
  // A number of actions without a command: the next shorter one.
  EXPECT_EQ(answer_of(example(scan_task, 23, Part::test, 1, 1)).size(), 22u + 1);
  EXPECT_EQ(answer_of(example(scan_task, 47, Part::test, 1, 1)).size(), 40u + 1);
  EXPECT_EQ(answer_of(example(scan_task, 48, Part::test, 1, 1)).size(), 48u + 1);
}

// The depth of the answer in the text.
TEST(Example, HasItsNeedleAnywhere) {
  constexpr int rounds = 4000, words = 7;
  for (const Task* task : {&needle_task, &variables_task}) {
    std::map<std::int64_t, int> words_before;
    for (int i = 0; i < rounds; ++i) {
      const Example one = example(*task, words, Part::train, 3, static_cast<std::uint64_t>(i));
      const std::string prompt = prompt_of(one);
      const std::string asked =
          prompt.substr(prompt.rfind('?') + 1, task == &needle_task ? 3 : 4);
      const std::string before = prompt.substr(
          0, task == &needle_task ? prompt.find(asked) : prompt.find("=" + asked) - 1);
      std::int64_t count = 0;
      for (const std::string& word : split(before, ' '))
        count += word.size() == 3 && word[1] != '=';
      ++words_before[count];
    }
    ASSERT_EQ(words_before.size(), words + 1u);
    // The first of the three facts of a chain is at depth k of n with the density of the least
    // of three numbers.
    for (const auto& [count, times] : words_before) {
      const auto above = [&](double from) {
        return std::pow((words + 1 - from) / (words + 1), 3);
      };
      const auto k = static_cast<double>(count);
      const double share = task == &needle_task ? 1.0 / (words + 1) : above(k) - above(k + 1);
      EXPECT_NEAR(static_cast<double>(times) / rounds, share, 0.02) << task->name << count;
    }
  }
}

// A test asks for a fact in its quarter of the places, which are all equally likely.
TEST(Example, HasItsNeedleAtTheDepth) {
  constexpr std::int64_t words = 19, places = words + 1;
  const auto& depths = needle_task.letters.depths;
  ASSERT_EQ(depths.count, 4);
  std::map<std::int64_t, std::map<std::int64_t, int>> at;
  for (std::uint64_t i = 0; i < 500; ++i)
    for (std::int64_t depth = 0; depth < depths.count; ++depth) {
      const Example one = example(needle_task, words, Part::test, 4, i, {.depth = depth});
      const std::string prompt = prompt_of(one);
      EXPECT_EQ(answer_of(one), value_of_key(prompt));
      std::int64_t count = 0;
      for (const std::string& word :
           split(prompt.substr(0, prompt.find(prompt.substr(prompt.rfind('?') + 1))), ' '))
        count += word.size() == 3;
      ++at[depth][count];
    }
  for (const auto& [depth, counts] : at) {
    EXPECT_EQ(counts.size(), static_cast<std::size_t>(places / 4));
    for (const auto& [count, times] : counts) {
      EXPECT_EQ(count / (places / 4), depth);
      EXPECT_NEAR(times / 500.0, 4.0 / places, 0.08);
    }
  }
  // The tests of a stretch have each depth equally often.
  Settings settings;
  settings.task = &needle_task;
  settings.eval_segments = 4;
  const auto tests = test_examples(settings, {19, 19, 19, true, 8}, 0);
  EXPECT_EQ(tests[5].bytes,
            example(needle_task, 19, Part::test, test_seed, 5, {.depth = 1}).bytes);
}

// The share of instructions that are ignored, between the first and the last.
TEST(Example, OfAFlipFlopIgnores) {
  constexpr int rounds = 300, length = 52;
  for (const auto& [shifted, share] : {std::pair{false, 0.8}, {true, 0.98}}) {
    double ignored = 0;
    for (std::uint64_t i = 0; i < rounds; ++i)
      for (const char c :
           example(flipflop_task, length, Part::train, 5, i, {.shifted = shifted}).bytes)
        ignored += c == 'i';
    EXPECT_NEAR(ignored / (rounds * (length - 2)), share, 0.015);
  }
}

// example() would not return if a part had no prompt.
TEST(Example, HasAPromptInEachPart) {
  for (const Task* task : with_letters())
    for (std::int64_t length = task->shortest; length < task->shortest + 6; ++length)
      for (const Part part : {Part::train, Part::validation, Part::test})
        EXPECT_FALSE(example(*task, length, part, 1, 1).bytes.empty());
  for (std::int64_t length = 1; length <= 48; ++length)
    EXPECT_FALSE(example(scan_task, length, Part::test, 1, 1).bytes.empty());
}

TEST(Example, IsAFunctionOfItsArguments) {
  for (const Task* task : with_letters()) {
    const Example one = example(*task, 12, Part::train, 1, 5);
    EXPECT_EQ(one.bytes, example(*task, 12, Part::train, 1, 5).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::train, 2, 5).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::train, 1, 6).bytes);
    EXPECT_NE(one.bytes, example(*task, 12, Part::test, 1, 5).bytes);
  }
}

TEST(Example, NoPromptThatTrainsTests) {
  for (const Task* task : with_letters())
    for (const std::int64_t more : {0, 1, 2}) {
      const std::int64_t length = task->shortest + more;
      std::set<std::string> parts[3];
      for (std::uint64_t number = 0; number < 500; ++number)
        for (const Part part : {Part::train, Part::validation, Part::test})
          parts[static_cast<int>(part) - 1].insert(
              prompt_of(example(*task, length, part, 3, number)));
      for (const std::string& prompt : parts[0]) {
        EXPECT_EQ(parts[1].count(prompt), 0u);
        EXPECT_EQ(parts[2].count(prompt), 0u);
      }
    }
}

}  // namespace letters_test
}  // namespace gnomon::lab
