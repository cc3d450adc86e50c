#include "apps/lab/tasks/tasks.h"

namespace gnomon::lab {
namespace {

TaskDefaults text_defaults() {
  return {128, 16, 1, {2, 4, 8}, default_encodings, 2, 64, 4, 8e-3};
}

constexpr const Task* all_tasks[] = {
    &text_task,        &masked_task,   &copy_task,      &copy_ascii_task,   &copy_repeated_task,
    &reverse_task,     &addition_task, &recall_task,    &sum_task,          &polynomial_task,
    &parity_task,      &lego_task,     &sort_task,      &sort_numbers_task, &scan_task,
    &pcfg_task,        &needle_task,   &variables_task, &flipflop_task,     &count_task,
    &translation_task, &dialogue_task, &image_task,     &image_text_task,   &graph_task,
    &classify_task};

}  // namespace

constexpr Task text_task{.name = "text",
                         .title = "Text",
                         .summary = "each byte of a text from the previous bytes",
                         .unit = "bytes",
                         .predicts = Predicts::next,
                         .suffixes = "random,memory,window,drope",
                         .defaults = text_defaults};
constexpr Task masked_task{.name = "masked",
                           .title = "Masked text",
                           .summary = "the masked bytes of a text from the bytes on both sides",
                           .unit = "bytes",
                           .predicts = Predicts::masked,
                           .suffixes = "random,drope",
                           .defaults = text_defaults};

std::span<const Task* const> tasks() { return all_tasks; }

}  // namespace gnomon::lab
