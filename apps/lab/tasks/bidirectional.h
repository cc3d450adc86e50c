// The bidirectional Transformer of the tasks with examples of other kinds than letters.
//
// Letters: B examples, T tokens, M rows and S tokens of a memory, C width, H heads, D head_dim.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/model/layers.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab {

struct EncoderSizes {
  std::int64_t layers, width, heads;
};

enum class CrossAttention { none = 1, memory };

class BidirectionalImpl : public torch::nn::Module {
 public:
  // With CrossAttention::memory, each layer attends to a memory after its self-attention.
  BidirectionalImpl(const EncoderSizes& sizes, CrossAttention cross, Init init,
                    at::Generator& generator);
  // The sizes of the settings, without cross-attention, with Init::gpt2.
  BidirectionalImpl(const Settings& settings, at::Generator& generator);

  // The attention of a layer. qkv: [B, T, 3 H, D], the heads of q, then of k, then of v;
  // hidden: [B, T, C], the input of the layer. Returns [B, T, H, D].
  using Attend = std::function<at::Tensor(std::int64_t layer, const at::Tensor& qkv,
                                          const at::Tensor& hidden)>;
  // x: [B, T, C], the embeddings; memory: [M, S, C], see CrossBlock. Returns [B, T, C], after
  // the last norm.
  at::Tensor forward(at::Tensor x, const Attend& attend, const at::Tensor& memory = {});

  // With an encoding. Throws std::invalid_argument for positions beyond its capacity.
  at::Tensor encode(const at::Tensor& x, libtorch::PositionScheme position,
                    const std::optional<Positions>& positions = {},
                    const at::Tensor& memory = {});

 private:
  std::int64_t heads_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Bidirectional);

}  // namespace gnomon::lab
