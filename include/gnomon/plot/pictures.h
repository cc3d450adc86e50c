// Pictures of position encodings. Each function takes numbers computed by the caller and
// returns a Vega-Lite v5 spec as text. The rules of chart.h for digits, gaps, text and errors
// apply. Positions count from 0 unless `Cells` specifies otherwise.
//
//   plot::HtmlPage page("Sinusoidal");
//   page.figure({.id = "table", .title = "The table",
//                .spec = plot::table_picture(table.view())});
//
// On a page (page.h), small multiples are side by side if they fit and below each other on
// a phone. In other tools a spec has fixed sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/plot/chart.h"

namespace gnomon::plot {

// The rows of an absolute encoding, one per position. Most articles show 50 positions by 128
// channels. Colours are diverging from 0.
struct TablePicture {
  Matrix values;                       // [positions, channels]
  Cells rows = {.title = "position"};  // set first and step if rows were left out
  Cells columns = {.title = "channel"};
};
std::string table_picture(const TablePicture& picture);
inline std::string table_picture(Matrix values) {
  return table_picture(TablePicture{.values = std::move(values)});
}

// Similarity of all pairs of positions: cosines (-1 to 1) or dot products. Cells are square.
struct SimilarityPicture {
  Matrix values;  // [positions, positions]
  Cells positions = {.title = "position"};
  std::string title = "similarity";
  std::optional<Range> range = {};  // range of the colours; empty: the range of the data
};
std::string similarity_picture(const SimilarityPicture& picture);

// Similarity of chosen cells of a grid with all its cells, e.g. for the patches of an image:
// one small multiple per chosen cell. Three cells of a 16 x 32 grid fill a line.
struct GridPicture {
  std::int64_t height = 16, width = 32;  // cells
  struct Chosen {
    std::int64_t y = 0, x = 0;       // coordinates in the grid; marked with a cross
    std::vector<double> similarity;  // [height * width], row-major
  };
  std::vector<Chosen> chosen;  // at least one
  std::string title = "similarity";
  std::optional<Range> range = {};
};
std::string grid_picture(const GridPicture& picture);

// Rotary scores by distance. All-ones q and k show the decay that results from the base. Random
// q and k, as a mean with a band, show how it depends on the distribution of their elements.
struct RotaryPicture {
  std::vector<double> distances;      // query position - key position, in tokens
  std::vector<double> all_ones = {};  // [distances]; empty: not drawn
  struct Sample {
    std::string name;                     // e.g. the distribution
    std::vector<double> mean, low, high;  // [distances]
  };
  std::vector<Sample> samples = {};
  std::string title = "score";
};
std::string rotary_picture(const RotaryPicture& picture);

// The wavelength of each rotary pair compared with the context length. A pair with a longer
// wavelength does not complete a turn within the context, so longer texts have angles that did
// not occur in training. Several specs (e.g. the base and an extension) share one picture.
struct WavelengthPicture {
  struct Spec {
    std::string name;
    // [pairs], 2 pi / frequency, in tokens; > 0. Infinity: no point.
    std::vector<double> wavelengths;
  };
  std::vector<Spec> specs;        // at least one
  double context = 0;             // in tokens, > 0; colours show which pairs complete a turn
                                  // within it
  std::string label = "context";  // label of its line, before the number
  struct Level {
    double context = 0;  // in tokens, > 0
    std::string label;
  };
  std::vector<Level> others = {};  // additional lines
};
std::string wavelength_picture(const WavelengthPicture& picture);

// Bias added to a score, by distance and head.
struct BiasPicture {
  std::vector<double> distances;  // query position - key position, in tokens; negative: the key
                                  // is after the query
  Matrix values;                  // [heads, distances]
  std::string title = "bias";
};
std::string bias_picture(const BiasPicture& picture);

// Heat maps of one shape as small multiples, with one colour scale.
struct PanelsPicture {
  struct Panel {
    std::string title;
    Matrix values;
  };
  std::vector<Panel> panels;  // at least one
  Cells rows = {}, columns = {};
  std::string title = "value";  // meaning of the colours
  Colours colours = Colours::sequential;
};
std::string panels_picture(const PanelsPicture& picture);

// Bias by the offset between two cells of a window (GridBias), one small multiple per head.
struct BiasGridPicture {
  std::int64_t height = 0, width = 0;  // window size, in cells
  Matrix values;                       // [heads, (2 height - 1)(2 width - 1)], query - key
  std::string title = "bias";
};
std::string bias_grid_picture(const BiasGridPicture& picture);

// Attention weights without and with position, with one colour scale, and the difference of
// both with its own. Entries that a mask hides are NaN.
struct AttentionPicture {
  Matrix without, with;  // [queries, keys], of equal shape
  Cells queries = {.title = "query"}, keys = {.title = "key"};
  std::string without_title = "without position", with_title = "with position",
              difference_title = "difference: with - without";
};
std::string attention_picture(const AttentionPicture& picture);

}  // namespace gnomon::plot
