// Patches of pictures, and position encodings on grids of patches.
//
// The tokens of a picture are its patches, row by row. An encoding of a grid (rotary-axial,
// swin) has the row and the column of a token; an encoding of a line (rotary, t5) has its
// number.
//
// Letters: B pictures, P pixels a side, N patches a side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/lab/tasks/bidirectional.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::image_examples {

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

}  // namespace gnomon::lab::image_examples
