#include "apps/lab/model/task_model.h"

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/model/layers.h"
#include "gnomon/io/file.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {

Json json_of_scheme(const model::Scheme& scheme) {
  const model::Mixture& first = scheme.layers[0];
  const bool plain =
      first.size() == 1 && scheme == model::every_layer(first, std::ssize(scheme.layers));
  return plain ? model::internal::json_of(first[0]) : model::internal::json_of(scheme);
}

void write_tensors(const std::filesystem::path& path, NamedTensors tensors,
                   const io::Metadata& metadata) {
  std::vector<io::NamedArray> arrays;
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.detach().to(at::kCPU).contiguous();
    const io::Element element = tensor.scalar_type() == at::kLong     ? io::Element::i64
                                : tensor.scalar_type() == at::kDouble ? io::Element::f64
                                                                      : io::Element::f32;
    arrays.push_back(
        {name, io::Array(element, tensor.sizes().vec(),
                         {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()})});
  }
  io::write_safetensors(path, arrays, metadata);
}

void save_weights(const std::filesystem::path& folder, const torch::nn::Module& module) {
  std::filesystem::create_directories(folder);
  NamedTensors tensors;
  for (const auto& item : module.named_parameters())
    tensors.emplace_back(item.key(), item.value().detach().to(at::kFloat));
  write_tensors(folder / "model.safetensors", std::move(tensors), {{"format", "pt"}});
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
