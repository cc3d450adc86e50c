// Helpers shared by the functions that build specs. Field names are fixed, so text of a caller
// is never read as a field or an expression. Labels enter expressions as JSON strings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/plot/chart.h"
#include "src/core/json_value.h"

namespace gnomon::plot::internal {

using Json = gnomon::internal::OrderedJson;

// 4 significant digits, integers without a decimal point; null if not finite.
Json number(double value);
Json numbers(std::span<const double> values);
Json cell_data(std::span<const double> values);  // expanded by cell_transform
// Full precision, for the place of a mark; null if not finite.
Json place(double value);

std::string grouped(double value);  // "131,072"; a fraction has 4 significant digits

Json title(const std::string& text);       // null if empty: Vega-Lite would show the field name
Json ends(const Range& range);             // [low, high]
std::string expression(const Json& json);  // ASCII, valid inside an expression

// A spec without data: the schema, and the width of the container.
Json chart(int height);
std::string text(const Json& spec);
// Gives one picture of `spec` (`spec` itself, or its inner spec for small multiples) a fixed
// shape: `tall` is height / width. A page scales it to the space available.
struct Multiples {
  std::int64_t count = 1;
  int narrowest = 0;  // minimum width, in px
};
void set_shape(Json& spec, double tall, const Multiples& multiples = {});

// Returns the smallest and largest finite value, or nothing if there is none.
std::optional<std::pair<double, double>> extent(std::span<const double> values);

// Throw if a number is not finite or a range is empty.
void check(const Range& range);
void check(const Matrix& matrix);
void check_cells(std::int64_t rows, std::int64_t columns);
void check(const Cells& cells, std::int64_t count);
void check_height(int height);

// The parts of a picture of cells, for one matrix (heatmap) or several (pictures.h). Fields:
// `data` (the value), `row` and `column` (indices from 0), `y0 y1 x0 x1` (edges), `row_label`
// and `column_label`.
inline constexpr std::int64_t most_cells = 300'000;
Json cell_transform(const Cells& rows, const Cells& columns, std::int64_t row_count,
                    std::int64_t column_count);
Json cell_mark();
// Returns the object of a spec with the data for a page. It is made if it is missing.
Json& notes(Json& spec);
// Describes the data for the table of numbers (numbers.cc).
enum class Data { series = 1, cells, rows };
void note_data(Json& spec, Data data);
// Layout of the cells, for the table of numbers. `panels`: a title per matrix.
Json cell_layout(const Cells& rows, const Cells& columns, std::int64_t row_count,
                 std::int64_t column_count, const std::string& title,
                 const std::vector<std::string>& panels = {""});
struct Colouring {
  std::string title;
  Colours colours = Colours::sequential;
  std::optional<Range> range = {};
};
Json cell_encoding(const Cells& rows, const Cells& columns, std::int64_t row_count,
                   std::int64_t column_count, const Colouring& colouring,
                   std::span<const double> values);
Json cell_tooltip(const Cells& rows, const Cells& columns, const std::string& title);

}  // namespace gnomon::plot::internal
