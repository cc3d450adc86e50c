// Readings of text for encodings of graphs, images and continuous coordinates. The lab trains
// every encoding on text, so each of these specs says which node, pixel or coordinate a token
// is. `model::Encoding` holds them; released vision models use DetrPage and FourierLine.
//
// Letters: T tokens, C channels, F features, K vectors or steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/embedding/degree.h"
#include "gnomon/embedding/detr.h"
#include "gnomon/embedding/fourier.h"
#include "gnomon/embedding/laplacian.h"
#include "gnomon/embedding/random_walk.h"
#include "gnomon/embedding/table.h"

namespace gnomon::model {

// Tokens in a line, read as the rows of a page without padding: position p is at row p / width,
// column p % width. A short last row would end at the same coordinate as a full one, because
// every line ends at 2 pi.
struct DetrPage {
  std::int64_t dim = 0;     // C, a multiple of 4
  std::int64_t height = 0;  // rows, at least 1; at most 2^24 tokens in all
  std::int64_t width = 0;   // tokens of a row, at least 1
  DetrScale scale = DetrScale::normalised;
  double temperature = 10'000.0;

  bool operator==(const DetrPage&) const = default;
};

// Positions that are on the page: 0 to capacity - 1, height x width of them.
std::int64_t capacity(const DetrPage& page);

// The plan for these positions, [T, C]. Throws std::invalid_argument if a position is not on
// the page.
EmbeddingTable detr_table(const DetrPage& page, std::span<const std::int64_t> positions);

// Fourier features of tokens in a line or of a grid, to be projected to the width of the
// embeddings (projection.h): 0 is at -1, length - 1 at 1, and later positions are beyond 1.
struct FourierLine {
  Fourier fourier;          // of one axis
  std::int64_t length = 0;  // tokens from -1 to 1, at least 2
  std::int64_t dim = 0;     // C, of the projection; 0: none, the features are the table
  // Extents of the grid, for tokens that are its cells row by row, at unit_coordinates
  // (Perceiver); empty: tokens in a line.
  std::vector<std::int64_t> grid = {};

  bool operator==(const FourierLine&) const = default;
};

// The features [T, F] of these positions, contiguous.
std::vector<double> line_features(const FourierLine& line,
                                  std::span<const std::int64_t> positions);

// A text of up to `nodes` tokens read as a path graph, its eigenvectors projected to `dim`
// channels (projection.h).
struct PathLaplacian {
  std::int64_t nodes = 0;  // of the path, whatever the text's length
  std::int64_t dim = 0;    // C
  Laplacian laplacian;

  bool operator==(const PathLaplacian&) const = default;
};

// The same with return probabilities.
struct PathRandomWalk {
  std::int64_t nodes = 0;  // of the path, whatever the text's length
  std::int64_t dim = 0;    // C
  RandomWalk walk;

  bool operator==(const PathRandomWalk&) const = default;
};

// The rows of these positions, [T, K]. Throw std::invalid_argument if a position is not 0 to
// nodes - 1.
std::vector<double> path_features(const PathLaplacian& path,
                                  std::span<const std::int64_t> positions);
std::vector<double> path_features(const PathRandomWalk& path,
                                  std::span<const std::int64_t> positions);

// The same with vectors by degree: the two ends of a path have degree 1, other nodes 2.
struct PathDegree {
  std::int64_t nodes = 0;  // of the path, whatever the text's length
  Degree degree;

  bool operator==(const PathDegree&) const = default;
};

// The rows of these positions, [T] each. Throws std::invalid_argument if a position is not 0 to
// nodes - 1.
DegreeRows path_degree_rows(const PathDegree& path, std::span<const std::int64_t> positions);

}  // namespace gnomon::model
