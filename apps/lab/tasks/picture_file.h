// Reader of one picture: PNG (any kind of pixel) or PGM (P2 or P5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace gnomon::lab::image_examples {

constexpr std::int64_t most_file_bytes = 64 << 20, most_picture_side = 4096;

struct Picture {
  std::int64_t height = 0, width = 0;
  std::vector<float> values;  // [height, width], row by row, 0 for black and 1 for white
};

// Transparent pixels are on white. Throws std::invalid_argument with the path if the file is
// unreadable, damaged, of another format, or beyond the limits above.
Picture read_picture_file(const std::filesystem::path& path);

}  // namespace gnomon::lab::image_examples
