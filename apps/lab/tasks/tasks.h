// All tasks, for tasks().
#pragma once

#include "apps/lab/data/task.h"

namespace gnomon::lab {

extern const Task masked_task, copy_task, copy_ascii_task, copy_repeated_task, reverse_task,
    addition_task, recall_task, sum_task, polynomial_task, parity_task, lego_task, sort_task,
    sort_numbers_task, scan_task, pcfg_task, needle_task, variables_task, flipflop_task,
    count_task, translation_task, dialogue_task, image_task, image_text_task, graph_task,
    classify_task;

}  // namespace gnomon::lab
