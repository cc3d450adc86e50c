// The pictures by which people understand encodings. Each takes plain numbers, computed by the
// caller, and returns a Vega-Lite v5 spec as text, as chart.h does; what chart.h says of
// digits, gaps, text and errors holds here, too. Positions count from 0 unless `Cells` says
// otherwise.
//
//   plot::Page page("Sinusoidal");
//   page.figure({.id = "table", .title = "The table", .spec =
//   plot::table_picture(table.view())});
//
// Small multiples stand beside each other where there is room and below each other on a phone;
// page.h sees to that. Elsewhere a spec has the sizes written in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/plot/chart.h"

namespace gnomon::plot {

// The rows of an absolute encoding, a position each. 50 positions by 128 channels is the size
// at which most articles draw it. Colours meet at 0.
struct TablePicture {
  Matrix values;                       // [positions, channels]
  Cells rows = {.title = "position"};  // with first and step where rows were left out
  Cells columns = {.title = "channel"};
};
std::string table_picture(const TablePicture& picture);
inline std::string table_picture(Matrix values) {
  return table_picture(TablePicture{.values = std::move(values)});
}

// How alike every two positions are: cosines (-1 to 1) or dot products. Square cells.
struct SimilarityPicture {
  Matrix values;  // [positions, positions]
  Cells positions = {.title = "position"};
  std::string title = "similarity";
  std::optional<Range> range = {};  // of colours; empty: the data's
};
std::string similarity_picture(const SimilarityPicture& picture);

// How alike chosen cells of a grid are to all its cells, as for the patches of a picture: a
// small multiple for each. 16 x 32 cells and three chosen ones fill a line.
struct GridPicture {
  std::int64_t height = 16, width = 32;  // cells
  struct Chosen {
    std::int64_t y = 0, x = 0;       // of the grid; marked with a cross
    std::vector<double> similarity;  // [height * width], row-major
  };
  std::vector<Chosen> chosen;  // at least one
  std::string title = "similarity";
  std::optional<Range> range = {};
};
std::string grid_picture(const GridPicture& picture);

// Rotary scores by distance: q and k all ones, which shows the decay that the base brings; and
// random q and k, mean with a band, which shows what heads see before they learn.
struct RotaryPicture {
  std::vector<double> distances;         // key before query, in tokens
  std::vector<double> all_ones = {};     // [distances]; empty: left out
  std::vector<double> random_mean = {};  // [distances], and their band; empty: left out
  std::vector<double> random_low = {}, random_high = {};
  std::string title = "score";
};
std::string rotary_picture(const RotaryPicture& picture);

// The wavelength of each rotary pair against the context: a pair whose wavelength is longer
// never completes a turn there, so it meets angles in a longer text that it was not trained on.
// More than one spec (the base and an extension) stand in one picture.
struct WavelengthPicture {
  struct Spec {
    std::string name;
    std::vector<double>
        wavelengths;  // [pairs], 2 pi / frequency, in tokens; above 0. Infinity: no point
  };
  std::vector<Spec> specs;        // at least one
  double context = 0;             // tokens, above 0: colours say which pairs turn within it
  std::string label = "context";  // of its line, before the number
  struct Level {
    double context = 0;  // tokens, above 0
    std::string label;
  };
  std::vector<Level> others = {};  // lines besides
};
std::string wavelength_picture(const WavelengthPicture& picture);

// What a bias adds to a score, by distance and head.
struct BiasPicture {
  std::vector<double> distances;  // key before query, in tokens; negative: after
  Matrix values;                  // [heads, distances]
  std::string title = "bias";
};
std::string bias_picture(const BiasPicture& picture);

// Attention weights without and with position, side by side in one scale of colours. NaN for
// what a mask hides.
struct AttentionPicture {
  Matrix without, with;  // [queries, keys], both of one shape
  Cells queries = {.title = "query"}, keys = {.title = "key"};
  std::string without_title = "without position", with_title = "with position";
};
std::string attention_picture(const AttentionPicture& picture);

}  // namespace gnomon::plot
