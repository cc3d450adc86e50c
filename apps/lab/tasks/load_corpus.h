// The data of a session.
#pragma once

#include <string>

#include "apps/lab/data/corpus.h"

namespace gnomon::lab {

// The texts of the settings (load_texts), the data of other tasks, and nothing for a task with
// letters. `tokenizer`: empty, or of SentencePiece for --tokens bpe. Throws
// std::invalid_argument as load_texts.
Corpus load_corpus(const Settings& settings, const std::string& tokenizer = {});

}  // namespace gnomon::lab
