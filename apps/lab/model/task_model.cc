#include "apps/lab/model/task_model.h"

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/model/layers.h"
#include "gnomon/io/file.h"
#include "gnomon/io/safetensors.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {

std::int64_t TaskModel::parameter_count() { return lab::parameter_count(module()); }

std::int64_t TaskModel::position_parameter_count() {
  return lab::parameter_count(module(), "position");
}

Json json_of_scheme(const model::Scheme& scheme) {
  const model::Mixture& first = scheme.layers[0];
  const bool plain =
      first.size() == 1 && scheme == model::every_layer(first, std::ssize(scheme.layers));
  return plain ? model::internal::json_of(first[0]) : model::internal::json_of(scheme);
}

void save_weights(const std::filesystem::path& folder, const torch::nn::Module& module) {
  std::filesystem::create_directories(folder);
  std::vector<at::Tensor> kept;
  std::vector<io::NamedArray> tensors;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& weights =
        kept.emplace_back(item.value().detach().to(at::kCPU, at::kFloat).contiguous());
    tensors.push_back({item.key(), io::Array(io::Element::f32, weights.sizes().vec(),
                                             std::as_bytes(std::span(
                                                 weights.data_ptr<float>(),
                                                 static_cast<std::size_t>(weights.numel()))))});
  }
  io::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
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
