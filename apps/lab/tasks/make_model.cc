#include "apps/lab/tasks/make_model.h"

#include "apps/lab/data/model_size.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/finetune.h"
#include "apps/lab/tasks/sequence_model.h"

namespace gnomon::lab {

std::unique_ptr<TaskModel> make_model(const Settings& session, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed) {
  require_trainable(encoding);
  if (!session.finetune.empty())
    return std::make_unique<finetune::Model>(session, corpus, encoding);
  const Settings settings = sized(session, encoding);
  const Task& task = *settings.task;
  if (task.model) return task.model(settings, corpus, encoding, seed);
  Candidate candidate = find_candidate(encoding);
  Transformer model =
      transformer_for(settings, candidate, task.window_tokens(settings.train_length), seed);
  return std::make_unique<SequenceModel>(settings, corpus, std::move(candidate),
                                         std::move(model));
}

std::optional<std::string> unusable(const std::string& name, const Settings& settings,
                                    const Corpus& corpus) {
  if (is_own(name)) return std::nullopt;
  try {
    const at::NoGradGuard no_grad;
    make_model(settings, corpus, name, 1)->loss(Part::train, 1, 0, {0, 1});
    return std::nullopt;
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace gnomon::lab
