// `gnomon export`: the position encoding and attention of a layer as an ONNX model.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/model_file.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/onnx.h"

namespace gnomon::cli {
namespace {

constexpr const char* export_help = R"(Usage: gnomon export PATH [options] -o F.onnx

Writes the position encoding and the attention of a layer as an ONNX model
with the inputs q, k, v [B, T, heads x size] and positions [B, T]. Trained
parameters are inputs too.

  PATH              a folder with config.json, the file itself, or a .gguf;
                    - reads a config.json from the standard input
  --layer L         the layer (0)
  --part NAME       its part, if a model has several, as in inspect
  --operators NAME  onnx: operators of opset 23; microsoft: com.microsoft
  --length N        context length (default: the training length)
  --rows N          positions in tables (default: the length, at most 8192)
  --grid HxW        size of an image in patches, or FxHxW (as trained)
  --assume-pairing P  its pairing, if its family is not known
  --json            inputs, outputs and number of operators as JSON
  -o F.onnx

Example: gnomon export Qwen3-8B --layer 3 -o position.onnx
)";

struct ExportOptions {
  std::string path, part, grid, operators = "onnx", assume_pairing;
  std::int64_t layer = 0;
  std::optional<std::int64_t> length, rows;
  OutputOptions output;
};

Json values_json(const std::vector<model::OnnxValue>& values) {
  Json all = Json::array();
  for (const model::OnnxValue& one : values)
    all.push_back({{"name", one.name}, {"type", one.type}, {"shape", one.shape}});
  return all;
}

Json image_json(const std::optional<model::ImagePatches>& image) {
  if (!image) return nullptr;
  return {image->frames, image->height, image->width};
}

int run_export(const ExportOptions& o) {
  check_ending(o.output, {".onnx"});
  model::OnnxOptions options{.operators = parse_name<model::OnnxOperators>(
                                 "operators",
                                 {{"onnx", model::OnnxOperators::onnx},
                                  {"microsoft", model::OnnxOperators::microsoft}},
                                 o.operators),
                             .length = o.length.value_or(0),
                             .rows = o.rows.value_or(0)};
  if (!o.grid.empty()) {
    Integers extents = parse_extents(o.grid, 2, 3);
    if (extents.size() == 2) extents.insert(extents.begin(), 1);
    options.image =
        model::ImagePatches{.frames = extents[0], .height = extents[1], .width = extents[2]};
  }
  const model::ModelDescription described = read_model(o.path, {}, o.part, o.assume_pairing);
  const std::string part = part_of_groups(described);
  const model::OnnxModel onnx = model::to_onnx(described, o.layer, part, options);
  io::write_atomically(o.output.path, onnx.bytes);
  if (o.output.json)
    print_json({{"path", o.output.path},
                {"bytes", onnx.bytes.size()},
                {"image", image_json(onnx.image)},
                {"inputs", values_json(onnx.inputs)},
                {"outputs", values_json(onnx.outputs)},
                {"operators", onnx.operators}});
  return 0;
}

}  // namespace

Command export_command() {
  Command command("export", export_help);
  auto o = std::make_shared<ExportOptions>();
  command.required("PATH", &o->path).file();
  command.option("--layer", &o->layer).at_least(0);
  command.option("--part", &o->part);
  command.option("--operators", &o->operators).choices({"onnx", "microsoft"});
  command.option("--length", &o->length).at_least(1);
  command.option("--rows", &o->rows).at_least(1);
  command.option("--grid", &o->grid);
  command.option("--assume-pairing", &o->assume_pairing).choices({"halves", "adjacent"});
  command.flag("--json", &o->output.json);
  command.required("-o", &o->output.path);
  command.run = [o] { return run_export(*o); };
  return command;
}

}  // namespace gnomon::cli
