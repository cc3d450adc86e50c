// The Transformer of the lab and its training step in eager PyTorch: only LibTorch's operators
// and modules, with position as in released eager implementations. The benchmark compares the
// lab with it. It uses only the specs of Gnomon.
#pragma once

#include <torch/nn.h>
#include <torch/optim.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/lab/options.h"
#include "apps/lab/windows.h"

namespace gnomon::lab {

class EagerTransformerImpl : public torch::nn::Module {
 public:
  // encoding: none, sinusoidal, rotary, alibi or t5. Throws std::invalid_argument for others.
  EagerTransformerImpl(const Settings& settings, std::string encoding);
  at::Tensor forward(const at::Tensor& bytes);  // [B, T] int64 to [B, T, 256]

 private:
  struct Block : torch::nn::Module {
    Block(std::int64_t width, std::int64_t heads);
    std::int64_t heads;
    torch::nn::LayerNorm attention_norm, feed_norm;
    torch::nn::Linear qkv, attention_out, feed_in, feed_out;
  };
  at::Tensor attend(Block& block, const at::Tensor& x, const at::Tensor& bias);
  at::Tensor bias() const;  // [H, T, T], or undefined

  std::string encoding_;
  torch::nn::Embedding embedding_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
  // Computed once for the training length, like buffers of PyTorch modules.
  at::Tensor hidden_;                 // [T, T]: keys that a query does not see
  at::Tensor table_, cos_, sin_;      // sinusoidal [T, C], rotary [T, D]
  at::Tensor slopes_bias_, buckets_;  // ALiBi [H, T, T], T5 [T, T]
  at::Tensor bucket_values_;          // T5's parameter [buckets, H]
};
TORCH_MODULE(EagerTransformer);

// The optimizer and the learning rates of the lab, with LibTorch's AdamW.
class EagerRun {
 public:
  // Starts from the weights of `like`, whose parameters have the same names.
  EagerRun(const Settings& settings, const std::string& encoding,
           const torch::nn::Module& like);
  double train_step(const Batch& batch);  // returns its loss in bits per byte

 private:
  const Settings& settings_;
  EagerTransformer model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::int64_t step_ = 0;
};

}  // namespace gnomon::lab
