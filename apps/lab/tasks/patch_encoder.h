// Bidirectional Transformer encoders for patches of pictures and for words, and position
// encodings on grids of patches.
//
// The tokens of a picture are its patches, row by row. An encoding of a grid (rotary-axial, swin)
// has the row and the column of a token; an encoding of a line (rotary, t5) has its number.
//
// Letters: B rows of a batch, T tokens, S tokens of a memory, C width, N patches a side.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/options.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::image_task {

// pixels: [B, P, P], float32, P = N patch. Returns [B, N N, patch patch].
at::Tensor patches_of(const at::Tensor& pixels, std::int64_t patch);

// Sizes of a model. Its weights are drawn from `generator`.
struct EncoderSizes {
  std::int64_t layers, width, heads;
};
// A linear layer without biases. Its weights have the deviation factor / sqrt(in).
torch::nn::Linear linear(std::int64_t in, std::int64_t out, double factor,
                         at::Generator& generator);
// The factor of patches. The lines of a picture then have embeddings with a deviation of about 1,
// so that a table of sines that is added to them does not dominate.
constexpr double patch_factor = 2;

// Pre-norm, GELU, as the Transformer of text. With CrossAttention::memory, each layer attends to
// a memory, without position, after its self-attention.
enum class CrossAttention { none = 1, memory };

class EncoderImpl : public torch::nn::Module {
 public:
  EncoderImpl(const EncoderSizes& sizes, CrossAttention cross, at::Generator& generator);

  // x: [B, T, C]; memory: [B / n, S, C] for n rows of x each. Adds the table of `position` to x
  // and returns [B, T, C], normalised. Throws std::invalid_argument for tokens beyond the
  // capacity of `position`.
  at::Tensor forward(const at::Tensor& x, libtorch::PositionScheme position,
                     const at::Tensor& memory = {});

 private:
  struct Block : torch::nn::Module {
    torch::nn::LayerNorm attention_norm{nullptr}, cross_norm{nullptr}, feed_norm{nullptr};
    torch::nn::Linear qkv{nullptr}, attention_out{nullptr}, cross_query{nullptr},
        cross_keys{nullptr}, cross_out{nullptr}, feed_in{nullptr}, feed_out{nullptr};
  };
  at::Tensor across(Block& block, const at::Tensor& x, const at::Tensor& memory);

  std::int64_t heads_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  libtorch::PositionEncoding no_position_{nullptr};
};
TORCH_MODULE(Encoder);

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

}  // namespace gnomon::lab::image_task
