// The data of a session.
#pragma once

#include "apps/lab/data/corpus.h"

namespace gnomon::lab {

// The texts of the settings (load_texts), the data of other tasks, and nothing for a task with
// letters. Throws std::invalid_argument as load_texts.
Corpus load_corpus(const Settings& settings);

}  // namespace gnomon::lab
