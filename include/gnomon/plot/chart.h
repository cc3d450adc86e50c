// Charts from plain data: lines, heat maps and bars. Each function returns a Vega-Lite v5 spec,
// a JSON object as text, for HtmlPage::figure (page.h), a notebook, or any Vega-Lite tool.
//
//   plot::lines({.series = {{.name = "rotary", .x = lengths, .y = bits}},
//                .x = {.title = "context length", .scale = plot::Scale::log2},
//                .y = {.title = "bits per byte"},
//                .rule = plot::Rule{512, "training length"}});
//
// The colour of a name is given by its index in `names`. If all charts of a page have the same
// `names`, a name has the same colour in all of them. A page has a palette of ten colours for
// light and one for dark backgrounds. From the eleventh name on, the colours repeat with
// another symbol: the pairs of colour and symbol of the first 80 names are different.
//
// Values are written with 4 significant digits, positions on x in full. NaN and infinity are
// gaps without a mark. Text is shown unchanged and is never read as an expression. All
// functions throw std::invalid_argument("[chart] rule, got value") if an argument breaks a rule
// below. Cost: linear time and memory in the number of values.
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
  sequential = 1,  // from the smallest to the largest value
  diverging,       // two hues that meet at 0
};

struct Range {
  double low = 0, high = 1;  // finite, low < high; on a log2 scale low > 0
};

struct Axis {
  std::string title = {};
  Scale scale = Scale::linear;
  std::vector<double> ticks = {};   // positions of ticks; empty: chosen by the chart
  std::optional<Range> range = {};  // marks outside are clipped; empty: the range of the data
};

// A line through (x[i], y[i]). If low and high are given, a band from low[i] to high[i] is
// drawn behind it (both or neither; as many as y). Points that a log2 scale cannot show are
// gaps.
struct Series {
  std::string name;
  std::vector<double> x, y;  // equal lengths
  std::vector<double> low = {}, high = {};
  Stroke stroke = Stroke::solid;
  std::string colour = {};  // name whose colour is used, e.g. for the dashed baseline of a
                            // solid line; empty: `name`
};

struct Rule {
  double x = 0;  // finite
  std::string label = {};
};

struct LineChart {
  std::vector<Series> series = {};  // at least one
  Axis x = {}, y = {};
  std::optional<Rule> rule = {};  // a vertical line
  // Series names in the order of the colours. Unlisted names follow in the order of appearance.
  // The legend shows only names in use.
  std::vector<std::string> names = {};
  std::string solid = {}, dashed = {};  // meaning of the strokes, for the legend; empty: none
  int height = 320;                     // px, at least 40
  // Names of the series that are drawn at first; empty: all. If there are some, or if the chart
  // has more than 10 names, a page lists all names below the chart, and the reader selects the
  // names that are drawn. Other tools draw the names of `selected`.
  std::vector<std::string> selected = {};
};
std::string lines(const LineChart& chart);

// A matrix of numbers, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows * columns]

  Matrix() = default;
  Matrix(std::int64_t rows, std::int64_t columns, std::vector<double> values)
      : rows(rows), columns(columns), values(std::move(values)) {}
  // Copies the view. Any strides.
  Matrix(View<const float, 2> view);   // NOLINT: a view is a matrix
  Matrix(View<const double, 2> view);  // NOLINT
};

// Numbering of the rows or columns of a matrix: `first`, `first + step`, ...; or labels.
struct Cells {
  std::string title = {};
  std::vector<std::string> labels = {};  // one per row or column, or empty
  double first = 0, step = 1;            // finite, step > 0
};

struct Heatmap {
  Matrix values;  // 1 to 300000 cells; row 0 is at the top
  Cells rows = {}, columns = {};
  std::string title = "value";  // meaning of the colours
  Colours colours = Colours::sequential;
  std::optional<Range> range = {};    // range of the colours; empty: the range of the data, for
                                      // `diverging` symmetric around 0
  std::optional<double> aspect = {};  // height of a cell / its width, > 0; empty: the picture
                                      // is as wide as the space available and `height` high
  int height = 320;                   // px, at least 40
};
std::string heatmap(const Heatmap& map);

// Horizontal bars from 0, one per name, with their values at the ends.
struct Bar {
  std::string name;  // unique in the chart
  double value = 0;
  std::string colour = {};  // as in Series
};
struct BarChart {
  std::vector<Bar> bars;                // at least one, from top to bottom
  std::string title = {};               // title of the values
  std::vector<std::string> names = {};  // order of the colours, as in LineChart
  std::string format = ",.4~r";         // format of the values, in the syntax of d3-format
};
std::string bars(const BarChart& chart);

}  // namespace gnomon::plot
