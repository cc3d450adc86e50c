#include "apps/lab/task_model.h"

#include "apps/lab/model_file.h"
#include "apps/lab/model_size.h"
#include "apps/lab/results_json.h"
#include "apps/lab/sequence_model.h"
#include "apps/lab/tasks/finetune.h"
#include "gnomon/io/file.h"

namespace gnomon::lab {

std::int64_t TaskModel::parameter_count() {
  std::int64_t count = 0;
  for (const at::Tensor& one : module().parameters()) count += one.numel();
  return count;
}

std::int64_t TaskModel::position_parameter_count() {
  std::int64_t count = 0;
  for (const auto& item : module().named_parameters())
    if (item.key().rfind("position", 0) == 0) count += item.value().numel();
  return count;
}

void TaskModel::save(const std::filesystem::path& folder, const RunResult& result) {
  save_weights(folder, module());
  Settings settings = settings_;
  settings.device = "cpu";
  settings.encodings = {split_size(result.encoding).name};
  io::write_atomically(folder / "config.json",
                       Json{{"model_type", "gnomon-lab-" + settings.task},
                            {"encoding", settings.encodings[0]},
                            {"seed", result.seed},
                            {"position", result.specification},
                            {"settings", to_json(settings)}}
                               .dump(1) +
                           "\n");
}

std::unique_ptr<TaskModel> make_model(const Settings& session, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed) {
  if (!session.finetune.empty())
    return std::make_unique<finetune::Model>(session, corpus, encoding);
  const Settings settings = sized(session, encoding);
  const TaskInfo& task = find_task(settings.task);
  if (task.model) return task.model(settings, corpus, encoding, seed);
  Candidate candidate = find_candidate(encoding);
  Transformer model = transformer_for(settings, candidate,
                                      window_tokens(task.task, settings.train_length), seed);
  return std::make_unique<SequenceModel>(settings, corpus, std::move(candidate),
                                         std::move(model));
}

}  // namespace gnomon::lab
