#include "apps/lab/model/task_model.h"

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/model/layers.h"
#include "gnomon/io/file.h"
#include "gnomon/torch/state.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {

Json json_of_scheme(const model::Scheme& scheme) {
  const model::Mixture& first = scheme.layers[0];
  const bool plain =
      first.size() == 1 && scheme == model::every_layer(first, std::ssize(scheme.layers));
  return plain ? model::internal::json_of(first[0]) : model::internal::json_of(scheme);
}

void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const io::Metadata& metadata) {
  std::vector<io::NamedArray> arrays;
  for (const auto& [name, tensor] : tensors)
    arrays.push_back({name, libtorch::to_array(tensor, name)});
  io::write_safetensors(path, arrays, metadata);
}

void save_weights(const std::filesystem::path& folder, const torch::nn::Module& module) {
  std::filesystem::create_directories(folder);
  NamedTensors tensors;
  for (const auto& item : module.named_parameters())
    tensors.emplace_back(item.key(), item.value().detach().to(at::kFloat));
  write_tensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void TaskModel::save(const std::filesystem::path& folder, const RunResult& result) {
  save_weights(folder, module());
  Settings settings = settings_;
  settings.device = "cpu";
  settings.encodings = {split_size(result.encoding).name};
  io::write_atomically(folder / "config.json",
                       Json{{"model_type", "gnomon-lab-" + std::string(settings.task->name)},
                            {"encoding", settings.encodings[0]},
                            {"seed", result.seed},
                            {"position", result.specification},
                            {"settings", to_json(settings)}}
                               .dump(1) +
                           "\n");
}

}  // namespace gnomon::lab
