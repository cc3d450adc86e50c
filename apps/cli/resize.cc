// `gnomon resize`: resamples a learned table for another length or grid.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "gnomon/embedding/resize.h"
#include "gnomon/error.h"
#include "gnomon/io/npy.h"
#include "gnomon/io/safetensors.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

constexpr const char* resize_help =
    R"(Usage: gnomon resize IN --preset NAME --to SIZE [options] -o OUT

Resamples a learned table [N, C] or [1, N, C] of f64, f32, f16 or bf16. IN and
OUT are .npy files, or .safetensors files of which one tensor is replaced.

  --preset NAME     method of a model: vit, deit, clip, dinov2, glm4v (all
                    cubic), dinov2-original, dinov2-registers, siglip2,
                    qwen3-vl, or linear (one axis; tables of BEiT and SAM)
  --kernel NAME     without a preset: linear or cubic
  --corners NAME    half-pixel (align_corners=False) or aligned
  --antialias NAME  off or on
  --extra-rows N    rows before the grid that are copied (class token)
  --from SIZE       HxW, or N (default: a square if --to is HxW, else N)
  --to SIZE         HxW, or N
  --tensor NAME     tensor of a .safetensors (default: the only one)
  --json            the report as one JSON document
  -o OUT            a file with the extension of IN

Example: gnomon resize vit.npy --preset vit --to 24x24 -o vit-384.npy
)";

struct ResizeOptions {
  std::string in, preset, kernel, corners, antialias, from, to, tensor;
  std::optional<int64_t> extra_rows;
  OutputOptions output;
};

// A grid, or a line with `height` rows.
struct Size {
  GridSize grid;
  bool is_line = false;
};

Size parse_size(const std::string& text) {
  if (text.find('x') != std::string::npos) {
    const auto [height, width] = parse_grid(text);
    return {.grid = {.height = height, .width = width}};
  }
  const auto [height, width] = parse_grid(text + "x1");
  return {.grid = {.height = height, .width = width}, .is_line = true};
}

std::string to_text(const Size& size) {
  return size.is_line ? std::to_string(size.grid.height)
                      : fmt::format("{}x{}", size.grid.height, size.grid.width);
}

Names<TableResize> presets() {
  return {{"vit", resize_vit()},
          {"deit", resize_vit(2)},
          {"clip", resize_vit()},
          {"dinov2", resize_vit()},
          {"glm4v", resize_vit(0)},
          {"dinov2-original", resize_dinov2_original()},
          {"dinov2-registers", resize_dinov2_registers()},
          {"siglip2", resize_siglip2()},
          {"qwen3-vl", resize_qwen3_vl()},
          {"linear", resize_linear()}};
}

TableResize parse_resize(const ResizeOptions& o) {
  TableResize resize;
  if (!o.preset.empty()) {
    resize = parse_name("preset", presets(), o.preset);
  } else {
    if (o.kernel.empty() || o.corners.empty())
      refuse("resize", "--preset, or --kernel and --corners, must be given", "neither");
    resize.kernel = parse_name<ResizeKernel>(
        "kernel", {{"linear", ResizeKernel::linear}, {"cubic", ResizeKernel::cubic}}, o.kernel);
    resize.corners = parse_name<ResizeCorners>(
        "corners",
        {{"half-pixel", ResizeCorners::half_pixel}, {"aligned", ResizeCorners::aligned}},
        o.corners);
    resize.antialias =
        parse_name<Antialias>("antialias", {{"off", Antialias::off}, {"on", Antialias::on}},
                              o.antialias.empty() ? "off" : o.antialias);
  }
  resize.extra_rows = o.extra_rows.value_or(resize.extra_rows);
  return resize;
}

// The size of the table: --from if it is given; otherwise a line if --to is a line, and a
// square if --to is a grid.
Size old_size(const ResizeOptions& o, const Size& to, int64_t cells, int64_t rows,
              int64_t extra) {
  Size from{.grid = {.height = cells, .width = 1}, .is_line = true};
  if (!o.from.empty()) {
    from = parse_size(o.from);
  } else if (!to.is_line) {
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(cells))));
    if (cells < 1 || side * side != cells)
      refuse("resize",
             fmt::format("--from must be given if {} rows after {} extra rows are not a square",
                         rows - extra, extra),
             cells);
    from = {.grid = {.height = side, .width = side}};
  }
  if (from.is_line != to.is_line)
    refuse("resize", "--from and --to must both be HxW, or both N",
           to_text(from) + " and " + to_text(to));
  return from;
}

template <typename T>
io::Array rounded(const std::vector<double>& values, io::Element element,
                  const io::Array::Shape& shape) {
  auto owned = std::make_shared<std::vector<T>>();
  owned->reserve(values.size());
  for (const double value : values) owned->push_back(static_cast<T>(value));
  const auto bytes = std::as_bytes(std::span<const T>(*owned));
  return io::Array(element, shape, bytes, owned);
}

io::Array rounded_to(io::Element element, const std::vector<double>& values,
                     const io::Array::Shape& shape) {
  switch (element) {
    case io::Element::f64:
      return rounded<double>(values, element, shape);
    case io::Element::f32:
      return rounded<float>(values, element, shape);
    case io::Element::f16:
      return rounded<Half>(values, element, shape);
    case io::Element::bf16:
    case io::Element::u16:
      return rounded<BFloat16>(values, element, shape);
    default:
      refuse("resize", "elements must be f64, f32, f16 or bf16 (in .npy as u16)",
             name(element));
  }
}

std::vector<double> doubles_of(const io::Array& array) {
  if (array.element() == io::Element::u16) {  // `.npy` files of bfloat16 have this type
    std::vector<double> values;
    const auto count = static_cast<std::size_t>(array.size());
    const auto* bits = reinterpret_cast<const BFloat16*>(array.bytes().data());
    for (std::size_t i = 0; i < count; ++i)
      values.push_back(static_cast<double>(static_cast<float>(bits[i])));
    return values;
  }
  return array.to_doubles();
}

struct Resized {
  io::Array array;
  Size from, to;
};

Resized resize_array(const ResizeOptions& o, const io::Array& in) {
  rounded_to(in.element(), {}, {0});  // throws for other element types before the computation
  io::Array::Shape shape = in.shape();
  const std::size_t rank = shape.size();
  if (!(rank == 2 || (rank == 3 && shape[0] == 1)) || in.size() == 0)
    refuse("resize", "the table must be [N, C] or [1, N, C], not empty", io::to_string(shape));
  int64_t& rows = shape[rank - 2];
  const int64_t channels = shape[rank - 1];
  const TableResize resize = parse_resize(o);
  const Size to = parse_size(o.to);
  const int64_t old_rows = rows, extra = resize.extra_rows;
  const Size from = old_size(o, to, rows - extra, rows, extra);
  rows = extra + to.grid.height * to.grid.width;

  const std::vector<double> values = doubles_of(in);
  Tensor<double, 2> out({rows, channels});
  resize_table(resize, View<const double, 2>(values.data(), {old_rows, channels}), from.grid,
               out.view, to.grid);
  return {rounded_to(in.element(), out.values, shape), from, to};
}

std::string ending_of(const std::string& path) {
  for (const char* ending : {".npy", ".safetensors"})
    if (path.ends_with(ending)) return ending;
  refuse("resize", "IN must end in .npy or .safetensors", path);
}

int run_resize(const ResizeOptions& o) {
  const std::string ending = ending_of(o.in);
  check_ending(o.output, {ending});
  Resized resized;
  io::Array::Shape old;
  if (ending == ".npy") {
    if (!o.tensor.empty())
      refuse("resize", "--tensor must be given for .safetensors files only", o.tensor);
    const io::Array in = io::read_npy(o.in);
    old = in.shape();
    resized = resize_array(o, in);
    io::write_npy(o.output.path, resized.array);
  } else {
    const io::SafeTensors file(o.in);
    if (o.tensor.empty() && file.tensors().size() != 1)
      refuse("resize",
             fmt::format("--tensor must name one of {} tensors", file.tensors().size()),
             "none");
    const std::string chosen = o.tensor.empty() ? file.tensors()[0].name : o.tensor;
    const io::Array in = file.tensor(chosen);
    old = in.shape();
    resized = resize_array(o, in);
    std::vector<io::NamedArray> tensors;
    for (const io::TensorEntry& entry : file.tensors())
      tensors.push_back(
          {entry.name, entry.name == chosen ? resized.array : file.tensor(entry)});
    io::write_safetensors(o.output.path, tensors, file.metadata());
  }
  const std::string from = to_text(resized.from), to = to_text(resized.to);
  if (o.output.json)
    print_json({{"in", o.in},
                {"out", o.output.path},
                {"from", from},
                {"to", to},
                {"dtype", name(resized.array.element())},
                {"old_shape", old},
                {"shape", resized.array.shape()}});
  else
    fmt::print("{} to {}: {} {} to {}\n", from, to, name(resized.array.element()),
               io::to_string(old), io::to_string(resized.array.shape()));
  return 0;
}

}  // namespace

Command resize_command() {
  Command command("resize", resize_help);
  auto o = std::make_shared<ResizeOptions>();
  command.required("IN", &o->in).file();
  command.option("--preset", &o->preset).choices(names_of(presets()));
  command.option("--kernel", &o->kernel).choices({"linear", "cubic"}).not_with({"--preset"});
  command.option("--corners", &o->corners)
      .choices({"half-pixel", "aligned"})
      .not_with({"--preset"});
  command.option("--antialias", &o->antialias).choices({"off", "on"}).not_with({"--preset"});
  command.option("--extra-rows", &o->extra_rows).at_least(0);
  command.option("--from", &o->from);
  command.required("--to", &o->to);
  command.option("--tensor", &o->tensor);
  command.flag("--json", &o->output.json);
  command.required("-o", &o->output.path);
  command.run = [o] { return run_resize(*o); };
  return command;
}

}  // namespace gnomon::cli
