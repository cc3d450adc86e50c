// What the tasks with texts of letters share. In each of them the prompt determines the answer,
// so a reader that knows the rule has 1 in every score.
//
// Letters: n the length of an example.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "apps/lab/tasks/tasks.h"

namespace gnomon::lab::letters {

constexpr std::string_view small_letters = "abcdefghijklmnopqrstuvwxyz", digits = "0123456789";
constexpr std::int64_t alphabet = std::ssize(small_letters);
constexpr std::string_view letter_suffixes = "random,drope";
constexpr char separator = '>', end = '.';

inline std::string random_text(std::string_view characters, std::int64_t count, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += draws.one_of(characters);
  return text;
}

// The prompt, with its last byte that is not the answer, and the answer.
inline Example asked(const std::string& prompt, const std::string& answer) {
  Example one{prompt + answer, std::vector<bool>(prompt.size(), false)};
  one.answer.resize(one.bytes.size(), true);
  return one;
}

// The chance of a task whose answers have one byte.
constexpr Chance one_byte(double share) { return {share, share}; }

template <std::int64_t train_length, std::int64_t batch, std::int64_t... times>
TaskDefaults defaults_of() {
  return {train_length, batch, 4, {times...}, default_encodings, 2, 64, 4, 4e-3};
}

// A task of letters whose answers have one byte.
constexpr Task with_score(std::string_view name, std::string_view title,
                          std::string_view summary, std::string_view unit,
                          TaskDefaults (*defaults)(), const Letters& letters,
                          std::int64_t shortest = 1,
                          std::string_view trained_on = "examples of 1 to ") {
  return {.name = name,
          .title = title,
          .summary = summary,
          .unit = unit,
          .score = "right answers",
          .what = "the share of unseen examples whose answer is right",
          .chance = "the best guess that knows the length but not the prompt",
          .trained_on = trained_on,
          .suffixes = letter_suffixes,
          .defaults = defaults,
          .letters = letters,
          .shortest = shortest};
}
// A task of letters with longer answers.
constexpr Task with_scores(std::string_view name, std::string_view title,
                           std::string_view summary, std::string_view unit,
                           TaskDefaults (*defaults)(), const Letters& letters) {
  Task task = with_score(name, title, summary, unit, defaults, letters);
  task.score = "right whole answers";
  task.second = "right bytes";
  task.what =
      "the share of unseen examples whose answer is right in every byte, the result of "
      "greedy decoding; also the share of right bytes, each predicted after the right "
      "previous bytes";
  return task;
}

}  // namespace gnomon::lab::letters
