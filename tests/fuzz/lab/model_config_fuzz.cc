// Reader: apps/lab/data/run_json.h
#include "apps/lab/tasks/stored.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace model_config_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const MemoryFile file(text(bytes));
    const lab::ModelConfig config = lab::read_model_config(file.path());
    const MemoryFile again(lab::to_json(config).dump());
    require(lab::to_json(lab::read_model_config(again.path())) == lab::to_json(config));
  });
}

const Register registered("model_config", read);

}  // namespace model_config_fuzz
}  // namespace gnomon::fuzz
