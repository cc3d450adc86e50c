// The task image: the class of a picture. Without a folder the program draws two digits in each
// picture, and the class is the digit on the left.
//
// Letters: B pictures, P pixels a side, N patches a side, C width.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/model/task_model.h"
#include "apps/lab/tasks/patch_encoder.h"
#include "apps/lab/tasks/picture_files.h"

namespace gnomon::lab::image_examples {

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

// Pictures and their labels.
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
};

Corpus load(const Settings& settings);

// Test pictures of a stretch, per eval segment.
constexpr std::int64_t test_factor = 8;

// Results of some tests: the scores of the answers, and the sum of the losses.
struct Graded {
  std::vector<double> right = {};
  double nats = 0;
};
// logits: [B, classes]; right: [B], the classes. n equal largest logits are 1 / n of a right
// answer each.
Graded graded(const at::Tensor& logits, const at::Tensor& right);

// Grades the tests `first` to `first` + `count` - 1 at a grid of `side` patches a side.
using GradeTests =
    std::function<Graded(std::int64_t first, std::int64_t count, std::int64_t side,
                         const libtorch::PositionScheme& position)>;
// The results of `count` tests in each of grid_stretches. Empty if `stop` returns true, which
// is called before each batch.
std::optional<Evaluation> test_grids(const Settings& settings,
                                     const libtorch::PositionScheme& trained, Tables tables,
                                     std::int64_t count, double chance, const GradeTests& grade,
                                     const std::function<bool()>& stop);

// The stretches in which a task with pictures is tested: the training grid, and larger grids up
// to each of settings.eval_lengths, half a training length in each stretch.
std::vector<Stretch> grid_stretches(const Settings& settings);

}  // namespace gnomon::lab::image_examples
