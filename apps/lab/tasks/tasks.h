// All tasks, for tasks().
#pragma once

#include "apps/lab/data/task.h"

namespace gnomon::lab {

extern const Task masked_task, copy_task, reverse_task, addition_task, recall_task,
    translation_task, dialogue_task, image_task, image_text_task, graph_task, classify_task;

}  // namespace gnomon::lab
