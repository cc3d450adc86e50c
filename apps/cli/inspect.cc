// `gnomon inspect`: what position encoding a released model uses, resolved.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/cli/command.h"
#include "apps/cli/model_file.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/model/description.h"

namespace gnomon::cli {
namespace {

constexpr const char* help = R"(Usage: gnomon inspect PATH [--length N] [--layer L] [options]

What a released model does with position: every number that its config or
GGUF file implies, resolved for a context length.

  PATH              a folder with config.json, the file itself, or a .gguf
  --length N        the context to resolve for (the model's trained one)
  --layer L         only the layer L
  --yarn-factor F   where a config has both: as-written (transformers of 2026)
                    or by-lengths (of 2025: the lengths' ratio wins)
  --json            all numbers as one JSON document
  -o FILE.html      pictures: wavelengths against the context, frequencies
                    before and after scaling, decay with distance

Example: gnomon inspect ~/models/Llama-3.1-8B --length 131072
)";

struct Options {
  std::string path, yarn_factor = "as-written";
  std::optional<std::int64_t> length, layer;
  OutputOptions output;
};

int run(const Options& o) {
  const model::ModelDescription model = read_model(o.path, o.yarn_factor);
  print_json(Json::parse(model::to_json(model, o.length)));
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  CLI::App* app = add_app(program, "inspect", help);
  auto o = std::make_shared<Options>();
  app->add_option("PATH", o->path)->required();
  app->add_option("--length", o->length);
  app->add_option("--layer", o->layer);
  app->add_option("--yarn-factor", o->yarn_factor);
  app->add_flag("--json", o->output.json);
  app->add_option("-o", o->output.path);
  return {app, help, [o] { return run(*o); }};
}

}  // namespace gnomon::cli
