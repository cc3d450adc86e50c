// The Transformer that the lab trains: bytes in, logits of the next byte out; causal, pre-norm,
// GELU. Position is a gnomon::libtorch::PositionEncoding, used as any model would use it.
//
// Letters: B windows, T bytes in a window, C width, H heads.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "apps/lab/options.h"
#include "gnomon/torch/position.h"

namespace gnomon::lab {

constexpr std::int64_t vocabulary = 256;

class TransformerImpl : public torch::nn::Module {
 public:
  // The weights that every encoding shares depend on `seed` alone; the encoding's own
  // parameters are drawn apart.
  TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                  std::uint64_t seed);

  // bytes: [B, T] int64; returns [B, T, 256]. Throws beyond the encoding's capacity.
  at::Tensor forward(const at::Tensor& bytes);

  const libtorch::PositionEncoding& position() const { return position_; }
  std::int64_t parameter_count() const;
  // Of the encoding alone.
  std::int64_t position_parameter_count() const;

 private:
  struct Block : torch::nn::Module {
    Block(std::int64_t width, std::int64_t heads);

    std::int64_t heads;
    torch::nn::LayerNorm attention_norm, feed_norm;
    torch::nn::Linear qkv, attention_out, feed_in, feed_out;
  };

  torch::nn::Embedding embedding_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
  libtorch::PositionEncoding position_{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace gnomon::lab
