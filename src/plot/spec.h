// What the makers of specs share. Field names are ours, so no text of a caller is ever read as
// a field or an expression; labels enter expressions as JSON strings.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/plot/chart.h"

namespace gnomon::plot::internal {

using Json = nlohmann::ordered_json;

// 4 significant digits, whole numbers without a point; null where not finite.
Json number(double value);
Json numbers(std::span<const double> values);
Json cell_data(std::span<const double> values);  // what cell_transform unrolls
// As it stands: for what places a mark. null where not finite.
Json place(double value);

Json title(const std::string& text);  // null where empty: Vega-Lite would show the field's name
Json ends(const Range& range);        // [low, high]
std::string expression(const Json& json);  // ASCII, so that it may stand in an expression

// A spec without data: the schema, and as wide as its place.
Json chart(int height);
std::string text(const Json& spec);
// Gives one picture of `spec` (itself, or its inner spec where it is of small multiples) a
// shape: `tall` times as high as wide. A page makes it larger or smaller as its place allows.
struct Multiples {
  std::int64_t count = 1;
  int narrowest = 0;  // px
};
void set_shape(Json& spec, double tall, const Multiples& multiples = {});

// The smallest and largest finite value; nothing where there is none.
std::optional<std::pair<double, double>> extent(std::span<const double> values);

// Throws where a number is not finite, or a range empty.
void check(const Range& range);
void check(const Matrix& matrix);
void check_cells(std::int64_t rows, std::int64_t columns);
void check(const Cells& cells, std::int64_t count);
void check_height(int height);

// The parts of a picture of cells, for one matrix (heatmap) or several (pictures.h).
// Fields: `value`, `row` and `column` (indices from 0), `y0 y1 x0 x1` (edges).
inline constexpr std::int64_t most_cells = 300'000;
Json cell_transform(const Cells& rows, const Cells& columns, std::int64_t row_count,
                    std::int64_t column_count);
Json cell_mark();
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
