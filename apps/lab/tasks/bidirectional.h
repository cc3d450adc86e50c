// The layers of the bidirectional Transformer of the tasks graph and classify: pre-norm, GELU,
// with the sizes and the initial weights of transformer.h.
//
// Letters: B examples, T tokens, C width, H heads, D head_dim.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "apps/lab/options.h"

namespace gnomon::lab {

// A seeded generator of its own: LibTorch's default generator is shared by all threads.
at::Generator seeded_generator(std::uint64_t seed);

// A linear layer without a bias, or a table, with normally distributed weights.
torch::nn::Linear drawn_linear(std::int64_t in, std::int64_t out, double deviation,
                               at::Generator& generator);
torch::nn::Embedding drawn_embedding(std::int64_t rows, std::int64_t width, double deviation,
                                     at::Generator& generator);

class BidirectionalImpl : public torch::nn::Module {
 public:
  static constexpr double weight_deviation = 0.02, embedding_deviation = 0.5;

  BidirectionalImpl(const Settings& settings, at::Generator& generator);

  // The attention of a layer. qkv: [B, T, 3 H, D], the heads of q, then of k, then of v; hidden:
  // [B, T, C], the input of the layer. Returns [B, T, H, D].
  using Attend = std::function<at::Tensor(std::int64_t layer, const at::Tensor& qkv,
                                          const at::Tensor& hidden)>;
  // x: [B, T, C], the embeddings. Returns [B, T, C], after the last norm.
  at::Tensor forward(at::Tensor x, const Attend& attend);

 private:
  struct Block : torch::nn::Module {
    Block(const Settings& settings, at::Generator& generator);

    torch::nn::LayerNorm attention_norm, feed_norm;
    torch::nn::Linear qkv, attention_out, feed_in, feed_out;
  };

  std::int64_t heads_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Bidirectional);

}  // namespace gnomon::lab
