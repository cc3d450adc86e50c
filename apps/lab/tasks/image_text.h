// The task image-text: which of two captions describes a picture of two shapes. The captions
// have the same words in different orders:
//
//   circle left of square
//   square left of circle
//
// Without the places of the patches or without the order of the words, the two captions cannot
// be told apart. Shapes have a fixed size, so a larger grid is a larger picture with larger
// distances.
//
// Letters: B pictures, K captions of a picture, W words of a caption.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/task.h"

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

// The word numbers of caption k of a scene, [W]: a shape, the relation, a shape, ... Shapes
// come before relations in the numbering. Caption 0 has the shapes in ascending order.
std::array<std::int64_t, words> caption(const Scene& scene, std::int64_t k);
// "circle left of square"
std::string caption_text(const Scene& scene, std::int64_t k);

// The names for pictures and text of an entry of --encodings. An encoding of a grid has the
// counterpart of a line on the text: sinusoidal for sinusoidal-grid and detr, rotary for
// rotary-axial, learned for axial and axial-summed, t5 for swin, swin-v2 and decomposed. With
// the suffix text or image, the other side has "none".
struct Sides {
  std::string picture, text;
};
Sides sides_of(const std::string& encoding);

}  // namespace gnomon::lab::image_text_examples
