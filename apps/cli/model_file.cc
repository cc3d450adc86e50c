#include "apps/cli/model_file.h"

#include <filesystem>

#include "apps/cli/arguments.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/gguf_model.h"

namespace gnomon::cli {

namespace fs = std::filesystem;

model::ModelDescription read_model(const std::string& path, const std::string& yarn_factor,
                                   const std::string& part) {
  const auto factor =
      parse_name<model::YarnFactor>("yarn-factor",
                                    {{"as-written", model::YarnFactor::as_written},
                                     {"by-lengths", model::YarnFactor::by_lengths}},
                                    yarn_factor);
  const fs::path file =
      fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
  const io::MappedFile mapped(file);
  if (mapped.text().starts_with("GGUF")) {
    if (!part.empty()) refuse("inspect", "a GGUF file has no --part", part);
    return model::read_gguf(model::Gguf(mapped.bytes(), mapped.name()));
  }
  return model::read_config(mapped.text(),
                            {.name = file.string(), .yarn_factor = factor, .part = part});
}

}  // namespace gnomon::cli
