// gnomon.resize_table.
#include "gnomon/embedding/resize.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

TableResize preset_of(const std::string& name) {
  constexpr Choice<int> presets[] = {{"vit", 1},
                                     {"deit", 2},
                                     {"clip", 1},
                                     {"dinov2", 1},
                                     {"glm4v", 0},
                                     {"dinov2-original", 3},
                                     {"dinov2-registers", 4},
                                     {"siglip2", 5},
                                     {"qwen3-vl", 6},
                                     {"linear", 7}};
  switch (const int number = chosen("resize", "preset", name, presets)) {
    case 3:
      return resize_dinov2_original();
    case 4:
      return resize_dinov2_registers();
    case 5:
      return resize_siglip2();
    case 6:
      return resize_qwen3_vl();
    case 7:
      return resize_linear();
    default:
      return resize_vit(number);
  }
}

// A number of rows, or (height, width).
struct Size {
  GridSize grid = {.height = 0, .width = 1};
  bool is_line = true;
};
Size size_of(const char* name, nb::handle object) {
  if (const auto rows = count_of("resize", name, object)) return {.grid = {*rows, 1}};
  const std::vector<std::int64_t> size = integers("resize", name, object).values;
  if (size.size() != 2)
    refuse("resize", std::string(name) + " must be a number of rows or (height, width)",
           std::to_string(size.size()) + " numbers");
  return {.grid = {size[0], size[1]}, .is_line = false};
}

// Without a given size: a line if the result is one, else a square.
Size old_size(nb::handle given, const Size& to, std::int64_t cells) {
  if (given.is_none() && to.is_line) return {.grid = {cells, 1}};
  if (given.is_none()) {
    const auto side =
        static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(cells))));
    if (cells < 1 || side * side != cells)
      refuse("resize", "size must be given, since the rows are not those of a square", cells);
    return {.grid = {side, side}, .is_line = false};
  }
  const Size size = size_of("size", given);
  if (size.is_line != to.is_line)
    refuse("resize", "size and to must both be numbers of rows, or both (height, width)",
           "one of each");
  return size;
}

template <typename T>
std::vector<T> resized(const TableResize& resize, const View<const T, 2>& table,
                       const Size& from, const Size& to, std::int64_t rows) {
  std::vector<T> values(
      internal::checked_size("resize", "rows x width", {rows, table.extent(1)}));
  const View<T, 2> out(values.data(), {rows, table.extent(1)});
  const ReleasedGil released;
  if (to.is_line)
    resize_table(resize, table, out);
  else
    resize_table(resize, table, from.grid, out, to.grid);
  return values;
}

nb::object resize_of(nb::handle table, nb::handle to, nb::handle size,
                     const std::optional<std::string>& preset,
                     const std::optional<std::string>& kernel,
                     const std::optional<std::string>& corners, const std::string& antialias,
                     std::optional<std::int64_t> extra_rows, double size_offset) {
  TableResize resize;
  if (preset) {
    if (kernel || corners)
      refuse("resize", "preset must be given alone", "kernel or corners too");
    resize = preset_of(*preset);
  } else {
    if (!kernel || !corners)
      refuse("resize", "preset, or kernel and corners, must be given", "neither");
    constexpr Choice<ResizeKernel> kernels[] = {{"linear", ResizeKernel::linear},
                                                {"cubic", ResizeKernel::cubic}};
    constexpr Choice<ResizeCorners> places[] = {{"half-pixel", ResizeCorners::half_pixel},
                                                {"aligned", ResizeCorners::aligned}};
    constexpr Choice<Antialias> filters[] = {{"off", Antialias::off}, {"on", Antialias::on}};
    resize.kernel = chosen("resize", "kernel", *kernel, kernels);
    resize.corners = chosen("resize", "corners", *corners, places);
    resize.antialias = chosen("resize", "antialias", antialias, filters);
    resize.size_offset = size_offset;
  }
  resize.extra_rows = extra_rows.value_or(resize.extra_rows);
  const Array array("resize", "table", table, Array::Access::read);
  internal::check_tensor({"resize", "table"}, array.tensor(), 2);
  const std::int64_t width = array.tensor().shape[1];
  const Size target = size_of("to", to);
  if (target.grid.height < 1 || target.grid.width < 1 || resize.extra_rows < 0)
    refuse("resize", "to must be at least 1, and extra_rows at least 0",
           std::min({target.grid.height, target.grid.width, resize.extra_rows}));
  const Size source = old_size(size, target, array.tensor().shape[0] - resize.extra_rows);
  const std::int64_t cells = internal::checked_product("resize", "height x width",
                                                       {target.grid.height, target.grid.width});
  const std::int64_t rows = internal::checked_sum("resize", "extra_rows + height x width",
                                                  {resize.extra_rows, cells});
  const std::vector<std::size_t> shape = {static_cast<std::size_t>(rows),
                                          static_cast<std::size_t>(width)};
  nb::object result;
  internal::by_type({"resize", "table"}, array.tensor(), [&]<typename T>(T) {
    const auto view = internal::read<T, 2>({"resize", "table"}, array.tensor());
    if constexpr (std::is_same_v<T, float>) {
      result = numpy(resized(resize, view, source, target, rows), shape);
    } else {  // computed in double, and rounded once
      std::vector<double> wide;
      for (std::ptrdiff_t row = 0; row < view.extent(0); ++row)
        for (std::ptrdiff_t c = 0; c < width; ++c) {
          if constexpr (std::is_same_v<T, double>)
            wide.push_back(view(row, c));
          else
            wide.push_back(static_cast<float>(view(row, c)));
        }
      result = numpy(
          resized<double>(resize, {wide.data(), {view.extent(0), width}}, source, target, rows),
          shape);
      if constexpr (std::is_same_v<T, Half>)
        result = result.attr("astype")("float16");
      else if constexpr (std::is_same_v<T, BFloat16>)
        result = result.attr("astype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    }
  });
  return result;
}

}  // namespace

void bind_resize(nb::module_& module) {
  module.def(
      "resize_table", &resize_of, nb::arg("table"), nb::arg("to"), nb::arg("size") = nb::none(),
      nb::kw_only(), nb::arg("preset") = nb::none(), nb::arg("kernel") = nb::none(),
      nb::arg("corners") = nb::none(), nb::arg("antialias") = "off",
      nb::arg("extra_rows") = nb::none(), nb::arg("size_offset") = 0.0,
      nb::sig(
          "def resize_table(table: Array, to: int | Sequence[int], size: int | Sequence[int] "
          "| None = None, *, preset: Resize | None = None, kernel: ResizeKernel | None = "
          "None, corners: ResizeCorners | None = None, antialias: Switch = 'off', "
          "extra_rows: int | None = None, size_offset: float = 0.0) -> "
          "numpy.typing.NDArray[Any]"),
      R"(Returns a learned table resampled to another length or grid, of its element type.

table: [N, C], float32, float64, float16 or bfloat16 (computed in double, rounded once).
to: rows, or (height, width). size: the present rows or grid; default: all rows, or a square.
preset: the method of a model, 'vit', 'deit', 'clip', 'dinov2', 'glm4v' (all cubic),
    'dinov2-original', 'dinov2-registers', 'siglip2', 'qwen3-vl', or 'linear' (one axis).
kernel, corners, antialias: without a preset; 'half-pixel' is align_corners=False.
extra_rows: rows before the grid that are copied (class token); default: that of the preset.

The values are those of torch.nn.functional.interpolate, with sums in double: error half an ulp
+ 2^-46 of the largest entry. Cost: O(rows C).)");
}

}  // namespace gnomon::python
