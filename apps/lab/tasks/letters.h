// What the tasks with texts of letters share. In each of them the prompt determines the answer,
// so a reader that knows the rule has 1 in every score.
//
// Letters: n the length of an example.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/tasks/tasks.h"

namespace gnomon::lab::letters {

constexpr std::int64_t alphabet = 26;
constexpr char separator = '>', end = '.';

inline std::string letters_of(std::int64_t count, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i)
    text += static_cast<char>('a' + draws.below(alphabet));
  return text;
}

inline std::string digits_of(std::int64_t count, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += static_cast<char>('0' + draws.below(10));
  return text;
}

// Moves `count` of the elements, chosen without replacement, to the front in a random order
// (Fisher and Yates).
template <typename T>
void shuffle(std::vector<T>& from, std::size_t count, Draws& draws) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + static_cast<std::size_t>(
                                    draws.below(static_cast<std::int64_t>(from.size() - i)))]);
}

// The prompt, with its last byte that is not the answer, and the answer.
inline Example asked(const std::string& prompt, const std::string& answer) {
  Example one{prompt + answer, std::vector<bool>(prompt.size(), false)};
  one.answer.resize(one.bytes.size(), true);
  return one;
}

// The chance of a task whose answers have one byte.
constexpr Chance one_byte(double share) { return {share, share}; }

// Sets the scores of a task of letters.
constexpr Task with_scores(Task task) {
  task.score = "right whole answers";
  task.second = "right bytes";
  task.what =
      "the share of unseen examples whose answer is right in every byte, the result of "
      "greedy decoding; also the share of right bytes, each predicted after the right "
      "previous bytes";
  task.chance = "the best guess that knows the length but not the prompt";
  return task;
}
// The same for answers of one byte.
constexpr Task with_score(Task task) {
  task.score = "right answers";
  task.what = "the share of unseen examples whose answer is right";
  task.chance = "the best guess that knows the length but not the prompt";
  return task;
}

}  // namespace gnomon::lab::letters
