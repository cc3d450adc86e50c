// The layers that the Transformers of the lab share: pre-norm, GELU, linear layers without
// biases.
//
// Letters: B rows of a batch, T tokens, M rows and S tokens of a memory, C width, H heads,
// D head_dim.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <string_view>

#include "gnomon/torch/position.h"

namespace gnomon::lab {

// A generator that depends on `seed` only. LibTorch's default generator is shared by all
// threads.
at::Generator seeded_generator(std::uint64_t seed);

// The number of parameters whose names begin with `prefix`.
std::int64_t parameter_count(const torch::nn::Module& module, std::string_view prefix = "");

torch::nn::LayerNorm layer_norm(std::int64_t width);
// A linear layer without a bias, or a table, with normally distributed weights.
torch::nn::Linear drawn_linear(std::int64_t in, std::int64_t out, double deviation,
                               at::Generator& generator);
torch::nn::Embedding drawn_embedding(std::int64_t rows, std::int64_t width, double deviation,
                                     at::Generator& generator);

// Initial deviations of the weights of a block.
enum class Init {
  gpt2 = 1,  // 0.02
  fan_in,    // 1 / sqrt(inputs)
};

// Attention of the tokens to each other, then two linear layers. The layers that are added to
// the residual stream have a deviation smaller by the root of their number in the network, as
// in GPT-2.
struct Block : torch::nn::Module {
  // GPT-2's deviation. Token embeddings have a larger one, so that a table of sines that is
  // added to them does not dominate.
  static constexpr double weight_deviation = 0.02, embedding_deviation = 0.5;

  // residual_layers: in the network.
  Block(std::int64_t width, std::int64_t heads, std::int64_t residual_layers, Init init,
        at::Generator& generator);

  // hidden: [B, T, C], normalised. Returns the heads of q, then of k, then of v:
  // [B, T, 3 H, D].
  at::Tensor project(const at::Tensor& hidden);
  // x: [B, T, C]; attended: [B, T, H, D]. Returns [B, T, C].
  at::Tensor add_attention(const at::Tensor& x, const at::Tensor& attended);
  at::Tensor add_feed(const at::Tensor& x);

  std::int64_t heads;
  torch::nn::LayerNorm attention_norm, feed_norm;
  torch::nn::Linear qkv, attention_out, feed_in, feed_out;
};

// A block that also attends to a memory, without positions.
struct CrossBlock : Block {
  CrossBlock(std::int64_t width, std::int64_t heads, std::int64_t residual_layers, Init init,
             at::Generator& generator);

  struct Memory {
    at::Tensor keys, values;  // [M, S, H, D]
  };
  // memory: [M, S, C].
  Memory project_memory(const at::Tensor& memory);
  // x: [B, T, C]; B = n M, and rows i n to i n + n - 1 attend to row i of the memory. Returns
  // [B, T, C].
  at::Tensor add_memory(const at::Tensor& x, const Memory& memory);

  torch::nn::LayerNorm memory_norm;
  torch::nn::Linear memory_q, memory_kv, memory_out;
  libtorch::PositionEncoding no_position;
};

}  // namespace gnomon::lab
