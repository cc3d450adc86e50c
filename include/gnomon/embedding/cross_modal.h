// Embeddings of one sequence of text tokens and image patches. The position of a text token is
// its index, the position of a patch is its row and column, and a trained type vector marks the
// modality.
//
//   Kim, Son, Kim. "ViLT: Vision-and-Language Transformer Without Convolution or Region
//   Supervision", 2021. https://arxiv.org/abs/2102.03334, section 3.1.
//
//   row of a text token   sinusoid(index) + types[0]
//   row of a patch        sinusoids(y, x) + types[type of its image]
//
// The row of a patch does not depend on the place of its image in the sequence. With
// TextIndex::text, the row of a text token does not depend on the images. For the positions of
// M-RoPE, which rotates instead of adding, see gnomon/position/multimodal.h.
//
// Letters: T tokens, C width, M types.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/position/multimodal.h"
#include "gnomon/view.h"

namespace gnomon {

// The index of a text token.
enum class TextIndex {
  text = 1,  // number of text tokens before it
  sequence,  // number of tokens of any kind before it
};

// The type of the patches of an image.
enum class ImageType {
  one = 1,    // 1 for every image
  by_number,  // 1, 2, ... in the order of the images; ViLT for pairs of images, M = 3
};

struct CrossModal {
  Sinusoidal text;         // width C
  SinusoidalGrid patches;  // columns y (0) and x (1), width C
  std::int64_t types = 0;  // M, at least 2; type 0 is text
  TextIndex index = {};
  ImageType image_type = {};

  bool operator==(const CrossModal&) const = default;
};

// The sinusoid of Vaswani et al. for text, the grid of MAE for patches, TextIndex::text and
// ImageType::one. width: a multiple of 4.
CrossModal cross_modal_usual(std::int64_t width);

// Types and positions of the tokens of a sequence.
struct CrossModalTokens {
  std::vector<std::int64_t> types;    // [T]
  std::vector<std::int64_t> indices;  // indices of the text tokens, in sequence order
  Grid patches;                       // coordinates y, x of the patches, in sequence order

  std::int64_t tokens() const noexcept { return static_cast<std::int64_t>(types.size()); }
  bool operator==(const CrossModalTokens&) const = default;
};

// Returns the types and positions of a sequence of texts and images. Image sizes are in
// patches, and patches are in row-major order. `offset`: number of text tokens before the
// sequence, as in decoding.
//
// Throws std::invalid_argument if the spec breaks its bounds, a text has fewer than 0 tokens,
// an image has fewer than 1 row or column, an image has a number without a type, or the
// sequence contains a video. Pass the frames of a video as images.
CrossModalTokens cross_modal_tokens(const CrossModal& spec, std::span<const MultimodalSpan> row,
                                    std::int64_t offset = 0);

// Returns the plan, a table [T, C]. types: [M, C]. Sinusoids as in sinusoidal.h and grid.h,
// summed in double and rounded once.
EmbeddingTable lower(const CrossModal& spec, const CrossModalTokens& tokens,
                     View<const float, 2> types);

// Gradient of `cross_modal_table` with respect to the types: adds table_grad [T, C] to
// types_grad [M, C], in double, in the order of the tokens, with one rounding per entry.
void lower_backward(const CrossModal& spec, const CrossModalTokens& tokens,
                    View<const float, 2> table_grad, View<float, 2> types_grad);

}  // namespace gnomon
