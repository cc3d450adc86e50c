// Specs that apply encodings of graphs, images and continuous coordinates to text. The lab
// trains every encoding on text, so each spec defines the node, pixel or coordinate of a token.
// `model::Encoding` holds these specs. Released vision models use DetrPage and FourierLine.
//
// Letters: T tokens, C width, F features, K vectors or steps.
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

// DETR's sine for a line of tokens, read as the rows of a page without padding: position p is
// at row p / width, column p % width. The page is always full, because the coordinates of each
// row end at 2 pi whatever its length.
struct DetrPage {
  std::int64_t width = 0;        // C, width of the embeddings, a multiple of 4
  std::int64_t grid_height = 0;  // rows, at least 1; at most 2^24 tokens in all
  std::int64_t grid_width = 0;   // tokens in a row, at least 1
  DetrScale scale = DetrScale::normalised;
  double temperature = 10'000.0;

  bool operator==(const DetrPage&) const = default;
};

// Returns height x width. The positions of the page are 0 to capacity - 1. Throws
// std::invalid_argument if the extents are out of bounds.
std::int64_t capacity(const DetrPage& page);

// Returns the table [T, C] of these positions. Throws std::invalid_argument if a position is
// not on the page.
EmbeddingTable lower(const DetrPage& page, std::span<const std::int64_t> positions);

// Fourier features of a line of tokens or of a grid, projected to the width of the embeddings
// (projection.h). On a line, position 0 has coordinate -1, position length - 1 has coordinate
// 1, and later positions have coordinates above 1.
struct FourierLine {
  Fourier fourier = {};     // one axis for a line
  std::int64_t length = 0;  // tokens from -1 to 1, at least 2
  std::int64_t width = 0;   // C, width of the projection; 0: the table holds the features
  // Extents of the grid. The tokens are its cells, row by row, at unit_coordinates (Perceiver).
  // Empty: tokens in a line.
  std::vector<std::int64_t> grid = {};

  bool operator==(const FourierLine&) const = default;
};

// Returns the features [T, F] of these positions, contiguous. Throws std::invalid_argument if
// the spec is out of its bounds or a position is outside the grid.
std::vector<double> line_features(const FourierLine& line,
                                  std::span<const std::int64_t> positions);

// Laplacian eigenvectors of text: up to `nodes` tokens, read as a path graph. The eigenvectors
// are projected to `width` channels (projection.h).
struct PathLaplacian {
  std::int64_t nodes = 0;  // nodes of the path, independent of the text's length
  std::int64_t width = 0;  // C, width of the embeddings
  Laplacian laplacian;

  bool operator==(const PathLaplacian&) const = default;
};

// Return probabilities of random walks on the same path graph, projected to `width` channels.
struct PathRandomWalk {
  std::int64_t nodes = 0;  // nodes of the path, independent of the text's length
  std::int64_t width = 0;  // C, width of the embeddings
  RandomWalk walk;

  bool operator==(const PathRandomWalk&) const = default;
};

// Return the rows [T, K] of these positions. Throw std::invalid_argument if a position is not
// in 0 to nodes - 1. Cost: O(nodes K) for PathLaplacian, O(nodes K^2) for PathRandomWalk, plus
// T rows.
std::vector<double> path_features(const PathLaplacian& path,
                                  std::span<const std::int64_t> positions);
std::vector<double> path_features(const PathRandomWalk& path,
                                  std::span<const std::int64_t> positions);

// Learned vectors by degree, on the same path graph. The two ends of the path have degree 1,
// the other nodes have degree 2.
struct PathDegree {
  std::int64_t nodes = 0;  // nodes of the path, independent of the text's length
  Degree degree;

  bool operator==(const PathDegree&) const = default;
};

// Returns the row of the degree table for each position, [T] each for in- and out-degree.
// Throws std::invalid_argument if a position is not in 0 to nodes - 1.
DegreeRows path_degree_rows(const PathDegree& path, std::span<const std::int64_t> positions);

}  // namespace gnomon::model
