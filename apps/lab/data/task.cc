#include "apps/lab/data/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/lab/data/lists.h"
#include "gnomon/error.h"

namespace gnomon::lab {

Part part_of(std::string_view prompt) {
  const std::uint64_t sixteenth = hash_of(prompt) % 16;
  return sixteenth == 0 ? Part::test : sixteenth == 1 ? Part::validation : Part::train;
}

const Task& find_task(std::string_view name) {
  for (const Task* one : tasks())
    if (one->name == name) return *one;
  refuse("lab",
         fmt::format("--task must be one of {}", fmt::join(mapped(tasks(), &Task::name), ", ")),
         name);
}

std::string task_list() {
  std::string lines;
  for (const Task* one : tasks()) lines += fmt::format("{:<15}{}\n", one->name, one->summary);
  return lines;
}

std::string_view length_unit(const Settings& settings) {
  if (settings.tokens != "bytes" || !settings.finetune.empty()) return "tokens";
  return settings.task->unit;
}

std::string_view position_unit(const Settings& settings) {
  return settings.task->has_examples() ? "tokens" : length_unit(settings);
}

std::string_view entry_noun(const Settings& settings) {
  return settings.finetune.empty() ? "encoding" : "model";
}

Example example(const Task& task, std::int64_t length, Part part, std::uint64_t seed,
                std::uint64_t number, const Drawn& drawn) {
  if (!task.letters.draw) refuse("lab", "the task must have examples of letters", task.name);
  Draws draws{seed, task.letters.stream, static_cast<std::uint64_t>(length), number};
  // One in sixteen prompts belongs to the smallest part, and each part has a prompt.
  for (;;) {
    Example one = drawn.depth     ? task.letters.depths.draw(length, *drawn.depth, draws)
                  : drawn.shifted ? task.letters.shifted.draw(length, draws)
                                  : task.letters.draw(length, draws);
    std::string prompt;
    for (std::size_t i = 0; i < one.bytes.size() && one.bytes[i] != '>'; ++i)
      if (!one.answer[i]) prompt += one.bytes[i];
    if (part_of(prompt) == part) return one;
  }
}

void check_portable(const Settings& settings, std::string_view use) {
  if (!settings.finetune.empty())
    refuse("lab", fmt::format("{} must be without --finetune", use), "both");
  if (!settings.task->model) return;
  std::vector<std::string_view> names;
  for (const Task* one : tasks())
    if (!one->model) names.push_back(one->name);
  refuse("lab", fmt::format("{} requires --task {}", use, fmt::join(names, ", ")),
         settings.task->name);
}

std::int64_t training_window(const Settings& settings) {
  if (!settings.finetune.empty() && !settings.extend.empty()) return settings.longest();
  return settings.task->window_tokens(settings.train_length);
}

std::vector<Stretch> length_stretches(const Settings& settings) {
  if (const auto own = settings.task->stretches) return own(settings);
  const std::int64_t width = std::max<std::int64_t>(1, settings.train_length / 4);
  std::vector<Stretch> all;
  std::int64_t from = settings.task->shortest;
  for (const std::int64_t length : settings.eval_lengths)
    while (from <= length) {
      all.push_back({from, std::min(length, from + width - 1), length});
      from = all.back().to + 1;
    }
  return all;
}

}  // namespace gnomon::lab
