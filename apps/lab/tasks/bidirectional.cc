#include "apps/lab/tasks/bidirectional.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace gnomon::lab {

at::Generator seeded_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

torch::nn::Linear drawn_linear(std::int64_t in, std::int64_t out, double deviation,
                               at::Generator& generator) {
  torch::nn::Linear layer(torch::nn::LinearOptions(in, out).bias(false));
  const at::NoGradGuard no_grad;
  layer->weight.normal_(0.0, deviation, generator);
  return layer;
}

torch::nn::Embedding drawn_embedding(std::int64_t rows, std::int64_t width, double deviation,
                                     at::Generator& generator) {
  torch::nn::Embedding table(rows, width);
  const at::NoGradGuard no_grad;
  table->weight.normal_(0.0, deviation, generator);
  return table;
}

BidirectionalImpl::Block::Block(const Settings& s, at::Generator& generator)
    : attention_norm(register_module(
          "attention_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({s.width})))),
      feed_norm(register_module("feed_norm",
                                torch::nn::LayerNorm(torch::nn::LayerNormOptions({s.width})))),
      qkv(register_module("qkv",
                          drawn_linear(s.width, 3 * s.width, weight_deviation, generator))),
      attention_out(register_module(
          "attention_out",
          drawn_linear(s.width, s.width,
                       weight_deviation / std::sqrt(2.0 * static_cast<double>(s.layers)),
                       generator))),
      feed_in(register_module("feed_in",
                              drawn_linear(s.width, 4 * s.width, weight_deviation, generator))),
      feed_out(register_module(
          "feed_out",
          drawn_linear(4 * s.width, s.width,
                       weight_deviation / std::sqrt(2.0 * static_cast<double>(s.layers)),
                       generator))) {}

BidirectionalImpl::BidirectionalImpl(const Settings& settings, at::Generator& generator)
    : heads_(settings.heads),
      norm_(register_module(
          "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({settings.width})))) {
  for (std::int64_t layer = 0; layer < settings.layers; ++layer)
    blocks_.push_back(register_module("block" + std::to_string(layer),
                                      std::make_shared<Block>(settings, generator)));
}

at::Tensor BidirectionalImpl::forward(at::Tensor x, const Attend& attend) {
  const std::int64_t examples = x.size(0), tokens = x.size(1), width = x.size(2);
  for (std::int64_t layer = 0; layer < std::ssize(blocks_); ++layer) {
    Block& block = *blocks_[static_cast<std::size_t>(layer)];
    const at::Tensor hidden = block.attention_norm(x);
    const at::Tensor qkv = block.qkv(hidden).view({examples, tokens, 3 * heads_, -1});
    const at::Tensor attended = attend(layer, qkv, hidden);
    x = x + block.attention_out(attended.reshape({examples, tokens, width}));
    x = x + block.feed_out(at::gelu(block.feed_in(block.feed_norm(x))));
  }
  return norm_(x);
}

}  // namespace gnomon::lab
