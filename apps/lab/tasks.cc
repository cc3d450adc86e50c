#include "apps/lab/tasks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/lab/draws.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

TaskDefaults text_defaults() { return {128, 16, 1, {2, 4, 8}, default_encodings}; }
// Examples are a third as long as a window of text, and more steps are required.
TaskDefaults letters_defaults() { return {20, 48, 4, {2, 4}, default_encodings}; }

constexpr TaskInfo text{.task = Task::text,
                        .name = "text",
                        .title = "Text",
                        .summary = "each byte of a text from the previous bytes",
                        .unit = "bytes",
                        .defaults = text_defaults};
constexpr TaskInfo masked{.task = Task::masked,
                          .name = "masked",
                          .title = "Masked text",
                          .summary = "the masked bytes of a text from the bytes on both sides",
                          .unit = "bytes",
                          .defaults = text_defaults};

template <Task task>
std::int64_t letters_tokens(std::int64_t length) {
  return example_bytes(task, length) - 1;
}
template <Task task>
constexpr TaskInfo of_letters(std::string_view name, std::string_view title,
                              std::string_view summary, std::string_view unit) {
  return {.task = task,
          .name = name,
          .title = title,
          .summary = summary,
          .unit = unit,
          .score = "right whole answers",
          .second = "right bytes",
          .what =
              "the share of unseen examples whose answer is right in every byte, the result of "
              "greedy decoding; also the share of right bytes, each predicted after the right "
              "previous bytes",
          .chance = "the best guess that knows the length but not the prompt",
          .defaults = letters_defaults,
          .tokens = letters_tokens<task>};
}
constexpr TaskInfo copy =
    of_letters<Task::copy>("copy", "Copy", "letters, then the same letters", "letters");
constexpr TaskInfo reversed = of_letters<Task::reverse>(
    "reverse", "Reverse", "letters, then the same letters in reverse order", "letters");
constexpr TaskInfo addition = of_letters<Task::addition>(
    "addition", "Addition", "two numbers, then their sum, least digit first", "digits");
constexpr TaskInfo recalled = of_letters<Task::recall>(
    "recall", "Associative recall", "pairs of a key and a letter, then the letter of each key",
    "pairs");

constexpr const TaskInfo* list[] = {&text,
                                    &masked,
                                    &copy,
                                    &reversed,
                                    &addition,
                                    &recalled,
                                    &translation_task_info,
                                    &dialogue_task_info,
                                    &image_task_info,
                                    &image_text_task_info,
                                    &graph_task_info,
                                    &classify_task_info};

constexpr std::int64_t letters = 26, keys = 128;
constexpr char separator = '>', end = '.';

char letter(Draws& draws) { return static_cast<char>('a' + draws.below(letters)); }

std::string number_of(std::int64_t digits, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < digits; ++i) text += static_cast<char>('0' + draws.below(10));
  return text;
}

// Both numbers have the least digit first and the same length. The sum has one more digit.
std::string sum_of(const std::string& a, const std::string& b) {
  std::string sum;
  int carry = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int digit = (a[i] - '0') + (b[i] - '0') + carry;
    sum += static_cast<char>('0' + digit % 10);
    carry = digit / 10;
  }
  return sum + static_cast<char>('0' + carry);
}

// The first `count` characters of `from` in a random order (Fisher and Yates).
template <typename T>
void shuffle(std::vector<T>& from, std::size_t count, Draws& draws) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + static_cast<std::size_t>(
                                    draws.below(static_cast<std::int64_t>(from.size() - i)))]);
}

Example asked(std::string prompt, const std::string& answer) {
  Example one{std::move(prompt) + separator, {}};
  one.answer.assign(one.bytes.size(), false);
  one.bytes += answer + end;
  one.answer.resize(one.bytes.size(), true);
  return one;
}

Example recall(std::size_t pairs, Draws& draws) {
  // The keys are the bytes that are not letters.
  std::vector<char> key(keys), value;
  std::iota(key.begin(), key.end(), static_cast<char>(-128));
  shuffle(key, pairs, draws);
  Example one;
  for (std::size_t i = 0; i < pairs; ++i) {
    value.push_back(letter(draws));
    one.bytes += {key[i], value[i]};
  }
  one.bytes += separator;
  one.answer.assign(one.bytes.size(), false);
  std::vector<std::size_t> order(pairs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, pairs, draws);
  for (const std::size_t i : order) {
    one.bytes += {key[i], value[i]};
    one.answer.insert(one.answer.end(), {false, true});
  }
  return one;
}

Example drawn(Task task, std::int64_t length, Draws& draws) {
  const auto count = static_cast<std::size_t>(length);
  if (task == Task::recall) return recall(count, draws);
  if (task == Task::addition) {
    const std::string a = number_of(length, draws), b = number_of(length, draws);
    return asked(a + '+' + b, sum_of(a, b));
  }
  std::string prompt;
  for (std::size_t i = 0; i < count; ++i) prompt += letter(draws);
  return asked(prompt,
               task == Task::copy ? prompt : std::string(prompt.rbegin(), prompt.rend()));
}

// The FNV-1a hash of the text before the separator decides the part of a prompt: of sixteen
// values, one tests, one validates, and the others train.
Part part_of(const Example& one) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : one.bytes) {
    if (c == separator) break;
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  const std::uint64_t sixteenth = mixed(hash) % 16;
  return sixteenth == 0 ? Part::test : sixteenth == 1 ? Part::validation : Part::train;
}

}  // namespace

std::span<const TaskInfo* const> tasks() { return list; }

const TaskInfo& find_task(std::string_view name) {
  std::string names;
  for (const TaskInfo* one : list) {
    if (one->name == name) return *one;
    names += (names.empty() ? "" : ", ") + std::string(one->name);
  }
  refuse("lab", "--task must be one of " + names, name);
}

std::string_view length_unit(const Settings& settings) {
  if (settings.tokens != "bytes" || !settings.finetune.empty()) return "tokens";
  return find_task(settings.task).unit;
}

std::string_view position_unit(const Settings& settings) {
  return has_examples(task_of(settings)) ? "tokens" : length_unit(settings);
}

std::string_view entry_noun(const Settings& settings) {
  return settings.finetune.empty() ? "encoding" : "model";
}

bool has_examples(Task task) { return task != Task::text && task != Task::masked; }

Example example(Task task, std::int64_t length, Part part, std::uint64_t seed,
                std::uint64_t number) {
  Draws draws{seed, static_cast<std::uint64_t>(task), static_cast<std::uint64_t>(length),
              number};
  // One in sixteen prompts belongs to the smallest part. The shortest prompts have 26 possible
  // values.
  for (;;) {
    Example one = drawn(task, length, draws);
    if (part_of(one) == part) return one;
  }
}

std::int64_t example_bytes(Task task, std::int64_t length) {
  switch (task) {
    case Task::copy:
    case Task::reverse:
      return 2 * length + 2;
    case Task::addition:
      return 3 * length + 4;
    case Task::recall:
      return 4 * length + 1;
    default:
      refuse("lab", "the task must have examples", find_task("text").name);
  }
}

std::optional<std::int64_t> longest_example(Task task) {
  if (task == Task::recall) return keys;
  return std::nullopt;
}

Chance chance(Task task, std::int64_t length) {
  const auto n = static_cast<double>(length);
  switch (task) {
    case Task::copy:
    case Task::reverse:  // the end sign is certain
      return {(n / letters + 1) / (n + 1), std::pow(letters, -n)};
    case Task::addition:
      // Each digit of a sum of uniform numbers is uniform. The last carry is 0 in slightly more
      // than half of the cases. The most likely sum, 99...9, has 10^n of 10^2n cases.
      return {(n / 10 + 0.5 + 0.5 * std::pow(10, -n) + 1) / (n + 2), std::pow(10, -n)};
    case Task::recall:
      return {1.0 / letters, std::pow(letters, -n)};
    default:
      refuse("lab", "the task must have examples", find_task("text").name);
  }
}

std::int64_t window_tokens(Task task, std::int64_t length) {
  for (const TaskInfo* one : list)
    if (one->task == task && one->tokens) return one->tokens(length);
  return length;
}

std::int64_t training_window(const Settings& settings) {
  if (!settings.finetune.empty() && !settings.extend.empty()) return settings.longest();
  return window_tokens(task_of(settings), settings.train_length);
}

std::vector<Stretch> length_stretches(const Settings& settings) {
  if (const auto own = find_task(settings.task).stretches) return own(settings);
  const std::int64_t width = std::max<std::int64_t>(1, settings.train_length / 4);
  std::vector<Stretch> all;
  std::int64_t from = find_task(settings.task).shortest;
  for (const std::int64_t length : settings.eval_lengths)
    while (from <= length) {
      all.push_back({from, std::min(length, from + width - 1), length});
      from = all.back().to + 1;
    }
  return all;
}

}  // namespace gnomon::lab
