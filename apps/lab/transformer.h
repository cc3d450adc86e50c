// The Transformer that the lab trains: bytes in, logits of the next byte (or of a masked one)
// out; pre-norm, GELU. Position is what gnomon::libtorch::PositionScheme makes of a scheme,
// used as any model would use it.
//
// Letters: B windows, T bytes in a window, C width, H heads.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "apps/lab/options.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab {

constexpr std::int64_t vocabulary = 256;

struct ForwardOptions {
  Visibility visibility = Visibility::causal;
  std::vector<std::int64_t> ids = {};  // positions of the T bytes; empty: 0 to T - 1
};

class TransformerImpl : public torch::nn::Module {
 public:
  // The weights that every scheme shares depend on `seed` alone; the encodings' own parameters
  // are drawn apart.
  TransformerImpl(const Settings& settings, model::Scheme scheme, std::uint64_t seed);
  // The same encoding in every layer.
  TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                  std::uint64_t seed);

  // bytes: [B, T] int64; returns [B, T, 256]. Throws beyond the encodings' capacity.
  at::Tensor forward(const at::Tensor& bytes, const ForwardOptions& options = {});

  const model::Scheme& scheme() const { return position_->scheme(); }
  // What acts before the layers, and within one.
  const libtorch::PositionEncoding& table() const { return position_->table(); }
  const libtorch::PositionEncoding& position(std::int64_t layer) const {
    return position_->layer(layer);
  }
  std::int64_t parameter_count() const;
  // Of the encodings alone.
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
  libtorch::PositionScheme position_{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace gnomon::lab
