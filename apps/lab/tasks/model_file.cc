#include "apps/lab/tasks/model_file.h"

#include <fmt/format.h>

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/version.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {
namespace {

constexpr const char* config_name = "config.json";
constexpr const char* weights_name = "model.safetensors";
constexpr const char* tokenizer_name = "tokenizer.model";

std::string file_bytes(const std::filesystem::path& path) {
  const io::MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

io::Array::Shape shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }

void check_shape(const io::SafeTensors& file, const std::string& name,
                 const io::Array::Shape& shape) {
  const io::TensorEntry* entry = file.find(name);
  if (!entry) refuse("model", file.name() + " must have the tensor " + name, "none");
  if (entry->shape != shape || entry->dtype != "F32")
    refuse("model",
           fmt::format("{} in {} must be F32 {}", name, file.name(), io::to_string(shape)),
           entry->dtype + " " + io::to_string(entry->shape));
}

}  // namespace

void save_model(const std::filesystem::path& folder, Transformer& model,
                const RunResult& result, const Settings& settings, const Tokenizer* tokenizer) {
  save_weights(folder, *model);
  if (tokenizer) io::write_atomically(folder / tokenizer_name, tokenizer->serialized());
  Settings portable = settings;
  portable.device = "cpu";
  portable.encodings = {split_size(result.encoding).name};
  io::write_atomically(
      folder / config_name,
      to_json(ModelConfig{.model_type = "gnomon-lab",
                          .gnomon = GNOMON_VERSION,
                          .encoding = portable.encodings[0],
                          .seed = result.seed,
                          .position = model::internal::json_of(model->scheme()),
                          .settings = portable,
                          .lengths = result.tests.lengths})
              .dump(1) +
          "\n");
}

TrainedModel load_model(const std::filesystem::path& folder) {
  TrainedModel trained{read_model_config(folder / config_name)};
  const ModelConfig& config = trained.config;
  const Settings& s = config.settings;
  const io::SafeTensors file(folder / weights_name);
  // Checked before the model is allocated: a config cannot ask for more memory than its file.
  check_shape(file, "embedding.weight", {vocabulary(s), s.width});
  for (std::int64_t layer = 0; layer < s.layers; ++layer)
    check_shape(file, fmt::format("block{}.feed_in.weight", layer), {4 * s.width, s.width});
  trained.model = transformer_for(s, find_candidate(config.encoding),
                                  s.task->window_tokens(s.train_length), config.seed);
  if (Json(model::internal::json_of(trained.model->scheme())) != config.position)
    refuse("model",
           (folder / config_name).string() + " must have the position of " + config.encoding +
               " in this version of the library",
           config.position.dump().substr(0, 200));
  if (parse_tokens(s.tokens)) {
    trained.tokenizer = Tokenizer::load(file_bytes(folder / tokenizer_name));
    if (trained.tokenizer->size() != vocabulary(s))
      refuse("model",
             fmt::format("{} must have {} tokens", (folder / tokenizer_name).string(),
                         vocabulary(s)),
             trained.tokenizer->size());
  }
  const at::NoGradGuard no_grad;
  for (auto& item : trained.model->named_parameters()) {
    check_shape(file, item.key(), shape_of(item.value()));
    const io::Array array = file.tensor(item.key());
    item.value().copy_(
        at::from_blob(const_cast<std::byte*>(array.bytes().data()), array.shape(), at::kFloat));
  }
  return trained;
}

}  // namespace gnomon::lab
