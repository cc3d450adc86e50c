// General charts from plain data: lines, a heat map, bars. Each is a Vega-Lite v5 spec, a JSON
// object as text, for Page::figure (page.h), a notebook, or any Vega-Lite tool.
//
//   plot::lines({.series = {{.name = "rotary", .x = lengths, .y = bits}},
//                .x = {.title = "context length", .scale = plot::Scale::log2},
//                .y = {.title = "bits a byte"},
//                .rule = plot::Rule{512, "training length"}});
//
// Colours of names come from their order in `names`: give every chart of a page the same
// `names`, and a name has the same colour in all. A page has a palette for light paper and one
// for dark, of ten colours each; from the eleventh name on colours come again, in another
// shape.
//
// Numbers are written with 4 significant digits (positions on x in full). NaN and infinity are
// gaps: no mark stands there. Text is shown as it is; nothing in it is read as an expression.
// All functions throw std::invalid_argument("[chart] rule, got value") for what breaks a rule
// below, and take time and memory in proportion to the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::plot {

enum class Scale { linear = 1, log2 };
enum class Stroke { solid = 1, dashed };
enum class Colours {
  sequential = 1,  // from least to most
  diverging,       // two hues that meet at 0
};

struct Range {
  double low = 0, high = 1;  // finite, low < high; on a log2 scale low > 0
};

struct Axis {
  std::string title = {};
  Scale scale = Scale::linear;
  std::vector<double> ticks = {};   // where; empty: chosen by the chart
  std::optional<Range> range = {};  // marks outside are cut off; empty: the data's
};

// A line through (x[i], y[i]), with a band from low[i] to high[i] behind it where these are
// given (both or neither; as many as y). Points that a log2 scale cannot show are gaps.
struct Series {
  std::string name;
  std::vector<double> x, y;  // as many x as y
  std::vector<double> low = {}, high = {};
  Stroke stroke = Stroke::solid;
  std::string colour = {};  // the name whose colour it takes, as a dashed baseline takes that
                            // of its solid line; empty: `name`
};

struct Rule {
  double x = 0;  // finite
  std::string label = {};
};

struct LineChart {
  std::vector<Series> series = {};  // at least one
  Axis x = {}, y = {};
  std::optional<Rule> rule = {};  // a vertical one
  std::vector<std::string> names =
      {};  // of colours, in order; names not in it follow in order
           // of appearance, and only names in use are in the legend
  std::string solid = {}, dashed = {};  // what the strokes mean, for the legend; empty: none
  int height = 320;                     // px, at least 40
};
std::string lines(const LineChart& chart);

// Numbers in rows, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows * columns]

  Matrix() = default;
  Matrix(std::int64_t rows, std::int64_t columns, std::vector<double> values)
      : rows(rows), columns(columns), values(std::move(values)) {}
  // A copy. Any strides.
  Matrix(View<const float, 2> view);   // NOLINT: a matrix is what it shows
  Matrix(View<const double, 2> view);  // NOLINT
};

// What numbers the rows or columns of a matrix: `first`, `first + step`, ...; or labels.
struct Cells {
  std::string title = {};
  std::vector<std::string> labels = {};  // one for each, or empty
  double first = 0, step = 1;            // finite, step > 0
};

struct Heatmap {
  Matrix values;  // at most 300000 cells, at least 1; row 0 is the top one
  Cells rows = {}, columns = {};
  std::string title = "value";  // what a colour means
  Colours colours = Colours::sequential;
  std::optional<Range> range = {};  // of colours; empty: the data's, for `diverging` as far to
                                    // both sides of 0
  std::optional<double> aspect = {};  // height of a cell by its width, > 0; empty: the picture
                                      // is as wide as its place and `height` high
  int height = 320;                   // px, at least 40
};
std::string heatmap(const Heatmap& map);

// Horizontal bars from 0, one for each name, with their numbers at the ends.
struct Bar {
  std::string name;  // unique in its chart
  double value = 0;
  std::string colour = {};  // as in Series
};
struct BarChart {
  std::vector<Bar> bars;                // at least one; top to bottom
  std::string title = {};               // of the values
  std::vector<std::string> names = {};  // of colours, as in LineChart
  std::string format = ",.4~r";         // of the numbers, in d3-format's letters
};
std::string bars(const BarChart& chart);

}  // namespace gnomon::plot
