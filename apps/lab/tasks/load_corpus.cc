#include "apps/lab/tasks/load_corpus.h"

#include "apps/lab/data/task.h"
#include "apps/lab/tasks/finetune_config.h"

namespace gnomon::lab {

Corpus load_corpus(const Settings& settings, const std::string& tokenizer) {
  const Task& task = *settings.task;
  if (task.load) return task.load(settings);
  if (task.has_examples()) {
    Corpus none;
    none.source = "synthetic examples: " + std::string(task.summary);
    none.split =
        task.model
            ? "a separate random generator for each of the three parts"
            : "by a hash of the prompt: of sixteen prompts, fourteen train, one validates "
              "and one tests";
    return none;
  }
  Corpus corpus =
      load_texts(settings, tokenizer.empty() ? nullptr : Tokenizer::load(tokenizer));
  if (!settings.finetune.empty()) finetune::add_data(settings, corpus);
  return corpus;
}

}  // namespace gnomon::lab
