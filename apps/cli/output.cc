#include "apps/cli/output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/command_line/terminal.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/io/npy.h"

namespace gnomon::cli {
namespace {

bool is_integer(io::Element element) {
  switch (element) {
    case io::Element::f64:
    case io::Element::f32:
    case io::Element::f16:
    case io::Element::bf16:
      return false;
    default:
      return true;
  }
}

// The values for text. Negative zeros are positive: a reader takes "-0" for a small number.
std::vector<double> values_of(const io::Array& array) {
  std::vector<double> values = array.to_doubles();
  for (double& value : values) value += 0.0;
  return values;
}

// A cell of a preview. A number that is rounded to zero has no sign.
std::string cell(io::Element element, double value) {
  if (is_integer(element)) return fmt::format("{:>7.0f}", value);
  return fmt::format("{:>10.5f}", std::abs(value) < 5e-6 ? 0.0 : value);
}

// The shortest text that reads back as the same element.
std::string number(io::Element element, double value) {
  if (is_integer(element)) return fmt::format("{:.0f}", value);
  return element == io::Element::f64 ? fmt::format("{}", value)
                                     : fmt::format("{}", static_cast<float>(value));
}

Json nested(const io::Array& array, const std::vector<double>& values, std::size_t axis,
            std::size_t& at) {
  if (axis == array.rank()) {
    const double value = values[at++];
    if (is_integer(array.element())) return static_cast<std::int64_t>(value);
    if (array.element() == io::Element::f64) return value;
    // The shortest text of the number: 0.1f is written as 0.1.
    return std::isfinite(value) ? Json(std::stod(number(array.element(), value))) : Json();
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < array.shape()[axis]; ++i)
    list.push_back(nested(array, values, axis + 1, at));
  return list;
}

Json as_json(const io::Array& array, Json facts) {
  facts["dtype"] = name(array.element());
  facts["shape"] = array.shape();
  std::size_t at = 0;
  facts["values"] = nested(array, values_of(array), 0, at);
  return facts;
}

void write_csv(io::Output& out, const io::Array& array) {
  const std::vector<double> values = values_of(array);
  const auto width = static_cast<std::size_t>(array.rank() ? array.shape().back() : 1);
  out.write("# shape " + io::to_string(array.shape()) + "\n");
  for (std::size_t at = 0; at < values.size(); ++at)
    out.write(number(array.element(), values[at]) + ((at + 1) % width ? "," : "\n"));
}

// The first rows and columns of the first matrices.
void preview(const io::Array& array, const Json& facts) {
  constexpr std::int64_t most_rows = 12, most_blocks = 2, ellipsis = 5;  // "  ..."
  const std::int64_t most_columns =
      (terminal_width() - ellipsis) / (is_integer(array.element()) ? 7 : 10);
  const std::vector<double> values = values_of(array);
  const auto& shape = array.shape();
  const std::int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  const std::int64_t blocks = columns > 0 && rows > 0 ? array.size() / (columns * rows) : 0;
  fmt::print("{} {} {}\n", facts.value("kind", "array"), name(array.element()),
             io::to_string(shape));
  for (std::int64_t b = 0; b < std::min(blocks, most_blocks); ++b) {
    if (blocks > 1) fmt::print("[{}]\n", b);
    for (std::int64_t r = 0; r < std::min(rows, most_rows); ++r) {
      for (std::int64_t c = 0; c < std::min(columns, most_columns); ++c) {
        const auto at = static_cast<std::size_t>((b * rows + r) * columns + c);
        fmt::print("{}", cell(array.element(), values[at]));
      }
      fmt::print("{}\n", columns > most_columns ? "  ..." : "");
    }
    if (rows > most_rows) fmt::print("       ...\n");
  }
  fmt::print("(-o FILE.npy, .csv or .json writes the whole array)\n");
}

}  // namespace

void check_ending(const OutputOptions& output, const std::vector<std::string>& endings) {
  if (output.path.empty()) return;
  const std::string ending = std::filesystem::path(output.path).extension().string();
  if (std::find(endings.begin(), endings.end(), ending) == endings.end())
    refuse("output", fmt::format("-o must end in {}", fmt::join(endings, ", ")), output.path);
}

void put_array(const OutputOptions& output, const io::Array& array, const Json& facts) {
  if (output.json) print_json(as_json(array, facts));
  if (output.path.empty()) {
    if (!output.json) preview(array, facts);
    return;
  }
  const std::string ending = std::filesystem::path(output.path).extension().string();
  if (ending == ".npy")
    io::write_npy(output.path, array);
  else if (ending == ".csv")
    io::write_atomically(output.path, [&](io::Output& out) { write_csv(out, array); });
  else
    io::write_atomically(output.path, as_json(array, facts).dump() + "\n");
}

void print_json(const Json& json) {
  // Code points beyond ASCII are escaped: a terminal may act on some of them.
  fmt::print("{}\n", json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace gnomon::cli
