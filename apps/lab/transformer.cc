#include "apps/lab/transformer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>

namespace gnomon::lab {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

// GPT-2's initial deviation. The token embeddings get a larger one, so that a table of sines
// added to them does not drown them.
constexpr double deviation = 0.02, embedding_deviation = 0.5;

LayerNorm norm(std::int64_t width) { return LayerNorm(LayerNormOptions({width})); }
Linear linear(std::int64_t in, std::int64_t out) {
  return Linear(LinearOptions(in, out).bias(false));
}

void draw(at::Tensor weight, double spread, at::Generator& generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, spread, generator);
}

}  // namespace

TransformerImpl::Block::Block(std::int64_t width, std::int64_t head_count)
    : heads(head_count),
      attention_norm(register_module("attention_norm", norm(width))),
      feed_norm(register_module("feed_norm", norm(width))),
      qkv(register_module("qkv", linear(width, 3 * width))),
      attention_out(register_module("attention_out", linear(width, width))),
      feed_in(register_module("feed_in", linear(width, 4 * width))),
      feed_out(register_module("feed_out", linear(4 * width, width))) {}

at::Tensor TransformerImpl::Block::forward(at::Tensor x, libtorch::PositionEncoding& position) {
  const std::int64_t windows = x.size(0), bytes = x.size(1), width = x.size(2);
  const auto parts =
      qkv(attention_norm(x)).view({windows, bytes, 3, heads, width / heads}).unbind(2);
  const at::Tensor attended = position->attend(parts[0], parts[1], parts[2],
                                               {.visibility = Visibility::causal,
                                                .before = std::nullopt,
                                                .softmax_scale = std::nullopt});
  x = x + attention_out(attended.reshape({windows, bytes, width}));
  return x + feed_out(torch::gelu(feed_in(feed_norm(x))));
}

TransformerImpl::TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                                 std::uint64_t seed)
    : embedding_(
          register_module("embedding", torch::nn::Embedding(vocabulary, settings.width))),
      norm_(register_module("norm", norm(settings.width))),
      head_(register_module("head", linear(settings.width, vocabulary))) {
  // Generators of our own: LibTorch's default one is shared by all threads.
  at::Generator shared = at::make_generator<at::CPUGeneratorImpl>(2 * seed);
  draw(embedding_->weight, embedding_deviation, shared);
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(settings.layers));
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    blocks_.push_back(register_module("block" + std::to_string(layer),
                                      std::make_shared<Block>(settings.width, settings.heads)));
    Block& block = *blocks_.back();
    draw(block.qkv->weight, deviation, shared);
    draw(block.attention_out->weight, residual, shared);
    draw(block.feed_in->weight, deviation, shared);
    draw(block.feed_out->weight, residual, shared);
  }
  draw(head_->weight, deviation, shared);
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(2 * seed + 1);
  position_ = register_module("position", libtorch::PositionEncoding(encoding, own));
}

at::Tensor TransformerImpl::forward(const at::Tensor& bytes) {
  at::Tensor x = position_->embed(embedding_(bytes));
  for (const auto& block : blocks_) x = block->forward(x, position_);
  return head_(norm_(x));
}

std::int64_t TransformerImpl::parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& one : parameters()) count += one.numel();
  return count;
}

std::int64_t TransformerImpl::position_parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& one : position_->parameters()) count += one.numel();
  return count;
}

}  // namespace gnomon::lab
