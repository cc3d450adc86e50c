// The task image: the class of a picture. Without a folder the program draws two digits in each
// picture, and the class is the digit on the left. The task image-text shares the drawing, the
// patches and the tests.
//
// The tokens of a picture are its patches, row by row. An encoding of a grid (rotary-axial,
// swin) has the row and the column of a token; an encoding of a line (rotary, t5) has its
// number.
//
// Letters: B pictures, P pixels a side, N patches a side, C width.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/draws.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/tasks/bidirectional.h"
#include "apps/lab/tasks/picture_file.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::image_examples {

// Pictures of lines that the program draws itself (drawing.cc): digits, simple shapes, and
// their pixels. Coordinates are x to the right and y downwards. Glyphs lie in the unit square.
// Values of pixels are 0 for paper and 1 for ink.

struct Point {
  double x, y;
};
struct Line {
  Point from, to;
};
using Glyph = std::vector<Line>;

// The glyph with every point moved to move(point).
template <typename Move>
Glyph moved(Glyph glyph, Move&& move) {
  for (Line& line : glyph) line = {move(line.from), move(line.to)};
  return glyph;
}

constexpr std::int64_t digits = 10;
Glyph digit_glyph(std::int64_t digit);
constexpr std::string_view shapes[] = {"circle", "square", "triangle", "cross", "plus"};
Glyph shape_glyph(std::int64_t shape);  // an index of `shapes`

// A square picture, row by row. `units`: its side in the units of the drawing.
class Canvas {
 public:
  Canvas(std::int64_t pixels, double units)
      : side_(pixels),
        scale_(static_cast<double>(pixels) / units),
        values_(static_cast<std::size_t>(pixels * pixels)) {}

  // Draws the lines with round ends and antialiased edges. Pixels whose column is not in
  // [clip_left, clip_right) units are unchanged.
  void draw(const Glyph& lines, double thickness, double clip_left, double clip_right);
  // Adds to each pixel a number from the uniform distribution on [-amplitude, amplitude].
  void add_noise(double amplitude, Draws& draws);

  std::int64_t side() const { return side_; }
  const std::vector<float>& values() const { return values_; }

 private:
  std::int64_t side_;
  double scale_;  // pixels per unit
  std::vector<float> values_;
};

double uniform(double low, double high, Draws& draws);  // on [low, high)

// Pictures of `side` x `side` values as text, two side by side: a character of Unicode's
// Braille patterns for 2 x 4 pixels, with a dot for each value above one half.
std::string as_text(const std::vector<std::vector<float>>& pictures, std::int64_t side);

// Patches and position encodings on grids of patches (patch_encoder.cc).
// pixels: [B, P, P], float32, P = N patch. Returns [B, N N, patch patch].
at::Tensor patches_of(const at::Tensor& pixels, std::int64_t patch);

// The linear layer that turns a patch of `side` x `side` pixels into a token. Its deviation
// gives the lines of a picture embeddings with a deviation of about 1, so that a table of sines
// that is added to them does not dominate.
torch::nn::Linear patch_embedding(std::int64_t side, std::int64_t width,
                                  at::Generator& generator);

// The treatment of trained tables at another grid than that of training.
enum class Tables {
  fixed = 1,  // a table ends where it ended in training
  resized,    // learned and swin: bicubic (ViT, Swin); axial: linear; decomposed: as MViTv2
};

// The scheme at its usual settings for a grid of `side` x `side` patches, bidirectional. Throws
// std::invalid_argument if the scheme is wrong or has a class token, or with Tables::resized if
// it has no table that can be resized.
model::Scheme grid_scheme(const std::string& scheme, const EncoderSizes& sizes,
                          std::int64_t side, Tables tables);

// The trained encodings of a grid of `from` x `from` patches at a grid of `to` x `to` patches.
// The module itself if the sides are equal. Empty if the encodings have no positions for it.
// The result has no gradients.
std::optional<libtorch::PositionScheme> at_side(const libtorch::PositionScheme& trained,
                                                std::int64_t from, std::int64_t to,
                                                Tables tables);

// A folder of pictures with one subfolder for each class (picture_files.cc), and its limits.
constexpr std::int64_t most_pictures = 100'000, most_classes = 1000,
                       least_pictures = 10;                        // limit of a class
constexpr std::int64_t most_stored_bytes = std::int64_t{1} << 30;  // all pictures, as stored

// read_picture_file() as a tensor [height, width], float32.
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

// Two digits of a fixed size: a larger picture has more places and larger distances. A picture
// of less than 24 pixels has smaller digits. The two have the same distributions in the two
// halves of the picture, and none leaves its half. So a picture and the picture with its halves
// exchanged are equally likely, and a model that does not know the places of the patches is
// right in at most 55 % of the pictures: 10 % have equal digits, and it is right in half of the
// others.
struct DigitPicture {
  std::int64_t left = 0, right = 0;
  std::vector<float> pixels;  // [P, P], row by row, 0 for paper and 1 for ink, with noise
};
// A pure function of the arguments.
DigitPicture digit_picture(Part part, std::uint64_t seed, std::uint64_t number,
                           std::int64_t pixels);

struct Pictures {
  at::Tensor pixels;  // [B, P, P], float32, 0 to 1
  at::Tensor labels;  // [B], int64
};

// The data of a run: a user's folder, or the digits that the program draws.
struct ImageData : TaskData {
  std::vector<std::string> classes;
  PictureFolder folder;  // empty: digits
  // The input of a model is (pixel - mean) scale: pixels of a folder, white paper or
  // photographs, have the mean 0 and the deviation 1/2.
  double mean = 0, scale = 1;
  bool drawn() const { return !folder.train.pixels.defined(); }

  // The pictures [rows.begin, rows.end) of a batch of training or validation.
  Pictures batch(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows,
                 std::int64_t side) const;
  // Test pictures `first` to `first` + `count` - 1 at a grid of `side` patches a side.
  Pictures tests(std::int64_t first, std::int64_t count, std::int64_t side) const;
  // Returns at most `wanted`, which is the result for digits.
  std::int64_t test_count(std::int64_t wanted) const;
  // The share of the first `count` test pictures that have the most frequent class of training.
  double chance(std::int64_t count) const;

 private:
  // The pictures with the numbers `first` + row.
  Pictures pictures(Part part, std::uint64_t seed, std::uint64_t first, BatchRange rows,
                    std::int64_t side) const;
};

Corpus load(const Settings& settings);

// Test pictures of a stretch, per eval segment.
constexpr std::int64_t test_factor = 8;

struct Graded {
  std::vector<double> right = {};  // scores of the answers
  double nats = 0;                 // sum of the losses
};
// logits: [B, classes]; right: [B], the classes. n equal largest logits are 1 / n of a right
// answer each.
Graded graded(const at::Tensor& logits, const at::Tensor& right);

// Grades the tests `first` to `first` + `count` - 1 at a grid of `side` patches a side.
using GradeTests =
    std::function<Graded(std::int64_t first, std::int64_t count, std::int64_t side,
                         const libtorch::PositionScheme& position)>;
// The results of `count` tests in each of grid_stretches. Empty if `stop` returns true.
std::optional<Evaluation> test_grids(const Settings& settings,
                                     const libtorch::PositionScheme& trained, Tables tables,
                                     std::int64_t count, double chance, const GradeTests& grade,
                                     const std::function<bool()>& stop);

// The stretches in which a task with pictures is tested: the training grid, and larger grids up
// to each of settings.eval_lengths, half a training length in each stretch.
std::vector<Stretch> grid_stretches(const Settings& settings);

}  // namespace gnomon::lab::image_examples

// The task image-text: which of two captions describes a picture of two shapes. The captions
// have the same words in different orders:
//
//   circle left of square
//   square left of circle
//
// Without the places of the patches or the order of the words, the two captions cannot be told
// apart. Shapes have a fixed size, so a larger grid is a larger picture with larger distances.
//
// Letters: B pictures, K captions of a picture, W words of a caption.
namespace gnomon::lab::image_text_examples {

constexpr std::int64_t objects = 2, captions = 2, words = 2 * objects - 1;
// More captions in training, each false because of one shape that is not in the picture. They
// teach which word belongs to which shape. Without them, training stays at chance for long.
constexpr std::int64_t easy_captions = 2;
constexpr std::string_view relations[] = {"left of", "above"};

// Two different shapes, each in a patch, not in the same row or column. Every choice of rows
// and of columns is equally likely for every shape.
struct Scene {
  std::int64_t relation = 0;                   // index of `relations`
  std::array<std::int64_t, objects> shapes{};  // indices of image_examples::shapes, ascending
  std::array<std::int64_t, objects> rows{}, columns{};  // patches of the shapes
  std::vector<float> pixels;                            // [P, P], P = 8 `side`
  std::int64_t right = 0;                               // the caption that is true
  std::array<std::array<std::int64_t, words>, easy_captions> easy{};
};
// A pure function of the arguments. side: patches a side, at least 2.
Scene scene(Part part, std::uint64_t seed, std::uint64_t number, std::int64_t side);

// The word numbers of caption k, [W]: a shape, the relation, a shape. Shapes come before
// relations in the numbering. Caption 0 has the shapes in ascending order.
std::array<std::int64_t, words> caption(const Scene& scene, std::int64_t k);
std::string caption_text(const Scene& scene, std::int64_t k);  // "circle left of square"

// The names for pictures and text of an entry of --encodings. An encoding of a grid has the
// counterpart of a line on the text: sinusoidal for sinusoidal-grid and detr, rotary for
// rotary-axial, learned for axial and axial-summed, t5 for swin, swin-v2 and decomposed. With
// the suffix text or image, the other side has "none".
struct Sides {
  std::string picture, text;
};
Sides sides_of(const std::string& encoding);

}  // namespace gnomon::lab::image_text_examples
