// A folder of pictures with one subfolder for each class: reading, checks and the split.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gnomon::lab::image_examples {

// Limits of a user's files.
constexpr std::int64_t most_file_bytes = 64 << 20, most_picture_side = 4096,
                       most_pictures = 100'000, most_classes = 1000,
                       least_pictures = 10;                        // limit of a class
constexpr std::int64_t most_stored_bytes = std::int64_t{1} << 30;  // all pictures, as stored

// Reads a PNG (any kind of pixel; transparent pixels are on white) or a PGM (P2 or P5) as grey:
// [height, width], float32, 0 for black and 1 for white. Throws std::invalid_argument with the
// path if the file is unreadable, damaged, of another format, or beyond the limits.
at::Tensor read_picture(const std::filesystem::path& path);

// Pictures [N, P, P] of `side` x `side` pixels, bilinear with antialiasing. The height and the
// width change separately. pictures: [N, H, W], float32.
at::Tensor resized_pictures(const at::Tensor& pictures, std::int64_t side);

struct PictureSet {
  at::Tensor pixels;                 // [N, P, P], uint8, 255 for white
  std::vector<std::int64_t> labels;  // [N], indices of classes
};
struct PictureFolder {
  std::vector<std::string> classes;  // the names of the subfolders, ascending
  PictureSet train, validation, test;
};

// Reads FOLDER/CLASS/*.png and *.pgm at `side` x `side` pixels. Of each class a tenth of the
// files tests and a tenth validates, drawn at random, the same in every call. Files whose name
// begins with a dot are ignored. Throws std::invalid_argument if there are fewer than two
// classes, other files, or a picture as in read_picture, or beyond the limits.
PictureFolder read_folder(const std::filesystem::path& folder, std::int64_t side);

}  // namespace gnomon::lab::image_examples
