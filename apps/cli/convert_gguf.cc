#include "apps/cli/convert_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/gguf.h"
#include "gnomon/model/gguf_conversion.h"
#include "src/core/text.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;
using gnomon::internal::printable;

void check_output(const GgufConvertOptions& o) {
  const std::string& out = o.output.path;
  if (out.empty()) {
    if (o.dry_run) return;
    refuse("convert", "-o or --dry-run must be given", "neither");
  }
  check_ending(o.output, {".gguf"});
  if (fs::exists(fs::symlink_status(out))) refuse("convert", "OUT must not exist", out);
}

std::optional<model::GgufElement> element_of(const std::string& type) {
  if (type.empty()) return std::nullopt;
  return type == "f32"   ? model::GgufElement::f32
         : type == "f16" ? model::GgufElement::f16
                         : model::GgufElement::bf16;
}

std::string type_of(const model::GgufTensorShape& tensor) {
  return std::string(model::gguf_tensor_type(static_cast<std::uint32_t>(tensor.element)));
}

Json report(const GgufConvertOptions& o, const model::GgufConversion& conversion) {
  Json tensors = Json::array();
  for (const model::GgufTensorShape& tensor : conversion.header.tensors)
    tensors.push_back(
        {{"name", tensor.name}, {"type", type_of(tensor)}, {"extents", tensor.extents}});
  return {{"in", o.in},
          {"out", o.dry_run ? Json() : Json(o.output.path)},
          {"to", "gguf"},
          {"family", conversion.model_type},
          {"architecture", std::get<std::string>(conversion.header.metadata[0].second)},
          {"bytes", conversion.bytes()},
          {"tensors", tensors},
          {"notes", conversion.notes}};
}

void print_report(const GgufConvertOptions& o, const model::GgufConversion& conversion) {
  const auto& tensors = conversion.header.tensors;
  if (o.dry_run) {
    std::size_t widest = 6;
    for (const auto& tensor : tensors) widest = std::max(widest, tensor.name.size());
    fmt::print("{:<{}}  type  extents, innermost first\n", "tensor", widest);
    for (const auto& tensor : tensors)
      fmt::print("{:<{}}  {:<4}  {}\n", tensor.name, widest, type_of(tensor),
                 io::to_string(tensor.extents));
  }
  fmt::print("{}: architecture {}; {} keys, {} tensors {}, {:.1f} MB\n",
             printable(conversion.model_type),
             std::get<std::string>(conversion.header.metadata[0].second),
             conversion.header.metadata.size(), tensors.size(),
             o.dry_run ? "would be written" : "written",
             static_cast<double>(conversion.bytes()) * 1e-6);
  for (const std::string& note : conversion.notes) fmt::print("note: {}\n", printable(note));
}

}  // namespace

int run_convert_to_gguf(const GgufConvertOptions& o) {
  check_output(o);
  if (!fs::is_directory(o.in)) refuse("convert", "MODEL must be a folder", o.in);
  const io::Checkpoint checkpoint(o.in);
  const io::MappedFile config(checkpoint.folder() / "config.json");
  const auto optional_file = [&](const char* name) -> std::optional<io::MappedFile> {
    const fs::path path = checkpoint.folder() / name;
    if (!fs::exists(path)) return std::nullopt;
    return io::MappedFile(path);
  };
  const auto text_of = [](const std::optional<io::MappedFile>& file) {
    return file ? file->text() : std::string_view();
  };
  const auto tokenizer = optional_file("tokenizer.json");
  const auto tokenizer_config = optional_file("tokenizer_config.json");
  const auto chat_template = optional_file("chat_template.jinja");
  const auto tensors = model::tensors_of(checkpoint);
  const model::GgufConversion conversion =
      model::plan_gguf(config.text(), tensors,
                       {.name = config.name(),
                        .title = fs::absolute(o.in).lexically_normal().filename().string(),
                        .element = element_of(o.type),
                        .tokenizer = {.tokenizer = text_of(tokenizer),
                                      .tokenizer_config = text_of(tokenizer_config),
                                      .chat_template = text_of(chat_template)}});
  if (!o.dry_run)
    io::write_atomically(o.output.path, [&](io::Output& out) {
      model::write_gguf(conversion, checkpoint, out);
    });
  if (o.output.json)
    print_json(report(o, conversion));
  else
    print_report(o, conversion);
  return 0;
}

}  // namespace gnomon::cli
