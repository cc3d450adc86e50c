#include "apps/cli/model_file.h"

#include <filesystem>

#include "apps/cli/arguments.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"

namespace gnomon::cli {

namespace fs = std::filesystem;

model::ModelDescription read_model(const std::string& path, const std::string& yarn_factor) {
  const auto factor =
      parse_name<model::YarnFactor>("yarn-factor",
                                    {{"as-written", model::YarnFactor::as_written},
                                     {"by-lengths", model::YarnFactor::by_lengths}},
                                    yarn_factor);
  const fs::path file =
      fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
  const io::MappedFile mapped(file);
  return model::read_config(mapped.text(), {.name = file.string(), .yarn_factor = factor});
}

}  // namespace gnomon::cli
